"""The table of findings: what each is, and how it is measured."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gradskip_onnx.types import Array

from .agreement import agreement, jackknife_error, with_others
from .observed import Observed
from .row import Row, Values
from .wrong_answers import wrong_answers

BORDER_AREA = 1 - 0.8**2  # of the image that the outermost tenth on each side covers
_RELEVANCE = "share of the positive relevance"


def column(name: str) -> Values:
    """The values of a column of the audit."""
    return lambda observed: observed.number(name)


def _given(name: str) -> Values:
    """Whether a column of texts has one, among images that have a map."""

    def values(observed: Observed) -> Array:
        return np.where(np.isin(observed.positions, observed.explained), observed.given(name), np.nan)

    return values


def _errors(observed: Observed) -> Array:
    return observed.given("error").astype(np.float64)


def _difference(one: str, other: str) -> Values:
    return lambda observed: observed.number(one) - observed.number(other)


def _border_area(observed: Observed) -> Array:
    return np.full(len(observed.positions), BORDER_AREA)


ROWS: tuple[Row, ...] = (
    Row(
        "accuracy", "how often the likeliest class is the labelled one", "share of images", "higher",
        column("correct"), shares=True, by="label",
    ),
    Row(
        "errors", "images that could not be read or explained", "share of images", "lower",
        _errors, shares=True, by="label",
    ),
    Row(
        "abstained", "explanations that should not be believed, for the reason given with each",
        "share of explanations", "lower", _given("abstained"), shares=True,
    ),
    Row(
        "check-passed", "explanations that pass the counterfactual check: erasing the most relevant patches lowers the "
        "probability of the class more than erasing as many random ones", "share of checked explanations", "higher",
        column("check_passed"), shares=True,
    ),
    Row(
        "check-gap", "probability left without random patches minus that left without as many of the most relevant "
        "ones; 0 or less says that the map names nothing the model needs", "difference of probabilities", "higher",
        _difference("check_random", "check_erased"), span=(-1.0, 1.0),
    ),
    Row(
        "border", "relevance in the outermost tenth on each side of the image, which is 36 % of its area", _RELEVANCE,
        "lower", column("border"), chance=_border_area,
    ),
    Row(
        "inside", "relevance inside known boxes or masks of the class explained; the rest is outside", _RELEVANCE,
        "higher", column("inside"), chance=column("inside_area"),
    ),
    Row(
        "inside-above-chance", "relevance inside known boxes or masks minus the share of the image that they cover",
        _RELEVANCE, "higher", _difference("inside", "inside_area"), span=(-1.0, 1.0),
    ),
    Row(
        "pointing", "how often the most relevant place lies in known boxes or masks", "share of images", "higher",
        column("pointed"), shares=True, chance=column("inside_area"),
    ),
    Row(
        "centre-row", "height of the centre of mass of the positive relevance: 0 is the top, 1 the bottom",
        "share of the height", "neither", column("centre_row"),
    ),
    Row(
        "centre-column", "place of the centre of mass from left (0) to right (1)", "share of the width", "neither",
        column("centre_column"),
    ),
    Row(
        "spread", "root mean square distance of the positive relevance from its centre", "share of the diagonal",
        "neither", column("spread"),
    ),
    Row(
        "concentration", "Gini coefficient of the positive relevance: 0 is spread evenly, 1 is a single point",
        "coefficient", "neither", column("concentration"),
    ),
    Row(
        "negative-share", "relevance against the class explained", "share of all relevance", "neither",
        column("negative_share"),
    ),
    Row(
        "agreement", "how alike the maps of one class are: the mean correlation of each with all others of its class. "
        "Much above other classes, the same place is looked at in every image", "correlation", "neither",
        with_others, span=(-1.0, 1.0), error=jackknife_error, measure=agreement,
    ),
    Row(
        "wrong-answers", "how far wrong answers look elsewhere than right ones of the same class: the share of the "
        "mean map that lies elsewhere, less what splits at random give", _RELEVANCE, "lower",
        None, span=(-1.0, 1.0), measure=wrong_answers,
    ),
)  # fmt: skip


def rows_of(regions: Iterable[str]) -> tuple[Row, ...]:
    """The table, with two rows for each region that the user named."""
    return (*ROWS, *(row for name in regions for row in _region(name)))


def _region(name: str) -> tuple[Row, Row]:
    """What lies in a region; whether that is good or bad, a policy says."""

    def share(observed: Observed) -> Array:
        return observed.region(name, "share")

    def above(observed: Observed) -> Array:
        return observed.region(name, "share") - observed.region(name, "area")

    return (
        Row(f"region:{name}", f"relevance in the region {name}", _RELEVANCE, "neither", share),
        Row(f"region-above-chance:{name}", f"relevance in the region {name} minus the share of the image it covers",
            _RELEVANCE, "neither", above, span=(-1.0, 1.0)),
    )  # fmt: skip
