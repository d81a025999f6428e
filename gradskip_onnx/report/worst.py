"""Chooses images: the worst cases by kinds, and a bounded number for the gallery."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from gradskip_onnx.audit.reading import Audit
from gradskip_onnx.findings.table import BORDER_AREA
from gradskip_onnx.types import Array

from .content import Content, column

EACH = 3  # worst cases of a kind
GALLERY = 240  # images in the gallery
OF_FINDING, OF_CLUSTER = 4, 6  # examples that are sure of a place in it


@dataclass(frozen=True, slots=True)
class Kind:
    """A way to be among the worst: images with a badness, the largest first; NaN is not among them."""

    title: str
    text: str
    badness: Callable[[Audit], Array]


def _sure_and_wrong(audit: Audit) -> Array:
    return np.where(column(audit, "correct") == 0, column(audit, "predicted_probability"), np.nan)


def _check_failed(audit: Audit) -> Array:
    excess = column(audit, "check_erased") - column(audit, "check_random")
    return np.where(column(audit, "check_passed") == 0, excess, np.nan)


def _off_the_object(audit: Audit) -> Array:
    missing = column(audit, "inside_area") - column(audit, "inside")
    return np.where(missing > 0, missing, np.nan)


def _on_the_border(audit: Audit) -> Array:
    border = column(audit, "border")
    return np.where(border > BORDER_AREA, border, np.nan)


KINDS: tuple[Kind, ...] = (
    Kind("Wrong and sure", "the likeliest class is not the labelled one, and the model is sure of it", _sure_and_wrong),
    Kind("Fails the check", "erasing what the map marks changes the answer less than erasing as much at random",
         _check_failed),
    Kind("Off the object", "less relevance lies on the known object than its area gives by chance", _off_the_object),
    Kind("On the border", "more relevance lies on the border of the image than its area gives by chance",
         _on_the_border),
)  # fmt: skip


def worst_cases(audit: Audit) -> list[tuple[Kind, list[int]]]:
    """For each kind the positions of its worst images, none of them twice."""
    positions, taken, found = audit.table["position"].to_numpy(), set[int](), []
    for kind in KINDS:
        badness = kind.badness(audit)
        order = np.argsort(-badness, kind="stable")[: int((~np.isnan(badness)).sum())]
        chosen = [place for at in order if (place := int(positions[at])) not in taken][:EACH]
        taken.update(chosen)
        if chosen:
            found.append((kind, chosen))
    return found


def gallery(content: Content, most: int = GALLERY) -> list[int]:
    """The positions in the gallery, rising: what stands out first, then images spread evenly over the data."""
    explained = set(content.audit.explained)
    chosen: dict[int, None] = {}
    for position in _candidates(content):
        if len(chosen) == most:
            break
        if position in explained:
            chosen[position] = None
    return sorted(chosen)


def _candidates(content: Content) -> Iterator[int]:
    """Positions in the order of their right to be shown."""
    for _, cases in worst_cases(content.audit):
        yield from cases
    flagged = sorted(content.findings.findings, key=lambda finding: not finding.flagged)
    for finding in flagged:
        yield from finding.examples[:OF_FINDING]
    for cluster in sorted(content.findings.clusters, key=lambda cluster: not cluster.minority):
        yield from cluster.members[:OF_CLUSTER]
    yield from _evenly(content.audit.explained)


def _evenly(positions: tuple[int, ...]) -> Iterator[int]:
    """All positions, so that every beginning of them is spread: first the ends, then halves, quarters, ..."""
    step = max(1, len(positions))
    seen: set[int] = set()
    while len(seen) < len(positions):
        for at in range(0, len(positions), step):
            if at not in seen:
                seen.add(at)
                yield positions[at]
        step = max(1, step // 2)
