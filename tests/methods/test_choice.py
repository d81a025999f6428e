"""Methods looked up by name, their options settled, and results that say who made them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradskip_onnx.errors import InputError
from gradskip_onnx.methods import METHODS, choose_method, find_method
from gradskip_onnx.types import Relevance


def test_a_row_by_its_name():
    assert find_method("rollout") is METHODS["rollout"]
    with pytest.raises(InputError, match=r"unknown method 'rolout'; known: .*rollout"):
        find_method("rolout")


def test_a_result_carries_the_name_and_all_options(monkeypatch):
    """The function of a method knows neither; the choice fills them in."""
    bare: Any = lambda *_: Relevance(np.ones((2, 2)), checks={"sum": 4.0})  # noqa: E731
    monkeypatch.setitem(METHODS, "rise", replace(METHODS["rise"], run=bare))
    nothing: Any = None
    found = choose_method("rise", masks=7).run(nothing, nothing, nothing)

    assert found.method == "rise"
    assert found.options == {"masks": 7, "cells": 8, "keep": 0.1, "seed": 0}
    assert found.checks == {"sum": 4.0}


def test_a_label_tells_what_differs_from_the_defaults():
    assert choose_method("rise").label == "rise"
    assert choose_method("rise", masks=4000, seed=3).label == "rise[seed=3]"


def test_scores_of_their_own():
    assert choose_method("gradskip+").own_score
    assert not choose_method("gradskip").own_score


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mask": 3}, "method rise has no option 'mask'; known: masks, cells, keep, seed"),
        ({"masks": 0}, "method rise option masks: got 0, allowed: a whole number at least 1"),
        ({"keep": "much"}, "method rise option keep: got 'much'"),
    ],
)
def test_mistakes_name_the_method(options, message):
    with pytest.raises(InputError) as caught:
        choose_method("rise", **options)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_the_defaults_of_every_method_are_allowed(name):
    assert choose_method(name).label == name
