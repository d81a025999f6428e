"""Audits with maps and columns chosen by a test."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradskip_onnx.audit.reading import Audit
from gradskip_onnx.audit.row import Row, map_facts
from gradskip_onnx.findings.observed import Observed, observe
from tests.support.audit_data import write_audit

LABELS = ("cat", "dog", "bird")


def audit_of(
    folder: str | Path,
    maps: Sequence[Any],
    targets: Sequence[int],
    labels: Sequence[str] = LABELS,
    regions: Sequence[str] = (),
    **columns: Any,
) -> Audit:
    """An audit of an image a map; `targets` are the classes explained, `columns` further values an image."""
    rows = [
        Row(
            position=at, image=f"{at}.png", image_sha256=f"{at:064x}", target=int(target), predicted=int(target),
            **map_facts(np.asarray(scores, np.float32)), **{name: values[at] for name, values in columns.items()},
        )
        for at, (scores, target) in enumerate(zip(maps, targets, strict=True))
    ]  # fmt: skip
    named = [{"name": name, "kind": "corner", "text": "top-left:0.2"} for name in regions]
    return write_audit(folder, labels=labels, rows=rows, regions=named)


def observed_of(folder: str | Path, maps: Sequence[Any], targets: Sequence[int], **columns: Any) -> Observed:
    """The same, ready for findings."""
    return observe(audit_of(folder, maps, targets, **columns), resamples=2000, seed=0)


def hill(
    rng: np.random.Generator, row: float, column: float, side: int = 12, width: float = 0.1, noise: float = 0.02
) -> Any:
    """A map with its top at (row, column), in fractions."""
    at = (np.arange(side) + 0.5) / side
    distance = (at[:, None] - row) ** 2 + (at[None, :] - column) ** 2
    return np.exp(-distance / (2 * width**2)) + noise * rng.standard_normal((side, side))


def anywhere(count: int, seed: int = 0) -> list[Any]:
    """Hills all over the image, as of objects that may be anywhere."""
    rng = np.random.default_rng(seed)
    return [hill(rng, *rng.uniform(0.15, 0.85, 2)) for _ in range(count)]


def in_corner(count: int, seed: int = 1) -> list[Any]:
    """Hills in the lower right corner."""
    rng = np.random.default_rng(seed)
    return [hill(rng, 0.94, 0.94) for _ in range(count)]
