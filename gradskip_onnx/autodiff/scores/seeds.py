"""What is differentiated: the score of a class, chosen inside the graph, as the gradient it puts on the logits."""

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

Seed = Callable[["Emit", "Sym", "Sym", "Sym | None"], "tuple[Sym, Sym]"]
RANKED = 5  # classes that can be asked for by their place among the likeliest


def logit(_emit: Emit, logits: Sym, target: Sym, region: Sym | None = None) -> tuple[Sym, Sym]:
    """The logit of the class; over pixels its mean over those explained.

    Target (B,) or (1,), negative: by its place among the likeliest. One image can have several targets: then the
    gradient has a row for each of them.
    """
    share, chosen = explained(logits, target, region)
    hot = one_hot(chosen, logits)
    return hot if share is None else hot * share, chosen


def probability(emit: Emit, logits: Sym, target: Sym, region: Sym | None = None) -> tuple[Sym, Sym]:
    """The probability p_c of the class, dp_c/dz = p_c (1_c - p); over pixels its mean over those explained."""
    weights, chosen = logit(emit, logits, target, region)
    return through_softmax(weights, logits), chosen


SEEDS: Mapping[str, Seed] = MappingProxyType({"logit": logit, "probability": probability})


def named_seed(score: str) -> Seed:
    """The score that users call by this name."""
    if score not in SEEDS:
        raise InputError(f"unknown score {score!r}; known: {', '.join(SEEDS)}")
    return SEEDS[score]


def explained(logits: Sym, target: Sym, region: Sym | None = None) -> tuple[Sym | None, Sym]:
    """Each pixel's share of the score (B, 1, h, w), or None where scores are about the whole image; and the class."""
    return EXPLAINED[BY_RANK[logits.rank].name](logits, target, region)


def _whole_image(logits: Sym, target: Sym, _region: Sym | None) -> tuple[None, Sym]:
    """Logits (B, C)."""
    return None, choose(target, logits)


def _pixels(logits: Sym, target: Sym, region: Sym | None) -> tuple[Sym, Sym]:
    """Logits (B, C, h, w); the place of a class is that among the most predicted.

    Region: pixel weights that broadcast to (B, h, w); if any is negative, or there is no region, the pixels predicted
    as the class. All pixels where the weights add up to nothing.
    """
    predicted = argmax(logits, 1)  # (B, h, w)
    chosen = choose(target, pixels_per_class(predicted, logits))
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
    return share.unsqueeze(1).cast(logits.dtype), chosen


# What `tasks.Task.explained` is in NumPy, inside the graph.
EXPLAINED: Mapping[TaskName, Callable[[Sym, Sym, Sym | None], tuple[Sym | None, Sym]]] = MappingProxyType(
    {"classification": _whole_image, "segmentation": _pixels}
)


def argmax(x: Sym, axis: int) -> Sym:
    dims = (*x.dims[:axis], *x.dims[axis + 1 :])
    return x.emit.op("ArgMax", x, dims=dims, dtype=np.int64, axis=axis, keepdims=0)


def choose(target: Sym, strength: Sym) -> Sym:
    """The class asked for: by its number, or by its place, -1 the strongest, -2 the next; -1 if the place is too far.

    Strength (B, C), target and result (B,). Of equally strong classes the first comes first, as in ArgMax.
    """
    emit, count = target.emit, min(RANKED, strength.dims[1] or 1)
    dims = (strength.dims[0], count)
    _, order = emit.ops(
        "TopK", strength.cast(np.float32), emit.ints([count]), dims=[dims, dims], dtypes=[np.float32, np.int64], axis=1
    )
    place = (target < -count).where(emit.const(0, np.int64), -1 - target)
    here = place.unsqueeze(1).equals(emit.const(np.arange(count)[None], np.int64))
    return (target < 0).where(here.where(order, 0).sum([1], keepdims=False), target)


def one_hot(chosen: Sym, logits: Sym) -> Sym:
    """One at the chosen class: (B, C) or, to broadcast over pixels, (B, C, 1, 1)."""
    trailing = (1,) * (logits.rank - 2)
    classes = logits.emit.const(np.arange(logits.dims[1] or 0).reshape(1, -1, *trailing), np.int64)
    return chosen.unsqueeze(*range(1, logits.rank)).equals(classes).cast(logits.dtype)


def pixels_per_class(predicted: Sym, logits: Sym) -> Sym:
    """How many pixels each class won. (B, C)"""
    classes = logits.emit.const(np.arange(logits.dims[1] or 0).reshape(1, -1, 1, 1), np.int64)
    return predicted.unsqueeze(1).equals(classes).cast(np.float32).sum([2, 3], keepdims=False)


def through_softmax(weights: Sym, logits: Sym) -> Sym:
    """Gradient at the logits of a score with gradient `weights` at their softmax over the class axis."""
    p = logits.emit.op("Softmax", logits, dims=logits.dims, axis=1)
    weighted = weights * p
    return weighted - p * weighted.sum([1])
