"""The mean map of all images and of each class, from the positive part of each map scaled to a sum of 1."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from gradskip_onnx.audit.reading import Audit
from gradskip_onnx.images.interpolate import resize
from gradskip_onnx.types import Array


@dataclass(frozen=True, slots=True, eq=False)
class MeanMaps:
    """Mean maps (rows, columns), overall and by the index of the class explained; empty without any map."""

    overall: Array
    classes: dict[int, Array]
    counts: Counter[int]


def mean_maps(audit: Audit) -> MeanMaps:
    """Reads every map once, part by part, and holds the sums; maps of other sizes are brought to the model's grid."""
    rows, columns = audit.facts["grid"]
    sums: dict[int, Array] = {}
    counts: Counter[int] = Counter()
    table = audit.table
    targets = table.filter(table["map_rows"].is_valid())["target"].to_pylist()
    for target, scores in zip(targets, audit.maps(), strict=True):
        positive = np.maximum(scores, 0).astype(np.float64)
        if not (total := float(positive.sum())) > 0:
            continue
        if positive.shape != (rows, columns):
            positive = np.asarray(resize(positive, (rows, columns)), np.float64)
            total = float(positive.sum()) or 1.0
        index = -1 if target is None else int(target)
        sums[index] = sums.get(index, 0.0) + positive / total
        counts[index] += 1
    overall = sum(sums.values()) / max(1, sum(counts.values())) if sums else np.zeros((rows, columns))
    return MeanMaps(np.asarray(overall), {index: sums[index] / counts[index] for index in sums}, counts)
