"""The images that two audits have in common, and for each how alike the answers and the maps are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gradskip_onnx.audit.reading import Audit
from gradskip_onnx.errors import InputError
from gradskip_onnx.findings.drift import require_comparable
from gradskip_onnx.findings.observed import NO_CLASS, Observed, common_names, observe
from gradskip_onnx.types import Array

from .measures import MEASURES, compare_maps

Step = Callable[[str], None]


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """A row an image that both audits explained; columns are arrays of one length."""

    images: tuple[str, ...]
    positions: tuple[Array, Array]  # in the first and in the second audit
    columns: Mapping[str, Array]  # NaN where there is no value
    classes: Array  # the class that the first audit explained
    labels: Array  # the true class, NO_CLASS where it is not known
    same_target: Array  # whether both explained the same class
    equal_maps: Array  # whether both maps have the same hash
    left_out: int  # images of either audit that have no partner


def pair(first: Audit, second: Audit, step: Step) -> Pairs:
    """The pairs of two audits; raises InputError where they are not about the same images or classes."""
    require_comparable(first.facts, second.facts, ("A", "B"))
    observed = tuple(observe(audit, resamples=0, seed=0) for audit in (first, second))
    every = common_names(first, second)
    rows = _common(observed, every)
    positions = (observed[0].positions[rows[0]], observed[1].positions[rows[1]])
    names = [every[0][at] for at in rows[0]]
    found = {measure.name: np.full(len(names), np.nan) for measure in MEASURES}
    maps = zip(names, first.maps(positions[0].tolist()), second.maps(positions[1].tolist()), strict=True)
    for at, (name, one, other) in enumerate(maps):
        for measure, value in compare_maps(one, other).items():
            found[measure][at] = value
        step(name)
    both = {name: (observed[0].number(name)[rows[0]], observed[1].number(name)[rows[1]]) for name in BOTH}
    classes = tuple(one.classes("target")[rows[at]] for at, one in enumerate(observed))
    labels = observed[0].classes("label")[rows[0]]
    hashes = [np.array(audit.table["map_sha256"].take(part).to_pylist())
              for audit, part in zip((first, second), rows, strict=True)]  # fmt: skip
    everywhere = len({*every[0], *every[1]})
    return Pairs(
        images=tuple(names),
        positions=positions,
        columns=found | _answers(both, labels),
        classes=classes[0],
        labels=labels,
        same_target=classes[0] == classes[1],
        equal_maps=hashes[0] == hashes[1],
        left_out=everywhere - len(names),
    )


BOTH = ("predicted", "predicted_probability", "probability", "check_passed")


def _answers(both: Mapping[str, tuple[Array, Array]], labels: Array) -> dict[str, Array]:
    """What the two models say of each image."""
    known = labels != NO_CLASS
    right = [np.where(known, predicted == labels, np.nan) for predicted in both["predicted"]]
    return {
        "predicted_a": both["predicted"][0],
        "predicted_b": both["predicted"][1],
        "flipped": (both["predicted"][0] != both["predicted"][1]).astype(np.float64),
        "probability_a": both["probability"][0],
        "probability_b": both["probability"][1],
        "probability_change": both["probability"][1] - both["probability"][0],
        "correct_a": right[0],
        "correct_b": right[1],
        "accuracy_change": right[1] - right[0],
        "check_passed_a": both["check_passed"][0],
        "check_passed_b": both["check_passed"][1],
    }


def _common(both: Sequence[Observed], names: Sequence[Sequence[str]]) -> tuple[Array, Array]:
    """The rows of both tables that are about the same image, with a map in both."""
    tables = [_by_image(observed, named) for observed, named in zip(both, names, strict=True)]
    shared = [image for image in tables[0] if image in tables[1]]
    changed = [image for image in shared if tables[0][image][1] != tables[1][image][1]]
    if changed:
        raise InputError(f"the two audits saw different bytes as {changed[0]!r:.120}; audit the same images")
    if not shared:
        raise InputError("the two audits have no image in common that both could explain")
    rows = np.array([(tables[0][image][0], tables[1][image][0]) for image in shared])
    return rows[:, 0], rows[:, 1]


def _by_image(observed: Observed, names: Sequence[str]) -> dict[str, tuple[int, str]]:
    """The row and the hash of each image that has a map."""
    explained = np.isin(observed.positions, observed.explained)
    columns = zip(names, observed.audit.table["image_sha256"].to_pylist(), explained, strict=True)
    return {name: (at, sha256) for at, (name, sha256, good) in enumerate(columns) if good}
