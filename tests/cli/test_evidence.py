"""verify and replay on the command line: exit codes, what they print, and names that cannot steer the terminal."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from tests.support.command_line import fails, run
from tests.support.evaluation_data import FLAGS, model_bytes, pictures

COUNT = 6
BAD = "b\x1b[2J\u202e.png"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit of a model, of which a name of an image and a class try to steer the terminal."""
    top = tmp_path_factory.mktemp("audited")
    (top / "m.onnx").write_bytes(model_bytes())
    data = pictures(top / "data", COUNT)
    (data / "01.png").rename(data / BAD)
    table = data / "labels.csv"
    table.write_text(table.read_text().replace("01.png", BAD))
    (top / "names.json").write_text(json.dumps(["ant\x1b[31m", "</script>", "cat", "dog", "elk"]))
    settings = ("--method", "rollout", "--part-size", 2, "--batch-size", 2, "--labels", top / "names.json", *FLAGS)
    done = run("audit", top / "m.onnx", data, "-o", top / "audit", *settings)
    assert done.exit_code == 0, done.output
    assert "\x1b" not in done.output
    (top / "said.txt").write_text(done.stdout)
    return top


@pytest.fixture
def top(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "copy"))


def noted(top: Path) -> str:
    """The hash that `audit` printed."""
    return next(line.split()[2] for line in (top / "said.txt").read_text().splitlines() if line.startswith("manifest"))


def everything(top: Path) -> list[object]:
    return [top / "audit", "--model", top / "m.onnx", "--data", top / "data"]


def test_an_audit_is_verified_against_the_hash_that_was_printed(top: Path):
    done = run("verify", *everything(top), "--expect", noted(top))

    assert done.exit_code == 0, done.output
    assert "verified: it is the manifest that was expected" in done.stdout
    assert f"images                       {COUNT} of {COUNT}" in done.stdout


@pytest.mark.parametrize(
    "file",
    ["audit/audit.json", "audit/findings.json", "audit/report.html", "audit/report.json", "audit/model-card.md",
     "audit/manifest.json", "audit/parts/part-00001.parquet", "m.onnx", "data/03.png"],
)  # fmt: skip
@pytest.mark.parametrize("place", [0.0, 0.5])
def test_one_flipped_byte_fails_and_is_named(top: Path, file: str, place: float):
    """In the middle, and at the very beginning, where JSON, Parquet and pictures are no longer what they are."""
    content = bytearray((top / file).read_bytes())
    content[int(place * len(content))] ^= 1
    (top / file).write_bytes(bytes(content))

    fails(run("verify", *everything(top)), 5, "checks failed", file.removeprefix("audit/").removeprefix("data/"))


def test_what_is_not_proven_is_said(top: Path):
    done = run("verify", top / "audit")

    assert done.exit_code == 0, done.output
    assert "not checked  model m.onnx" in done.stdout
    assert "could have made all of them anew" in done.stdout


def test_another_hash_than_the_expected_one(top: Path):
    fails(run("verify", top / "audit", "--expect", "0" * 64), 5, "manifest.json", "expected 000")


def test_json_of_verify(top: Path):
    document = json.loads(run("verify", top / "audit", "--json").stdout)

    assert document["verified"] is True
    assert document["manifest"] == noted(top)
    assert {check["state"] for check in document["checks"]} == {"ok", "not checked"}


def test_names_cannot_steer_the_terminal(top: Path):
    (top / "data" / BAD).write_bytes((top / "data" / "00.png").read_bytes())
    for command in ("verify", "replay"):
        done = run(command, *everything(top), "-v", *(("--sample", "all") if command == "replay" else ()))

        assert done.exit_code == 5, done.output
        assert "\x1b" not in done.output
        assert "\u202e" not in done.output
        assert "b?[2J?.png" in done.output


def test_a_sample_is_replayed(top: Path):
    done = run("replay", *everything(top), "--sample", 3, "--seed", 5)

    assert done.exit_code == 0, done.output
    assert "replayed: 3 images, drawn with seed 5" in done.stdout
    assert done.stdout.count("ok           image ") == 3


def test_a_folder_that_was_changed_is_not_replayed(top: Path):
    (top / "audit" / "report.html").write_text("")

    fails(run("replay", *everything(top)), 5, "report.html")


def test_json_of_replay(top: Path):
    document = json.loads(run("replay", *everything(top), "--sample", "all", "--json").stdout)

    assert document["verified"] is True
    assert len(document["images"]) == COUNT


@pytest.mark.parametrize("words", [["--sample", "0"], ["--sample", "many"], ["--sample", "-1"]])
def test_samples_that_are_none(top: Path, words: list[str]):
    assert run("replay", *everything(top), *words).exit_code == 2


def test_folders_without_an_audit(tmp_path: Path):
    (tmp_path / "m.onnx").write_bytes(model_bytes())

    fails(run("verify", tmp_path), 2, "manifest.json")
    fails(run("replay", tmp_path, "--model", tmp_path / "m.onnx"), 2, "no audit here")
