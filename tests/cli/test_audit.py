"""The command `audit`: folder, summary, going on, exit codes, options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from gradskip_onnx.audit.reading import read_audit
from tests.support.command_line import fails, run
from tests.support.evaluation_data import FLAGS, model_bytes, pictures

pytest.importorskip("pyarrow")

COUNT = 12
QUICK = ("--method", "grad-cam", "--check-draws", "2", "--batch-size", "4", *FLAGS)


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("audit")
    (folder / "vit.onnx").write_bytes(model_bytes())
    pictures(folder / "photos", COUNT)
    return folder


def audit(place: Path, output: Path, *more: object):
    return run("audit", place / "vit.onnx", place / "photos", "-o", output, *QUICK, *more)


def test_an_audit(place, tmp_path):
    result = audit(place, tmp_path / "out", "--region", "logo=corner:top-left", "--json")

    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["images"] == said["explained"] == said["labelled"] == COUNT
    assert said["logits_difference"] < 1e-4
    found = read_audit(tmp_path / "out")
    assert found.facts["regions"][0]["name"] == "logo"
    assert said["passed"] == sum(found.table["check_passed"].to_pylist())
    assert said["abstained"] == COUNT - found.table["abstained"].null_count


def test_it_is_told_in_words(place, tmp_path):
    result = audit(place, tmp_path / "out", "--limit", "4")

    assert result.exit_code == 0, result.output
    assert "4 explained, 0 failed" in result.output
    assert "differ by at most" in result.output


def test_it_goes_on(place, tmp_path):
    first = audit(place, tmp_path / "out")
    again = audit(place, tmp_path / "out")

    assert first.exit_code == again.exit_code == 0
    summaries = [result.stdout.partition("results ")[0] for result in (first, again)]
    assert summaries[0] == summaries[1]
    assert "12 explained" in summaries[0]


def test_another_audit_is_refused(place, tmp_path):
    audit(place, tmp_path / "out")

    fails(audit(place, tmp_path / "out", "--seed", "7"), 2, "holds another audit", "seed is 0 there and 7 here")


def test_a_bad_image(place, tmp_path):
    folder = pictures(tmp_path / "photos", COUNT)
    (folder / "03.png").write_bytes(b"no image")

    result = run("audit", place / "vit.onnx", folder, "-o", tmp_path / "out", *QUICK)

    assert result.exit_code == 6
    assert "11 explained, 1 failed" in result.stdout
    assert "03.png: not an image" in result.stderr


def test_labels_that_the_model_does_not_know_are_told(place, tmp_path):
    """Else the report would say that there are no labels, and nobody would know why."""
    folder = pictures(tmp_path / "photos", 3)
    (folder / "labels.csv").write_text("file,label\n00.png,1\n01.png,unicorn\n02.png,griffin\n")
    result = run("audit", place / "vit.onnx", folder, "-o", tmp_path / "out", *QUICK)

    assert result.exit_code == 0, result.output
    assert "warning: 2 labels of the dataset are unused" in result.stderr
    assert "unicorn" in result.stderr


def test_nobody_writes_between_the_report_and_the_manifest(place, tmp_path, monkeypatch):
    """A second run at that moment would make the manifest one of files that it is about to replace."""
    from gradskip_onnx.audit.place import open_place
    from gradskip_onnx.errors import InputError
    from gradskip_onnx.report import write

    def intrude(*_: object) -> None:
        with pytest.raises(InputError, match="in use by another run"), open_place(tmp_path / "out").held():
            pass
        raise InputError("seen")

    monkeypatch.setattr(write, "write_report", intrude)
    fails(audit(place, tmp_path / "out", "--limit", "4"), 2, "seen")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--region", "x"), "NAME=KIND"),
        (("--region", "x=corner:nowhere"), "top-left"),
        (("--region", "a=text", "--region", "a=text"), "named twice"),
        (("--region-file", "missing.toml"), "missing.toml"),
        (("--check-share", "1.5"), "fraction above 0"),
        (("--method", "nothing"), "unknown method"),
        (("-O", "nothing=1"), "NAME=VALUE"),
        (("-o", "nosuchscheme://x"), "no such kind of address"),
        (("--workers", "9999"), "workers"),
    ],
)
def test_wrong_options(place, tmp_path, option, message):
    result = audit(place, tmp_path / "out", *option)

    fails(result, 2, message)
    assert not (tmp_path / "out" / "parts").exists()


def test_privacy(place, tmp_path):
    audit(place, tmp_path / "out", "--privacy", "--limit", "4")

    written = b"".join(path.read_bytes() for path in sorted((tmp_path / "out").rglob("*")) if path.is_file())
    assert b"00.png" not in written
    assert b"photos" not in written


def test_privacy_of_every_file(place, tmp_path):
    """Names of images, masks and folders, also of those that fail, and those of regions: in no file, in no column."""
    data = pictures(tmp_path / "patients", 4)
    (data / "labels.csv").unlink()
    for at, name in enumerate(("meier", "huber", "wagner", "bauer")):
        (data / f"0{at}.png").rename(data / f"{name}.png")
    (data / "huber.png").write_bytes(b"no image")
    Image.new("L", (32, 32), 255).save(data / "lesion_of_meier.png")
    Image.new("L", (8, 8), 255).save(data / "too_small.png")
    rows = ("meier.png,1,lesion_of_meier.png", "huber.png,2,", "wagner.png,0,too_small.png", "bauer.png,1,absent.png")
    (data / "ward7.csv").write_text("image,label,mask\n" + "\n".join(rows) + "\n")
    result = run("audit", place / "vit.onnx", data / "ward7.csv", "-o", tmp_path / "out", *QUICK, "--privacy",
                 "--region", f"logo=mask:{data / 'lesion_of_meier.png'}")  # fmt: skip

    assert result.exit_code == 6, result.output
    assert "1 explained, 3 failed" in result.stdout
    found = read_audit(tmp_path / "out")
    texts = [path.read_text() for path in (tmp_path / "out").glob("*.*") if path.suffix in (".json", ".html", ".md")]
    for word in ("huber", "wagner", "bauer", "ward7", "patients", "too_small", "absent", str(tmp_path)):
        assert word not in str(found.table.to_pylist()) + "".join(texts), word


def test_a_list(place, tmp_path):
    (place / "photos" / "list.csv").write_text("image,label,boxes\n01.png,1,0 0 9 9\n04.png,4,\n")

    result = run(
        "audit", place / "vit.onnx", place / "photos" / "list.csv", "-o", tmp_path, *QUICK, "--target", "label"
    )

    assert result.exit_code == 0, result.output
    assert read_audit(tmp_path).table["target"].to_pylist() == [1, 4]
