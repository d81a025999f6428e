"""Finds what the table of findings asks for in an audit, and clusters; with an earlier audit, the drift since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gradskip_onnx.audit.reading import Audit
from gradskip_onnx.errors import InputError

from .clusters import find_clusters
from .drift import find_drift
from .found import Better, Findings
from .observed import observe
from .table import rows_of

RESAMPLES = 2000


def find(audit: Audit, baseline: Audit | None = None, *, resamples: int = RESAMPLES, seed: int = 0) -> Findings:
    """The findings of an audit, the same for the same seed; `baseline` is an earlier audit to measure drift from."""
    observed = observe(audit, resamples=resamples, seed=seed)
    if not len(observed.positions):
        raise InputError("an audit without images has no findings; let it run first")
    rows = rows_of(regions(audit.facts))
    found = tuple(row.measure(row, observed) for row in rows)
    earlier = None if baseline is None else observe(baseline, resamples=resamples, seed=seed)
    drift = () if earlier is None else find_drift(rows, observed, earlier)
    return Findings(len(observed.positions), found, find_clusters(observed), drift)


def regions(facts: Mapping[str, Any]) -> dict[str, Better]:
    """The regions that the user named, each with what is better: more in an allowed one, less in a forbidden one."""
    meant: dict[str, Better] = {"allowed": "higher", "forbidden": "lower"}
    return {one["name"]: meant.get(one.get("kind", ""), "neither") for one in facts.get("regions") or ()}


def finding_names(named: Iterable[str]) -> tuple[str, ...]:
    """The names of all findings of an audit with these regions."""
    return tuple(row.name for row in rows_of(dict.fromkeys(named, "neither")))
