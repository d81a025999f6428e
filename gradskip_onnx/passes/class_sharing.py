"""K classes of one image from one forward pass, after checking that it equals K passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from gradskip_onnx.errors import GradskipError
from gradskip_onnx.instrument.pass_request import PassRequest
from gradskip_onnx.runtime.session import Session
from gradskip_onnx.types import Architecture, Array, Plan, Trace

from .run_plan import run_plan

ROUNDING = 1000  # allowed difference: machine epsilons of the largest entry of a tensor
MOST = 0.03  # upper limit of that, for half precision: reordered sums move gradients by up to half a percent

Opened = tuple[Plan, Session]
Open = Callable[[PassRequest], Opened]


def share_forward_pass(
    image: Array, targets: Sequence[int | None], regions: Sequence[Array] | None, request: PassRequest,
    architecture: Architecture, one_class: Open, with_rows: Open,
) -> tuple[Opened | None, list[Trace] | None]:  # fmt: skip
    """Find a graph that serves several classes of one image (1, channels, H, W); returns it and the traces, or None.

    The graph for one class (`one_class`) usually does, since gradients broadcast over classes. Where heads or windows
    share an axis with the image, a graph with a row per class is built (`with_rows`, see `autodiff.per_class_rows`).
    A graph is accepted if its trace of the last class equals that of a separate pass.
    """
    plan, session = one_class(request)
    if plan.target_input is None:  # no gradients: all classes have the same trace
        return (plan, session), run_plan(session, plan, architecture, image, targets, regions)
    per_class = (plan.gradients, plan.readouts, plan.relevances)
    if any(output in plan.makers for part in per_class for output in part.values()):
        return None, None  # each would be made for all classes at once
    last = None if regions is None else regions[-1:]
    (witness,) = run_plan(session, plan, architecture, image, targets[-1:], last)
    for open_graph in (with_rows,) if _folded(architecture) else (one_class, with_rows):
        try:
            opened = open_graph(request)
            found = run_plan(opened[1], opened[0], architecture, image, targets, regions)
        except GradskipError:  # the graph cannot broadcast over classes: its shapes do not fit
            continue
        if _same(found[-1], witness):
            return opened, found
    return None, None


def _folded(architecture: Architecture) -> bool:
    """Whether images share an axis of an attention with heads or windows; a class axis could not broadcast there."""
    return any("(b" in block.attention_layout for block in architecture.blocks)


def _same(one: Trace, other: Trace) -> bool:
    """Whether two traces have the same class and, up to rounding, the same tensors."""
    parts = ("values", "gradients", "readouts", "relevances", "unsigned")
    return one.target == other.target and all(_close(getattr(one, part), getattr(other, part)) for part in parts)


def _close(ones: Mapping[str, Array], others: Mapping[str, Array]) -> bool:
    return ones.keys() == others.keys() and all(_near(ones[name], others[name]) for name in ones)


def _near(one: Array, other: Array) -> bool:
    if one.shape != other.shape:
        return False
    bound = min(ROUNDING * float(np.finfo(other.dtype).eps), MOST)
    found = [  # head by head: an attention is large
        (np.abs(a - wide).max(initial=0), np.abs(wide).max(initial=0))
        for a, wide in (
            (a, b.astype(np.float64)) for a, b in zip(np.atleast_1d(one), np.atleast_1d(other), strict=True)
        )
    ]
    gap, largest = np.max(found, axis=0, initial=0)  # NaN propagates
    return bool(gap <= bound * largest)
