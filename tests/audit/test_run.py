"""A whole audit on a tiny model: rows against single explanations, stops, failures."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gradskip_onnx.audit.measure import map_numbers
from gradskip_onnx.audit.parts import finished_parts, part_path
from gradskip_onnx.audit.reading import read_audit
from gradskip_onnx.audit.run import run_audit
from gradskip_onnx.audit.settings import CheckSettings
from gradskip_onnx.datasets import load
from gradskip_onnx.errors import InputError, ModelError
from gradskip_onnx.images.read import open_picture
from gradskip_onnx.methods import choose_method
from tests.support.evaluation_data import pictures

from .runs import COUNT, SETTINGS, rows_of


class TestRows:
    def test_each_image_has_a_row(self, audit):
        assert audit.whole
        assert audit.table["position"].to_pylist() == list(range(COUNT))
        assert audit.table["image"].to_pylist() == [f"{at:02}.png" for at in range(COUNT)]
        assert audit.table["label"].to_pylist() == [at % 5 for at in range(COUNT)]
        assert finished_parts(audit.place) == [0, 1, 2]

    def test_a_row_is_what_a_single_explanation_says(self, audit, model, photos):
        row = audit.table.to_pylist()[7]
        picture = open_picture(photos / "07.png")
        alone = model.explain(picture, method="grad-cam")

        assert row["image_sha256"] == picture.sha256
        assert (row["width"], row["height"]) == picture.image.size
        assert row["predicted"] == row["target"] == alone.target.index
        assert row["logit"] == pytest.approx(alone.target.logit, rel=1e-5)
        assert row["probability"] == pytest.approx(alone.target.probability, rel=1e-5)
        assert [each["index"] for each in row["top"]] == [each.index for each in alone.top]
        # one image alone and one of four are multiplied in another order
        assert audit.map(7) == pytest.approx(alone.relevance.scores, rel=1e-3, abs=1e-6)
        assert row["correct"] == (alone.target.index == 7 % 5)
        for name, value in map_numbers(audit.map(7)).items():
            assert row[name] == value
        assert row["inside"] is None  # nobody said where the object is

    def test_the_logits_are_those_of_the_file(self, audit):
        """The proof is a measurement for each image, and rounding is all that it finds."""
        differences = audit.table["logits_difference"].to_pylist()

        assert max(differences) < 1e-4
        assert any(differences)

    def test_regions(self, audit):
        (region,) = audit.table.to_pylist()[0]["regions"]

        assert region["name"] == "logo"
        assert region["area"] == pytest.approx(1 / 16)
        grid = audit.map(0)
        corner = np.maximum(grid, 0)[: len(grid) // 4, : len(grid) // 4].sum() / np.maximum(grid, 0).sum()
        assert region["share"] == pytest.approx(corner, abs=1e-6)

    def test_facts(self, audit, model):
        facts = audit.facts

        assert facts["model"]["sha256"] == model.sha256
        assert facts["data"]["count"] == COUNT
        assert facts["method"] == "grad-cam"
        assert facts["part_size"] == 8
        assert facts["check"] == {"share": 0.1, "fill": "mean", "draws": 2}


class TestStops:
    def test_a_part_that_is_missing_is_made_again_and_the_same(self, audit, model, photos, tmp_path):
        first = run_audit(model, load(str(photos)), tmp_path, SETTINGS)
        (tmp_path / part_path(1)).unlink()
        done: list[str] = []

        again = run_audit(model, load(str(photos)), tmp_path, SETTINGS, lambda left: check(left, 8, done.append))

        assert done == [f"{at:02}.png" for at in range(8, 16)]
        assert rows_of(again) == rows_of(first) == rows_of(audit)

    def test_a_stop_in_the_middle(self, audit, model, photos, tmp_path):
        """An interrupt in the second part leaves the first, and the next run goes on from there."""

        def interrupt(name: str) -> None:
            if name == "11.png":
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_audit(model, load(str(photos)), tmp_path, SETTINGS, lambda _left: interrupt)
        assert finished_parts(read_audit(tmp_path).place) == [0]

        assert rows_of(run_audit(model, load(str(photos)), tmp_path, SETTINGS)) == rows_of(audit)

    @pytest.mark.parametrize(
        "changed",
        [
            {"method": choose_method("rollout")}, {"score": "probability"}, {"seed": 1}, {"target": "label"},
            {"check": CheckSettings(draws=3)}, {"batch_size": 2}, {"privacy": True}, {"regions": ()},
        ],
    )  # fmt: skip
    def test_another_audit_is_refused(self, audit, model, photos, changed):
        with pytest.raises(InputError, match="holds another audit"):
            run_audit(model, load(str(photos)), audit.place, replace(SETTINGS, **changed))

    def test_other_data_is_refused_but_moved_data_is_not(self, audit, model, photos, tmp_path):
        other = pictures(tmp_path / "other", COUNT + 1)
        with pytest.raises(InputError, match=r"data\.count is 20 there and 21 here"):
            run_audit(model, load(str(other)), audit.place, SETTINGS)
        moved = pictures(tmp_path / "moved", COUNT)
        assert run_audit(model, load(str(moved)), audit.place, SETTINGS).whole
        assert photos.exists()

    def test_part_sizes_may_differ(self, audit, model, photos):
        """The size of the parts that are there is kept."""
        assert run_audit(model, load(str(photos)), audit.place, replace(SETTINGS, part_size=16)).part_size == 8

    def test_two_runs_at_once_are_refused(self, audit, model, photos):
        with audit.place.held(), pytest.raises(InputError, match="in use by another run"):
            run_audit(model, load(str(photos)), audit.place, SETTINGS)


class TestFailures:
    @pytest.fixture
    def broken(self, tmp_path) -> Path:
        folder = pictures(tmp_path / "photos", COUNT)
        (folder / "05.png").write_bytes(b"no image")
        (folder / "13.png").unlink()
        return folder

    def test_bad_images_have_rows_that_say_why(self, audit, model, broken, tmp_path):
        found = run_audit(model, load(str(broken)), tmp_path / "audit", SETTINGS)

        rows = rows_of(found)
        assert [row["position"] for row in rows if row["error"]] == [5, 13]
        assert "not an image" in str(rows[5]["error"])
        assert "no such image" in str(rows[13]["error"])
        assert rows[5]["target"] is None
        good = [at for at in range(COUNT) if at // 4 not in (1, 3)]  # of batches that lost no image
        assert [rows[at] for at in good] == [rows_of(audit)[at] for at in good]

    def test_a_file_that_is_no_image_has_its_hash(self, model, broken, tmp_path):
        rows = rows_of(run_audit(model, load(str(broken)), tmp_path / "audit", SETTINGS))

        assert rows[5]["image_sha256"] == hashlib.sha256(b"no image").hexdigest()
        assert rows[13]["image_sha256"] is None

    def test_names_that_are_no_unicode(self, model, tmp_path):
        """Linux names files by bytes; one odd name stops no audit, and is written out."""
        folder = pictures(tmp_path / "photos", 4)
        (folder / "labels.csv").unlink()
        (folder / "01.png").rename(os.fsdecode(os.fsencode(folder) + b"/\xff1.png"))
        Path(os.fsdecode(os.fsencode(folder) + b"/\xfe2.png")).write_bytes(b"no image")
        rows = rows_of(run_audit(model, load(str(folder)), tmp_path / "audit", SETTINGS))

        assert [row["image"] for row in rows] == ["00.png", "02.png", "03.png", "\\udcfe2.png", "\\udcff1.png"]
        assert "\\udcfe2.png: not an image" in str(rows[3]["error"])
        private = run_audit(model, load(str(folder)), tmp_path / "private", replace(SETTINGS, privacy=True))
        digest = hashlib.sha256(rb"\udcff1.png").hexdigest()
        assert private.table["image"][4].as_py() == f"sha256:{digest[:32]}"

    def test_retry(self, audit, model, broken, tmp_path):
        """Parts with failures are made again once the images are there."""
        run_audit(model, load(str(broken)), tmp_path / "audit", SETTINGS)
        pictures(broken, COUNT)

        kept = run_audit(model, load(str(broken)), tmp_path / "audit", SETTINGS)
        assert kept.table["error"].null_count == COUNT - 2
        found = run_audit(model, load(str(broken)), tmp_path / "audit", replace(SETTINGS, retry=True))

        assert rows_of(found) == rows_of(audit)

    def test_an_image_without_a_label_cannot_be_asked_for_it(self, model, photos, tmp_path):
        plain = load(str(photos))
        unlabelled = replace(plain, entries=tuple(replace(e, label=None if at == 2 else e.label)
                                                  for at, e in enumerate(plain.entries)))  # fmt: skip
        found = run_audit(model, unlabelled, tmp_path, replace(SETTINGS, target="label")).table.to_pylist()

        assert "has no label" in found[2]["error"]
        assert [row["target"] for row in found[3:]] == [at % 5 for at in range(3, COUNT)]

    def test_an_unknown_engine_is_refused(self, model, photos, tmp_path):
        with pytest.raises(InputError, match="unknown"):
            run_audit(model, load(str(photos)), tmp_path, replace(SETTINGS, engine="none"))

    def test_missing_parts_are_no_success(self, model, photos, tmp_path, monkeypatch):
        monkeypatch.setattr("gradskip_onnx.audit.work.write_part", lambda *_: None)
        with pytest.raises(ModelError, match="parts are missing"):
            run_audit(model, load(str(photos)), tmp_path, SETTINGS)


def check(left: int, expected: int, step):
    assert left == expected
    return step
