"""`explain` over a folder: goes on where it was stopped, redoes what changed, and writes an overview."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gradskip_onnx.pipeline.ledger import Ledger
from tests.support.command_line import SETTINGS, fails, run

RESULTS = {f"p{number}.{kind}" for number in range(3) for kind in ("png", "npy", "json")}
OVERVIEW = {"index.html", "summary.csv", "explanations.jsonl", ".gradskip-lock"}


@pytest.fixture
def photos(place: Path, tmp_path: Path) -> Path:
    shutil.copytree(place / "photos", tmp_path / "photos")
    return tmp_path / "photos"


def explain(place: Path, photos: Path, *more: object):
    return run("explain", place / "vit.onnx", photos, "-o", photos.parent / "out", *SETTINGS, *more)


def changed(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir() if path.name in RESULTS}


def test_a_second_run_skips_what_is_done(place, photos):
    assert explain(place, photos).exit_code == 0
    out = photos.parent / "out"
    before = changed(out)
    again = explain(place, photos)

    assert again.exit_code == 0, again.output
    assert "skipped   3" in again.stdout
    assert " -> " not in again.stdout
    assert changed(out) == before
    assert {path.name for path in out.iterdir()} == RESULTS | OVERVIEW


@pytest.mark.parametrize("target", [(), ("--target", "top5")], ids=str)
def test_a_stopped_run_goes_on(place, photos, monkeypatch, target):
    """Killed between the files of the second image: the first stays, the others are made."""
    out = photos.parent / "out"
    monkeypatch.setattr(Ledger, "append", stop_at(Ledger.append, 4))
    with pytest.raises(Killed):
        raise explain(place, photos, *target).exception or AssertionError("it was not killed")
    monkeypatch.undo()
    before = {path: path.stat().st_mtime_ns for path in out.glob("p0*")}
    assert len(list(out.glob("p1*"))) >= 3  # written, but not noted as done
    again = explain(place, photos, *target)

    assert again.exit_code == 0, again.output
    assert "skipped   1" in again.stdout
    assert {path: path.stat().st_mtime_ns for path in out.glob("p0*")} == before
    fresh = run("explain", place / "vit.onnx", photos, "-o", photos.parent / "fresh", *SETTINGS, *target)
    assert fresh.exit_code == 0
    for path in out.glob("*.npy"):
        np.testing.assert_array_equal(np.load(path), np.load(photos.parent / "fresh" / path.name))
    assert {path.name for path in out.iterdir()} == {path.name for path in (photos.parent / "fresh").iterdir()}


class Killed(BaseException):
    """Ends a run as a signal does: nothing catches it."""


def stop_at(append, count: int):
    calls = []

    def counted(self: Ledger, record) -> None:
        calls.append(record)
        if len(calls) == count:
            raise Killed
        append(self, record)

    return counted


def test_other_options_are_refused_and_forced(place, photos):
    assert explain(place, photos).exit_code == 0
    fails(
        explain(place, photos, "--method", "rollout"), 2, "p0: made from another image or model, or with other options"
    )
    forced = explain(place, photos, "--method", "rollout", "--force")

    assert forced.exit_code == 0
    assert "skipped" not in forced.stdout
    assert json.loads((photos.parent / "out" / "p2.json").read_text())["method"] == "rollout"


def test_another_image_of_that_name_is_noticed(place, photos):
    assert explain(place, photos).exit_code == 0
    Image.new("RGB", (20, 20), "red").save(photos / "p1.png")

    fails(explain(place, photos), 2, "p1: made from another image")


def test_lost_files_and_new_images_are_made(place, photos):
    assert explain(place, photos).exit_code == 0
    (photos.parent / "out" / "p1.npy").unlink()
    Image.new("RGB", (20, 20), "red").save(photos / "q.png")
    again = explain(place, photos)

    assert again.exit_code == 0, again.output
    assert "skipped   2" in again.stdout
    assert {path.name for path in (photos.parent / "out").glob("*.npy")} == {"p0.npy", "p1.npy", "p2.npy", "q.npy"}


@pytest.mark.parametrize("name", ["image", "state", "stem", "files", "results"])
@pytest.mark.parametrize("value", [None, 3, {"a": 1}], ids=str)
def test_lines_that_somebody_edited_are_as_good_as_none(place, photos, name, value):
    """Without any line the files are not ours; with the first alone they are those of a run that was stopped."""
    assert explain(place, photos).exit_code == 0
    ledger = photos.parent / "out" / "explanations.jsonl"
    lines = [json.loads(line) | {name: value} for line in ledger.read_text().splitlines()]
    ledger.write_text("".join(json.dumps(line) + "\n" for line in lines))
    again = explain(place, photos)

    if name in ("files", "results"):
        assert again.exit_code == 0
        assert "skipped" not in again.stdout
    else:
        fails(again, 2, "exists; use --force")


def test_images_that_failed_are_tried_again(place, photos):
    (photos / "q.png").write_text("no image")
    assert explain(place, photos).exit_code == 6
    Image.new("RGB", (20, 20), "red").save(photos / "q.png")
    again = explain(place, photos)

    assert again.exit_code == 0
    assert "skipped   3" in again.stdout
    assert "failed" not in (photos.parent / "out" / "index.html").read_text().split("<main>")[1]


def test_files_of_others_are_kept(place, photos):
    out = photos.parent / "out"
    out.mkdir()
    (out / "index.html").write_text("mine")
    fails(explain(place, photos), 2, "index.html exists")
    (out / "index.html").unlink()
    (out / "p1.png").write_text("mine")
    fails(explain(place, photos), 2, "p1.png exists")
    assert (out / "p1.png").read_text() == "mine"


def test_files_of_others_are_kept_where_names_are_known_late(place, photos):
    """Classes are part of the name: a clash fails one image, and again in the next run."""
    assert explain(place, photos, "--target", "top5").exit_code == 0
    out = photos.parent / "out"
    taken = next(out.glob("p1.*_*.png"), None) or next(out.glob("p1.[0-9]*.png"))
    shutil.rmtree(out)
    out.mkdir()
    (out / taken.name).write_text("mine")
    for _ in range(2):
        assert explain(place, photos, "--target", "top5").exit_code == 6
        assert (out / taken.name).read_text() == "mine"


def test_skipped_images_are_json_lines_too(place, photos):
    first = [json.loads(line) for line in explain(place, photos, "--json").stdout.splitlines()]
    second = [json.loads(line) for line in explain(place, photos, "--json").stdout.splitlines()]

    assert [entry["image"]["file"] for entry in second] == [entry["image"]["file"] for entry in first]
    assert all(entry["skipped"] for entry in second)
    assert [entry["results"][0]["target"] for entry in second] == [entry["target"] for entry in first]


def test_the_overview_shows_every_image(place, photos):
    (photos / "q.png").write_text("no image")
    assert explain(place, photos, "--labels", place / "labels.txt").exit_code == 6
    page = (photos.parent / "out" / "index.html").read_text()
    rows = list(csv.DictReader(io.StringIO((photos.parent / "out" / "summary.csv").read_text())))

    assert [row["status"] for row in rows] == ["explained"] * 3 + ["failed"]
    facts = json.loads((photos.parent / "out" / "p0.json").read_text())
    assert rows[0]["label"] == facts["target"]["label"]
    assert float(rows[0]["probability"]) == pytest.approx(facts["target"]["probability"], rel=1e-5)
    assert "not an image" in rows[3]["error"]
    assert page.count("<img ") == 3
    assert "3 images explained, 1 failed" in page


KINDS = [("png", ["png"]), ("npy,json", ["npy", "json"]), (".PNG, json", ["png", "json"])]


@pytest.mark.parametrize(("words", "kinds"), KINDS, ids=str)
def test_files_that_are_wanted(place, photos, words, kinds):
    result = explain(place, photos, "--write", words)

    assert result.exit_code == 0, result.output
    written = {path.name for path in (photos.parent / "out").iterdir()} - OVERVIEW
    assert written == {f"p{number}.{kind}" for number in range(3) for kind in kinds}


def test_small_maps(place, tmp_path):
    result = run("explain", place / "vit.onnx", place / "photos" / "p0.png", "-o", tmp_path, "--method", "gradskip",
                 "--write", "npy,json", "--map", "grid", "--map-dtype", "float16", *SETTINGS)  # fmt: skip
    assert result.exit_code == 0, result.output
    stored, facts = np.load(tmp_path / "p0.npy"), json.loads((tmp_path / "p0.json").read_text())
    assert stored.dtype == np.float16
    np.testing.assert_allclose(
        stored.astype(np.float64) * facts["map"]["scale"], facts["grid"]["scores"], atol=facts["map"]["scale"] * 2**-11
    )
    assert "map" in result.stdout
    assert "picture" not in result.stdout


def test_words_that_are_no_kind_of_file(place, photos):
    result = explain(place, photos, "--write", "jpg")
    assert result.exit_code == 2
    assert "'jpg' is no kind of file" in result.stderr


def test_preprocessing_by_options(place, tmp_path):
    result = run("explain", place / "vit.onnx", place / "photos" / "p0.png", "-o", tmp_path, "--resize", "pad",
                 "--interpolation", "lanczos", "--channels", "bgr", "--preset", "half")  # fmt: skip
    assert result.exit_code == 0, result.output
    facts = json.loads((tmp_path / "p0.json").read_text())
    used = facts["preprocess"]
    assert (used["resize"], used["interpolation"], used["channels"], used["crop"]) == ("pad", "lanczos", "bgr", 1.0)
    assert facts["image"]["seen_box"] == [0.0, -8.0, 64.0, 56.0]
    assert "assumed crop 1.0;" in result.stderr


def test_help_says_what_several_images_print():
    text = " ".join(run("explain", "--help").stdout.split())

    assert "one image as a JSON document, several as JSON Lines" in text
