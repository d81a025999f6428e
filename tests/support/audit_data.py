"""Writes small made-up audits, so that what reads audits is tested without a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gradskip_onnx.audit.parts import write_part
from gradskip_onnx.audit.place import Place, open_place
from gradskip_onnx.audit.reading import FACTS, FORMAT, Audit, read_audit
from gradskip_onnx.audit.row import RegionShare, Row, Standing, map_facts
from gradskip_onnx.output.json_text import encode_json

GRID = (6, 8)
PART = 16


def facts(count: int, labels: Sequence[str], part_size: int = PART, **changed: Any) -> dict[str, Any]:
    """The content of audit.json."""
    return {
        "format": FORMAT,
        "model": {"file": "vit.onnx", "sha256": "a" * 64, "files": {"vit.onnx": "a" * 64}},
        "task": "classification",
        "classes": len(labels),
        "labels": list(labels),
        "grid": list(GRID),
        "image_size": [48, 64],
        "method": "gradskip+",
        "options": {"detail": 0.5},
        "score": "logit",
        "target": "predicted",
        "data": {"address": "photos", "layout": "folder", "count": count, "list_sha256": "b" * 64},
        "preprocess": {"size": [48, 64], "crop": 1.0},
        "regions": [{"name": "logo", "kind": "corner", "text": "bottom-right:0.2"}],
        "check": {"share": 0.1, "fill": "mean", "draws": 4},
        "seed": 0,
        "batch_size": 8,
        "part_size": part_size,
        "privacy": False,
        "versions": {"gradskip-onnx": "0.1.0"},
        "provider": "CPUExecutionProvider",
    } | changed


def scores(rng: np.random.Generator, row: float, column: float, width: float = 0.15) -> np.ndarray[Any, Any]:
    """A map with a hill whose top is at (row, column), in fractions, and a little noise of both signs."""
    rows, columns = ((np.arange(length) + 0.5) / length for length in GRID)
    distance = (rows[:, None] - row) ** 2 + (columns[None, :] - column) ** 2
    return np.asarray(np.exp(-distance / (2 * width**2)) + 0.02 * rng.standard_normal(GRID), np.float32)


def good_row(position: int, classes: int, rng: np.random.Generator) -> Row:
    """An image that was explained: the hill lies near the middle; every tenth answer is wrong."""
    label = position % classes
    predicted = (label + 1) % classes if position % 10 == 9 else label
    chance = float(rng.uniform(0.6, 0.99))
    map_ = scores(rng, *rng.uniform(0.35, 0.65, 2))
    return Row(
        position=position, image=f"photos/{position:04}.png", image_sha256=f"{position:064x}", width=64, height=48,
        label=label, correct=label == predicted, predicted=predicted, predicted_probability=chance,
        target=predicted, logit=5.0, probability=chance,
        top=(Standing(predicted, 5.0, chance), Standing((predicted + 1) % classes, 1.0, 1 - chance)),
        logits_difference=1e-6, seconds=0.1,
        regions=(RegionShare("logo", float(rng.uniform(0.0, 0.08)), 0.04),),
        check_patches=5, check_erased=chance / 2, check_random=chance * 0.9, check_passed=True,
        **map_facts(map_), **_statistics(map_, rng),
    )  # fmt: skip


def failed_row(position: int, name: str = "photos/broken.png", why: str = "broken image (truncated)") -> Row:
    return Row(position=position, image=name, error=why, seconds=0.0)


def doubtful(row: Row) -> Row:
    """The same image, with a map that fails the counterfactual check."""
    why = "erasing the most relevant patches changes the answer less than erasing random ones"
    return replace(row, check_erased=row.check_random, check_passed=False, abstained=why)


def in_corner(row: Row, rng: np.random.Generator) -> Row:
    """The same image, with the hill in the lower right corner, where the region `logo` is."""
    map_ = scores(rng, 0.92, 0.94)
    return replace(row, regions=(RegionShare("logo", 0.8, 0.04),), **map_facts(map_), **_statistics(map_, rng))


def write_audit(
    folder: str | Path | Place,
    count: int = 40,
    labels: Sequence[str] = ("cat", "dog", "bird"),
    *,
    shortcut: int | None = None,
    broken: Sequence[int] = (3,),
    doubted: Sequence[int] = (5, 20),
    rows: Sequence[Row] | None = None,
    seed: int = 0,
    **changed: Any,
) -> Audit:
    """A finished audit of `count` images.

    In two thirds of the images of the class `shortcut` the map lies in the lower right corner. `rows` replaces them
    all, and `changed` facts of audit.json.
    """
    rng = np.random.default_rng(seed)
    found = list(rows) if rows is not None else [good_row(at, len(labels), rng) for at in range(count)]
    if rows is None:
        found = [in_corner(row, rng) if row.label == shortcut and row.position % 9 > 2 else row for row in found]
        found = [doubtful(row) if row.position in doubted else row for row in found]
        found = [failed_row(row.position, row.image) if row.position in broken else row for row in found]
    place = open_place(folder)
    place.make("parts")
    document = facts(len(found), labels, **changed)
    place.write(FACTS, encode_json(document))
    step = int(document["part_size"])
    for number, start in enumerate(range(0, len(found), step)):
        write_part(place, number, found[start : start + step])
    return read_audit(place)


def _statistics(map_: np.ndarray[Any, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Plausible numbers of a map; those that a reader would compare with the map itself are computed from it."""
    positive = np.maximum(map_, 0).astype(np.float64)
    rows, columns = ((np.arange(length) + 0.5) / length for length in GRID)
    total = positive.sum()
    at = np.unravel_index(int(map_.argmax()), GRID)
    inside = float(rng.uniform(0.4, 0.9))
    return {
        "map_total": float(map_.sum(dtype=np.float64)),
        "negative_share": float(np.maximum(-map_, 0).sum(dtype=np.float64) / np.abs(map_).sum(dtype=np.float64)),
        "peak_row": float(rows[at[0]]),
        "peak_column": float(columns[at[1]]),
        "centre_row": float((positive * rows[:, None]).sum() / total),
        "centre_column": float((positive * columns[None, :]).sum() / total),
        "spread": float(rng.uniform(0.15, 0.3)),
        "concentration": float(rng.uniform(0.5, 0.8)),
        "border": float(rng.uniform(0.0, 0.2)),
        "inside": inside,
        "inside_area": 0.2,
        "pointed": inside > 0.5,
    }
