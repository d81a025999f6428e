"""K classes of one image from one forward pass, after checking that it equals K passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradskip_onnx.errors import GradskipError
from gradskip_onnx.instrument.pass_request import PassRequest
from gradskip_onnx.runtime.session import Session
from gradskip_onnx.types import Architecture, Array, Plan, Trace

from .run_plan import run_plan

ROUNDING = 1000  # units of the last place, of the largest entry of a tensor
MOST = 0.03  # half precision: sums in another order move its gradients by up to half a percent
SILENT = 4  # ONNX Runtime's severity above errors

Opened = tuple[Plan, Session]
Open = Callable[[PassRequest], Opened]


def share_forward_pass(
    image: Array, targets: Sequence[int | None], regions: Sequence[Array] | None, request: PassRequest,
    architecture: Architecture, alone: Open, with_rows: Open,
) -> tuple[Opened | None, list[Trace] | None]:  # fmt: skip
    """The graph that serves several classes of one image (1, channels, H, W), and their traces; None if none does.

    Usually that is the graph that serves one class (`alone`; see `autodiff.per_class_rows`). Where heads or windows
    share an axis with the image it is one of its own (`with_rows`). Either must give the last class what a pass of
    its own gives.
    """
    plan, session = alone(request)
    if plan.target_input is None:  # nothing is differentiated: the classes do not differ in anything
        return (plan, session), run_plan(session, plan, architecture, image, targets, regions)
    last = None if regions is None else regions[-1:]
    (witness,) = run_plan(session, plan, architecture, image, targets[-1:], last)
    for ways in (with_rows,) if _folded(architecture) else (alone, with_rows):
        try:
            opened = ways(request)
            quiet = replace(opened[1], handle=_Quiet(opened[1].handle))
            found = run_plan(quiet, opened[0], architecture, image, targets, regions)
        except GradskipError:  # shapes that do not fit each other are how a graph says that it cannot
            continue
        if _same(found[-1], witness):
            return opened, found
    return None, None


def _folded(architecture: Architecture) -> bool:
    """Whether an axis of an attention holds more than images: a gradient for each class would not broadcast."""
    return any("(b" in block.attention_layout for block in architecture.blocks)


def _same(one: Trace, other: Trace) -> bool:
    """Whether two traces agree but for rounding, in every tensor and in the class."""
    parts = ("values", "gradients", "readouts", "relevances")
    return one.target == other.target and all(_close(getattr(one, part), getattr(other, part)) for part in parts)


def _close(ones: Mapping[str, Array], others: Mapping[str, Array]) -> bool:
    return ones.keys() == others.keys() and all(_near(ones[name], others[name]) for name in ones)


def _near(one: Array, other: Array) -> bool:
    if one.shape != other.shape:
        return False
    bound = min(ROUNDING * float(np.finfo(other.dtype).eps), MOST)
    a, b = one.astype(np.float64), other.astype(np.float64)
    return bool(np.abs(a - b).max(initial=0) <= bound * np.abs(b).max(initial=0))


@dataclass(frozen=True, slots=True, eq=False)
class _Quiet:
    """A handle that does not log a run that fails: an attempt may, and the caller hears of it."""

    handle: Any

    def run(self, outputs: Sequence[str], feeds: Mapping[str, Array]) -> Any:
        from onnxruntime import RunOptions

        options = RunOptions()
        options.log_severity_level = SILENT
        return self.handle.run(outputs, feeds, options)
