"""Several maps of one image in one picture: what differs stands below each map, what is common above all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import gradskip_onnx
from gradskip_onnx.errors import InputError
from gradskip_onnx.explanation import Explanation, pictures
from tests.explanation.results import made_up


def words(monkeypatch: pytest.MonkeyPatch, explanations: list[Explanation]) -> dict[str, Any]:
    """The texts that the grid is drawn with."""
    found: dict[str, Any] = {}

    def draw(_image, heats, _style, **texts):
        found.update(texts, cells=[(heat.title, heat.facts) for heat in heats])

    monkeypatch.setattr(pictures, "draw_grid", draw)
    gradskip_onnx.side_by_side(explanations)
    return found


def test_classes_are_named_below_their_maps(monkeypatch):
    found = words(monkeypatch, [made_up(target=0), made_up(target=2)])

    assert found["cells"] == [("cat (0)", "probability 0.600"), ("fish (2)", "probability 0.200")]
    assert (found["title"], found["facts"], found["caption"]) == ("2 classes", "method gradskip · m.onnx", "cat.png")


def test_methods_are_named_below_their_maps(monkeypatch):
    first = made_up()
    second = replace(first, relevance=replace(first.relevance, method="rollout"))
    found = words(monkeypatch, [first, second])

    assert found["cells"] == [("gradskip", ""), ("rollout", "")]
    assert (found["title"], found["facts"]) == ("cat (0)", "m.onnx")


def test_the_picture_holds_every_map():
    few, many = (gradskip_onnx.side_by_side([made_up(target=i) for i in range(count)]) for count in (1, 3))

    assert many.width * many.height > 1.5 * few.width * few.height


def test_other_images_and_none_are_refused():
    with pytest.raises(InputError, match="got no explanations"):
        gradskip_onnx.side_by_side([])
    with pytest.raises(InputError, match="map is 40x24, its image 32x24"):
        gradskip_onnx.side_by_side([made_up(), made_up(width=40)])
