"""A sample run again agrees with the record; another model, other maps and other images do not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradskip_onnx.audit.reading import read_audit
from gradskip_onnx.audit.row import Row
from gradskip_onnx.datasets import load
from gradskip_onnx.errors import InputError
from gradskip_onnx.evidence.replay import Tolerances, compare, open_model, replay, sample_of
from tests.evidence.conftest import BOXES, COUNT, Case, audited, with_boxes
from tests.support.audit_data import write_audit
from tests.support.models import Vit, vit

SHAPE = (2, 3)


def replayed(case: Case, positions=None):
    audit = read_audit(case.folder)
    explainer = open_model(str(case.model), audit.facts, threads=1)
    chosen = list(audit.explained) if positions is None else positions
    return [*replay(audit, explainer, load(str(case.data)), chosen)]


def test_every_image_agrees(case: Case):
    found = replayed(case)

    assert len(found) == COUNT - 1
    assert [one.wrong for one in found] == [()] * len(found)
    assert max(one.map for one in found) < 1e-4
    assert max(one.logit for one in found) < 1e-4


def test_privacy_is_replayed_too(tmp_path: Path):
    assert [one.wrong for one in replayed(audited(tmp_path, privacy=True))] == [()] * (COUNT - 1)


def test_another_model_is_refused(case: Case):
    case.model.write_bytes(vit(Vit(heads=4, depth=3, seed=99)).SerializeToString())
    with pytest.raises(InputError, match="is not the model of this audit"):
        replayed(case)


def test_an_image_that_was_exchanged(case: Case):
    (case.data / "02.png").write_bytes((case.data / "03.png").read_bytes())
    found = replayed(case, [1, 2])

    assert found[0].wrong == ()
    assert any("image_sha256" in text for text in found[1].wrong)


def test_an_image_that_is_gone(case: Case):
    (case.data / "02.png").unlink()
    found = replayed(case, [2])

    assert found[0].wrong
    assert found[0].map is None


def test_a_sample_is_drawn_by_its_seed(case: Case):
    audit = read_audit(case.folder)

    assert sample_of(audit, 4, 1) == sample_of(audit, 4, 1)
    assert sample_of(audit, 4, 1) != sample_of(audit, 4, 2)
    assert sample_of(audit, 99, 1) == list(audit.explained)


def test_an_audit_that_explained_nothing_proves_nothing(tmp_path: Path):
    with pytest.raises(InputError, match="none of its images was explained"):
        sample_of(write_audit(tmp_path, 3, broken=(0, 1, 2), doubted=()), 2, 1)


def row() -> tuple[dict[str, Any], Row]:
    """A recorded row and the same made again."""
    said: dict[str, Any] = {
        "position": 0,
        "image": "a.png",
        "image_sha256": "0" * 64,
        "truth_sha256": "2" * 64,
        "label": 1,
        "predicted": 1,
        "target": 1,
        "check_erased": 0.2,
        "check_random": 0.9,
        "check_passed": True,
    }
    return {**said, "logit": 4.0}, Row(**said, logit=4.0, map=np.ones(SHAPE, np.float32))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"predicted": 2}, "predicted is 2, recorded 1"),
        ({"target": 3}, "target is 3"),
        ({"logit": 4.1}, "logit differs by 0.025"),
        ({"map": np.full(SHAPE, 1.02, np.float32)}, "map differs by 0.02"),
        ({"map": np.full(SHAPE, np.nan, np.float32)}, "map differs"),
        ({"map": np.ones((3, 2), np.float32)}, "the map has shape (3, 2)"),
        ({"check_passed": False}, "check_passed is False"),
        ({"image_sha256": "1" * 64}, "image_sha256"),
        ({"truth_sha256": None}, "truth_sha256 is None"),
        ({"label": 3}, "label is 3, recorded 1"),
        ({"logit": float("nan")}, "logit differs"),
    ],
)
def test_what_is_too_far_is_said(changed: dict[str, Any], words: str):
    said, made = row()
    found = compare(said, np.ones(SHAPE, np.float32), replace(made, **changed), Tolerances())

    assert any(words in text for text in found.wrong), found.wrong
    assert found.check.state == "failed"


def test_a_check_that_was_a_tie_may_end_the_other_way():
    """Where erasing changes nothing, the last digit decides, which another processor rounds otherwise."""
    said, made = row()
    tie = {**said, "check_erased": 0.9999998, "check_random": 0.9999999}

    assert compare(tie, np.ones(SHAPE, np.float32), replace(made, check_passed=False), Tolerances()).wrong == ()


def test_boxes_that_were_changed_are_named(tmp_path: Path):
    top = with_boxes(tmp_path)
    (top.data / "list.csv").write_text(BOXES.replace("0 0 16 16", "0 0 16 17"))
    audit = read_audit(top.folder)
    explainer = open_model(str(top.model), audit.facts, threads=1)
    found = [*replay(audit, explainer, load(str(top.data / "list.csv")), [0, 1])]

    assert any("truth_sha256" in text for text in found[0].wrong)
    assert found[1].wrong == ()


def test_what_is_near_enough_is_well():
    said, made = row()
    near = replace(made, logit=4.003, map=np.full(SHAPE, 1.009, np.float32))
    found = compare(said, np.ones(SHAPE, np.float32), near, Tolerances())

    assert found.wrong == ()
    assert found.map == pytest.approx(0.009, rel=1e-3)
    assert found.logit == pytest.approx(0.00075)
