"""Why the explanation of an image should not be believed: a table of reasons, the first that holds is given."""

from __future__ import annotations

from collections.abc import Callable

from gradskip_onnx.types import Array

from .counterfactual import Answer


def _nothing_positive(scores: Array, _answer: Answer) -> str:
    return "" if (scores > 0).any() else "no score of the map is positive: nothing speaks for the class"


def _another_answer(_scores: Array, answer: Answer) -> str:
    if answer.same_class:
        return ""
    return (
        "the instrumented model predicts another class than the file as it is "
        f"(logits differ by up to {answer.difference:.3g})"
    )


def _check_failed(_scores: Array, answer: Answer) -> str:
    if answer.passed:
        return ""
    return (
        f"without the {answer.patches} most relevant patches the probability is {answer.erased:.4f}, "
        f"without as many random ones {answer.random:.4f} (intact {answer.intact:.4f}): the map names what the model "
        "needs no better than chance"
    )


REASONS: tuple[Callable[[Array, Answer], str], ...] = (_nothing_positive, _another_answer, _check_failed)


def doubt_of(scores: Array, answer: Answer) -> str | None:
    """The first reason that holds; None for an explanation that passed every check."""
    return next(filter(None, (reason(scores, answer) for reason in REASONS)), None)
