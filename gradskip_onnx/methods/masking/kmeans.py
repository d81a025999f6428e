"""Lloyd's algorithm for k-means on all samples in each step, as in the reference code of TIS.

Not SciPy's kmeans2: it has no tolerance to stop at, keeps the centre of a cluster that became empty, and SciPy is an
optional dependency.
"""

from __future__ import annotations

import numpy as np

from gradskip_onnx.types import Array

MOST_STEPS = 100
STILL = 1e-4  # the iteration stops when the squared movements of all centres sum to this or less
AT_ONCE = 1 << 22  # distances in memory at a time


def kmeans(samples: Array, centres: Array) -> tuple[Array, int]:
    """Final centres (K, n) and the number of steps, from samples (S, n) and initial centres (K, n).

    The centre of a cluster that becomes empty is 0.
    """
    steps = 0
    for steps in range(1, MOST_STEPS + 1):  # noqa: B007  (the count is a result)
        moved = _means(samples, _nearest(samples, centres), len(centres))
        distance = float(np.square(moved - centres).sum())
        centres = moved
        if distance <= STILL:
            break
    return centres, steps


def _nearest(samples: Array, centres: Array) -> Array:
    """The nearest centre of each sample, (S,): argmin_k |x - c_k|^2 = argmin_k |c_k|^2 - 2 x c_k."""
    norms = np.square(centres).sum(axis=1)
    step = max(1, AT_ONCE // len(centres))
    parts = (samples[start : start + step] for start in range(0, len(samples), step))
    return np.concatenate([(norms - 2 * (part @ centres.T)).argmin(axis=1) for part in parts])


def _means(samples: Array, labels: Array, clusters: int) -> Array:
    """The mean of each cluster, (K, n); 0 for an empty one."""
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels, minlength=clusters)
    filled = np.flatnonzero(sizes)
    starts = np.concatenate([[0], np.cumsum(sizes[filled])[:-1]])
    means = np.zeros((clusters, samples.shape[1]), samples.dtype)
    means[filled] = np.add.reduceat(samples[order], starts, axis=0) / sizes[filled, None].astype(samples.dtype)
    return means
