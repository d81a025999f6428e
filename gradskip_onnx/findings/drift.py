"""How much each finding has changed since an earlier audit, image by image where both saw the same ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradskip_onnx.audit.reading import Audit
from gradskip_onnx.errors import InputError
from gradskip_onnx.metrics.statistics import Interval
from gradskip_onnx.types import Array

from .estimates import NORMAL, around, groups, share_change, share_gap, student
from .found import Baseline, Drift
from .observed import Observed, common_names
from .row import Row, Span

ASKED = ("method", "options", "score", "target", "preprocess", "regions", "check", "labels")  # of audit.json
SHARED = 0.5  # of the images of either audit: with fewer in common, the audits are of different images
NAMES = ("the baseline", "this audit")


def require_comparable(first: Mapping[str, Any], second: Mapping[str, Any], names: tuple[str, str] = NAMES) -> None:
    """Raise InputError for the facts of two audits of different tasks or numbers of classes."""
    for name, words in (("task", "the task"), ("classes", "the number of classes")):
        one, other = first[name], second[name]
        if one != other:
            raise InputError(
                f"{' and '.join(names)} cannot be compared: {words} is {one} in {names[0]}, {other} in {names[1]}"
            )


def baseline_of(now: Audit, then: Audit) -> Baseline:
    """What an audit is compared with; raises InputError for an audit of another task or of other classes."""
    require_comparable(then.facts, now.facts)
    model, differs = then.facts["model"], (name for name in ASKED if now.facts[name] != then.facts[name])
    return Baseline(model["file"], model["sha256"], then.facts["data"]["list_sha256"], tuple(differs))


def find_drift(rows: Sequence[Row], now: Observed, then: Observed) -> tuple[Drift, ...]:
    """The change of each finding that both audits have."""
    common = same_images(now, then)
    found = (_changed(row, now, then, common) for row in rows)
    return tuple(drift for drift in found if drift.overall is not None)


def same_images(now: Observed, then: Observed) -> tuple[Array, Array] | None:
    """The rows of both tables that are of the same image, byte for byte; None where too few are."""
    names = common_names(now.audit, then.audit)
    ours, theirs = (
        {key: at for at, key in enumerate(_keys(observed, named)) if key[1] is not None}
        for observed, named in zip((now, then), names, strict=True)
    )
    shared = [key for key in ours if key in theirs]
    if not shared or len(shared) < SHARED * max(len(now.positions), len(then.positions)):
        return None
    return np.array([ours[key] for key in shared]), np.array([theirs[key] for key in shared])


def _keys(observed: Observed, names: Sequence[str]) -> list[tuple[str, str | None]]:
    return list(zip(names, observed.audit.table["image_sha256"].to_pylist(), strict=True))


def _changed(row: Row, now: Observed, then: Observed, common: tuple[Array, Array] | None) -> Drift:
    if row.values is None:
        return _of_intervals(row, now, then)
    ours, theirs, span = row.values(now), row.values(then), _widest(row.span)
    if common is not None:
        change, classes = ours[common[0]] - theirs[common[1]], now.classes(row.by)[common[0]]
        known = change[~np.isnan(change)]
        by_class = {index: _mean(row, part, span) for index, part in groups(change, classes)}
        return Drift(row.name, True, _mean(row, known, span) if len(known) else None, by_class)
    old = dict(groups(theirs, then.classes(row.by)))
    new = groups(ours, now.classes(row.by))
    pair = ours[~np.isnan(ours)], theirs[~np.isnan(theirs)]
    overall = _gap(row, *pair, span) if all(map(len, pair)) else None
    return Drift(
        row.name, False, overall, {index: _gap(row, part, old[index], span) for index, part in new if index in old}
    )


def _of_intervals(row: Row, now: Observed, then: Observed) -> Drift:
    """The change of a finding that is not a mean over images, from the intervals of both."""
    new, old, span = row.measure(row, now), row.measure(row, then), _widest(row.span)

    def gap(one: Interval, other: Interval) -> Interval:
        error = float(np.hypot(one.high - one.low, other.high - other.low)) / (2 * NORMAL)
        return around(one.value - other.value, error, span, min(one.count, other.count))

    overall = gap(new.overall, old.overall) if new.overall and old.overall else None
    shared = new.classes.keys() & old.classes.keys()
    return Drift(row.name, False, overall, {index: gap(new.classes[index], old.classes[index]) for index in shared})


def _mean(row: Row, change: Array, span: Span) -> Interval:
    if row.shares:
        return share_change(change)
    return around(float(change.mean()), row.error(change), span, len(change), student(max(1, len(change) - 1)))


def _gap(row: Row, ours: Array, theirs: Array, span: Span) -> Interval:
    """The difference of two means, with the degrees of freedom of Welch and Satterthwaite."""
    if row.shares:
        return share_gap(ours, theirs)
    counts, errors = np.array([len(ours), len(theirs)]), np.array([row.error(ours), row.error(theirs)])
    squares = errors**2
    known = np.isfinite(squares).all() and squares.any()
    freedom = float(squares.sum() ** 2 / (squares**2 / (counts - 1)).sum()) if known else 1.0
    error = float(np.hypot(*errors))
    return around(float(ours.mean() - theirs.mean()), error, span, int(counts.min()), student(freedom))


def _widest(span: Span) -> Span:
    """The range of a difference of two values in `span`."""
    width = span[1] - span[0]
    return -width, width
