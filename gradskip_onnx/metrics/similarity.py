"""Similarity of two maps: rank correlation, with and without signs, and structural similarity."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradskip_onnx.errors import InputError
from gradskip_onnx.images import interpolate
from gradskip_onnx.imports.optional import import_optional
from gradskip_onnx.types import Array

from .statistics import spearman

WINDOW = 7  # side in pixels of the windows of structural similarity
STABLE = (0.01**2, 0.03**2)  # C1, C2 of Wang et al. for values in [0, 1]


def ranks_alike(one: Array, other: Array) -> float:
    """Spearman's rank correlation of the pixels; 0 if a map is constant."""
    return spearman(one.reshape(-1), other.reshape(-1)).statistic


def absolute_ranks_alike(one: Array, other: Array) -> float:
    """Spearman's rank correlation of absolute values."""
    return ranks_alike(np.abs(one), np.abs(other))


def ssim(one: Array, other: Array) -> float:
    """Structural similarity (Wang et al. 2004) of both maps scaled to [0, 1]: mean over all windows inside."""
    if min(one.shape) < WINDOW:
        raise InputError(f"structural similarity needs {WINDOW}x{WINDOW} pixels or more, got {one.shape}")
    a, b = (interpolate.normalise(values).astype(np.float64) for values in (one, other))
    ndimage = import_optional("scipy.ndimage")

    def local(values: Array) -> Array:
        """Mean over each window that lies inside the map."""
        edge = WINDOW // 2
        return np.asarray(ndimage.uniform_filter(values, WINDOW)[edge:-edge, edge:-edge])

    unbiased = WINDOW**2 / (WINDOW**2 - 1)
    mean_a, mean_b = local(a), local(b)
    var_a, var_b = unbiased * (local(a * a) - mean_a**2), unbiased * (local(b * b) - mean_b**2)
    covariance = unbiased * (local(a * b) - mean_a * mean_b)
    c1, c2 = STABLE
    numerator = (2 * mean_a * mean_b + c1) * (2 * covariance + c2)
    return float((numerator / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2))).mean())


SIMILARITIES: dict[str, Callable[[Array, Array], float]] = {
    "spearman": ranks_alike,
    "spearman_absolute": absolute_ranks_alike,
    "ssim": ssim,
}
