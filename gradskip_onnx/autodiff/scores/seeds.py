"""Scores of a class, written as their gradients at the logits; the class is chosen inside the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from gradskip_onnx.errors import InputError, UnsupportedModelError
from gradskip_onnx.tasks import BY_RANK
from gradskip_onnx.types import TaskName

if TYPE_CHECKING:
    from gradskip_onnx.autodiff.emit import Emit, Sym

# (emit, logits, target, region) -> gradient of the score at the logits, and the class (B,) it is of.
Seed = Callable[["Emit", "Sym", "Sym", "Sym | None"], "tuple[Sym, Sym]"]
RANKED = 5  # ranks that a negative target can name: -1 the most likely class, ..., -5


def logit(_emit: Emit, logits: Sym, target: Sym, region: Sym | None = None) -> tuple[Sym, Sym]:
    """The logit of the class; for segmentation its mean over the explained pixels.

    Target is (B,) or (1,); a negative one is a rank, see `choose`. One image can have several targets; the gradient
    then has a row per target.
    """
    share, chosen = explained(logits, target, region)
    hot = one_hot(chosen, logits)
    return hot if share is None else hot * share, chosen


def probability(emit: Emit, logits: Sym, target: Sym, region: Sym | None = None) -> tuple[Sym, Sym]:
    """The probability p_c of the class, dp_c/dz = p_c (1_c - p), or its mean over the explained pixels."""
    weights, chosen = logit(emit, logits, target, region)
    return through_softmax(weights, logits), chosen


SEEDS: Mapping[str, Seed] = MappingProxyType({"logit": logit, "probability": probability})


def named_seed(score: str) -> Seed:
    """The score that users choose by this name; an unknown name raises InputError."""
    if score not in SEEDS:
        raise InputError(f"unknown score {score!r}; known: {', '.join(SEEDS)}")
    return SEEDS[score]


def explained(logits: Sym, target: Sym, region: Sym | None = None) -> tuple[Sym | None, Sym]:
    """The share of each pixel in the score (B, 1, h, w), None for classification; and the class (B,)."""
    return EXPLAINED[BY_RANK[logits.rank].name](logits, target, region)


def _whole_image(logits: Sym, target: Sym, _region: Sym | None) -> tuple[None, Sym]:
    """`explained` for logits (B, C)."""
    return None, choose(target, logits)


def _pixels(logits: Sym, target: Sym, region: Sym | None) -> tuple[Sym, Sym]:
    """`explained` for logits (B, C, h, w); classes are ranked by the number of pixels predicted as each.

    Region is pixel weights that broadcast to (B, h, w). Without a region, or if any weight is negative, the weights are
    1 at the pixels predicted as the class. If the weights sum to 0, all pixels have the same share.
    """
    predicted = argmax(logits, 1)  # (B, h, w)
    chosen = choose(target, pixels_per_class(predicted, logits))
    return pixel_shares(logits, predicted, chosen, region), chosen


def pixel_shares(logits: Sym, predicted: Sym, chosen: Sym, region: Sym | None) -> Sym:
    """The share of each pixel in the score of a class (B,), (B, 1, h, w); `predicted` is the argmax of the logits."""
    of_class = predicted.equals(chosen.unsqueeze(1, 2)).cast(np.float32)
    weights = of_class
    if region is not None:
        automatic = (region < 0).cast(np.float32).sum([1, 2]) > 0
        weights = automatic.where(of_class, region)
    total = weights.sum([1, 2])
    pixels = logits.dims[2] * logits.dims[3] if logits.dims[2] and logits.dims[3] else None
    if pixels is None:
        raise UnsupportedModelError("dynamic-shape", f"the size of {logits.name!r} is not fixed; export with one size")
    share = (total > 0).where(weights / total, 1 / pixels)
    return share.unsqueeze(1).cast(logits.dtype)


# The counterpart in the graph of `tasks.Task.explained`, which is in NumPy.
EXPLAINED: Mapping[TaskName, Callable[[Sym, Sym, Sym | None], tuple[Sym | None, Sym]]] = MappingProxyType(
    {"classification": _whole_image, "segmentation": _pixels}
)


def argmax(x: Sym, axis: int) -> Sym:
    dims = (*x.dims[:axis], *x.dims[axis + 1 :])
    return x.emit.op("ArgMax", x, dims=dims, dtype=np.int64, axis=axis, keepdims=0)


def choose(target: Sym, strength: Sym) -> Sym:
    """The class (B,) for a target (B,): its number, or its rank by `strength` (B, C).

    -1 is the strongest class, -2 the second, and so on; a rank beyond RANKED means -1. Of equally strong classes the
    first comes first, as in ArgMax. A number that no class has ends the run, when it is looked up among theirs.
    """
    emit, classes = target.emit, strength.dims[1] or 1
    count = min(RANKED, classes)
    dims = (strength.dims[0], count)
    _, order = emit.ops(
        "TopK", strength.cast(np.float32), emit.ints([count]), dims=[dims, dims], dtypes=[np.float32, np.int64], axis=1
    )
    rank = (target < -count).where(emit.const(0, np.int64), -1 - target)
    here = rank.unsqueeze(1).equals(emit.const(np.arange(count)[None], np.int64))
    chosen = (target < 0).where(here.where(order, 0).sum([1], keepdims=False), target)
    return emit.op("Gather", emit.const(np.arange(classes), np.int64), chosen, dims=chosen.dims, dtype=np.int64, axis=0)


def one_hot(chosen: Sym, logits: Sym) -> Sym:
    """1 at the chosen class, else 0: (B, C) or, to broadcast over pixels, (B, C, 1, 1)."""
    trailing = (1,) * (logits.rank - 2)
    classes = logits.emit.const(np.arange(logits.dims[1] or 0).reshape(1, -1, *trailing), np.int64)
    return chosen.unsqueeze(*range(1, logits.rank)).equals(classes).cast(logits.dtype)


def pixels_per_class(predicted: Sym, logits: Sym) -> Sym:
    """The number of pixels predicted as each class, (B, C)."""
    classes = logits.emit.const(np.arange(logits.dims[1] or 0).reshape(1, -1, 1, 1), np.int64)
    return predicted.unsqueeze(1).equals(classes).cast(np.float32).sum([2, 3], keepdims=False)


def through_softmax(weights: Sym, logits: Sym) -> Sym:
    """The gradient at the logits of a score whose gradient at their softmax over classes is `weights`."""
    p = logits.emit.op("Softmax", logits, dims=logits.dims, axis=1)
    weighted = weights * p
    return weighted - p * weighted.sum([1])
