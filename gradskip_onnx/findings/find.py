"""Finds what the table of findings asks for in an audit, and clusters; with an earlier audit, the drift since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gradskip_onnx.audit.reading import Audit
from gradskip_onnx.errors import InputError

from .clusters import find_clusters
from .drift import baseline_of, find_drift
from .found import Findings
from .observed import observe
from .table import rows_of

RESAMPLES = 2000


def find(audit: Audit, baseline: Audit | None = None, *, resamples: int = RESAMPLES, seed: int = 0) -> Findings:
    """The findings of an audit, the same for the same seed; `baseline` is an earlier audit to measure drift from."""
    observed = observe(audit, resamples=resamples, seed=seed)
    if not len(observed.positions):
        raise InputError("an audit without images has no findings; let it run first")
    rows = rows_of(region_names(audit.facts))
    found = tuple(row.measure(row, observed) for row in rows)
    earlier = None if baseline is None else observe(baseline, resamples=resamples, seed=seed)
    drift = () if earlier is None else find_drift(rows, observed, earlier)
    since = None if baseline is None else baseline_of(audit, baseline)
    return Findings(len(observed.positions), found, find_clusters(observed), drift, since)


def region_names(facts: Mapping[str, Any]) -> list[str]:
    """The regions that the user named."""
    return [str(one["name"]) for one in facts.get("regions") or ()]


def finding_names(regions: Iterable[str]) -> tuple[str, ...]:
    """The names of all findings of an audit with these regions."""
    return tuple(row.name for row in rows_of(regions))
