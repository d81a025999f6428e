"""Probabilities of a class when the model reads only some patches, for methods that drop tokens."""

from __future__ import annotations

import numpy as np

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.images.interpolate import nearest
from gradskip_onnx.methods.passes import Passes
from gradskip_onnx.types import Architecture, Array, Trace

AT_ONCE = 32  # images in memory at a time


def masked_probabilities(
    trace: Trace, architecture: Architecture, keep: Array, passes: Passes, seed: int
) -> tuple[Array, tuple[str, ...]]:
    """(M,) probabilities for (M, n) booleans `keep`, and notes.

    If the model's sequence cannot be shortened, pixels of dropped patches are replaced by noise, and a note says so.
    """
    try:
        return passes.without_tokens(keep), ()
    except UnsupportedModelError as refusal:
        if refusal.code != "fixed-sequence":
            raise
        note = f"pixels of dropped patches were replaced by noise in place of shortening the sequence: {refusal}"
    rng = np.random.default_rng(seed)
    parts = (keep[start : start + AT_ONCE] for start in range(0, len(keep), AT_ONCE))
    found = [passes.probabilities(with_noise(trace.input, part, architecture.grid, rng)) for part in parts]
    return np.concatenate(found), (note,)


def with_noise(image: Array, keep: Array, grid: tuple[int, int], rng: np.random.Generator) -> Array:
    """The image once per mask, (M, channels, H, W), dropped patches replaced by noise.

    The noise is uniform in 0 ... 1 after normalisation.
    """
    rows, columns = (nearest(new, 0, old) for new, old in zip(image.shape[1:], grid, strict=True))
    visible = keep.reshape(-1, *grid)[:, rows][:, :, columns]
    noise = rng.random((len(keep), *image.shape))
    return np.where(visible[:, None], image, noise).astype(image.dtype)


def mean_score(probabilities: Array, keep: Array) -> Array:
    """The mean probability over the masks that keep each patch, (n,); 0 if no mask keeps it."""
    covered = keep.sum(axis=0)
    return np.asarray(probabilities @ keep / np.maximum(covered, 1))
