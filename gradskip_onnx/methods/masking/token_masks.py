"""Probabilities of a class when only some patches are there, for methods that drop tokens."""

from __future__ import annotations

import numpy as np

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.images.interpolate import nearest
from gradskip_onnx.methods.passes import Passes
from gradskip_onnx.types import Architecture, Array, Trace

AT_ONCE = 32  # images held at a time


def ask(
    trace: Trace, architecture: Architecture, keep: Array, passes: Passes, seed: int
) -> tuple[Array, tuple[str, ...]]:
    """(M, n) booleans -> (M,) probabilities, and a note where pixels had to be masked instead of tokens dropped."""
    try:
        return passes.without_tokens(keep), ()
    except UnsupportedModelError as refusal:
        if refusal.code != "fixed-sequence":
            raise
        note = f"pixels of dropped patches were replaced by noise in place of shortening the sequence: {refusal}"
    rng = np.random.default_rng(seed)
    parts = (keep[start : start + AT_ONCE] for start in range(0, len(keep), AT_ONCE))
    found = [passes.probabilities(behind_noise(trace.input, part, architecture.grid, rng)) for part in parts]
    return np.concatenate(found), (note,)


def behind_noise(image: Array, keep: Array, grid: tuple[int, int], rng: np.random.Generator) -> Array:
    """(M, channels, H, W): patches that are not kept hold noise, uniform in 0 ... 1, in normalised space."""
    rows, columns = (nearest(new, 0, old) for new, old in zip(image.shape[1:], grid, strict=True))
    seen = keep.reshape(-1, *grid)[:, rows][:, :, columns]
    noise = rng.random((len(keep), *image.shape))
    return np.where(seen[:, None], image, noise).astype(image.dtype)


def mean_score(probabilities: Array, keep: Array) -> Array:
    """(n,): for each patch the mean probability over the masks that keep it, 0 where none does."""
    covered = keep.sum(axis=0)
    return np.asarray(probabilities @ keep / np.maximum(covered, 1))
