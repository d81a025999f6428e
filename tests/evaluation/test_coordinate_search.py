"""The search finds planted optima, scores nothing twice, and leaves alone what does not matter."""

from __future__ import annotations

import numpy as np
import pytest

from gradskip_onnx.evaluation.coordinate_search import Axis, Settings, beats, coordinate_search, most_tried

AXES = (Axis("a", (0.0, 0.25, 0.5, 0.75, 1.0)), Axis("b", (0.0, 1.0, 2.0, 3.0)), Axis("c", (0.0, 1.0)))
START = {"a": 0.5, "b": 1.0, "c": 1.0}


def bowl(best: Settings, seen: list[Settings]):
    """A score with its only optimum at `best`; a and b pull at each other, so that one round is not enough."""

    def score(many):
        seen.extend(many)
        gaps = [np.array([settings[name] - best[name] for name in ("a", "b", "c")]) for settings in many]
        return [np.full(3, -(gap @ [[4, 1, 0], [1, 1, 0], [0, 0, 1]] @ gap)) for gap in gaps]

    return score


@pytest.mark.parametrize(
    "best", [{"a": 1.0, "b": 3.0, "c": 0.0}, {"a": 0.0, "b": 2.0, "c": 1.0}, START], ids=["far", "near", "start"]
)
def test_a_planted_optimum_is_found(best):
    seen: list[Settings] = []
    found = coordinate_search(START, AXES, bowl(best, seen))

    assert found.settings == best
    assert found.score == 0.0
    assert found.start <= found.score
    keys = [tuple(sorted(settings.items())) for settings in seen]
    assert len(keys) == len(set(keys)) == found.tried <= most_tried(AXES)


def test_what_does_not_matter_stays():
    found = coordinate_search(START, AXES, lambda many: [np.array([settings["a"]]) for settings in many])

    assert found.settings == START | {"a": 1.0}


def test_settings_that_are_not_allowed_are_never_scored():
    seen: list[Settings] = []
    found = coordinate_search(START, AXES, bowl({"a": 1.0, "b": 3.0, "c": 0.0}, seen), lambda s: s["a"] + s["b"] < 3.5)

    assert all(settings["a"] + settings["b"] < 3.5 for settings in seen)
    assert found.settings["a"] + found.settings["b"] < 3.5


def test_settings_that_fail_are_not_chosen():
    found = coordinate_search(START, AXES, lambda many: [None if s["a"] > 0.5 else np.array([s["a"]]) for s in many])

    assert found.settings == START


def test_chance_moves_nothing():
    """A gain that is smaller than its standard error is none; the same gain on more images is one."""
    gains = np.array([0.9, -0.7])

    assert not beats(gains, np.zeros(2))
    assert beats(np.tile(gains, 200), np.zeros(400))
    assert not beats(np.zeros(2), np.zeros(2))

    rng = np.random.default_rng(0)
    noise = {value: rng.normal(0, 1, 50) for value in AXES[1].values}
    drawn = coordinate_search(START, AXES[1:2], lambda many: [noise[s["b"]] + 5 * (s["b"] == 2) for s in many])
    assert drawn.settings["b"] == 2
