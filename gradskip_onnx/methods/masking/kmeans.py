"""Lloyd's algorithm for k-means, the whole data in each step, as the reference of TIS does it.

Own code: SciPy's kmeans2 stops at no tolerance, leaves an emptied cluster where it was and is in no plain install.
"""

from __future__ import annotations

import numpy as np

from gradskip_onnx.types import Array

MOST_STEPS = 100
STILL = 1e-4  # sum of squared movements of all centres at which they count as settled
AT_ONCE = 1 << 22  # distances held at a time


def kmeans(samples: Array, centres: Array) -> tuple[Array, int]:
    """(S, n) samples and (K, n) starting centres -> centres, and the number of steps; an emptied cluster is at 0."""
    steps = 0
    for steps in range(1, MOST_STEPS + 1):  # noqa: B007  (the count is a result)
        moved = _means(samples, _nearest(samples, centres), len(centres))
        distance = float(np.square(moved - centres).sum())
        centres = moved
        if distance <= STILL:
            break
    return centres, steps


def _nearest(samples: Array, centres: Array) -> Array:
    """(S,): argmin_k |c_k|^2 - 2 x c_k, which |x|^2 does not change."""
    norms = np.square(centres).sum(axis=1)
    step = max(1, AT_ONCE // len(centres))
    parts = (samples[start : start + step] for start in range(0, len(samples), step))
    return np.concatenate([(norms - 2 * (part @ centres.T)).argmin(axis=1) for part in parts])


def _means(samples: Array, labels: Array, clusters: int) -> Array:
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels, minlength=clusters)
    filled = np.flatnonzero(sizes)
    starts = np.concatenate([[0], np.cumsum(sizes[filled])[:-1]])
    means = np.zeros((clusters, samples.shape[1]), samples.dtype)
    means[filled] = np.add.reduceat(samples[order], starts, axis=0) / sizes[filled, None].astype(samples.dtype)
    return means
