"""Where backward propagation starts and stops; positions of blocks count from 0, numbers shown to users from 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from gradskip_onnx.errors import InputError, UnsupportedModelError
from gradskip_onnx.types import Architecture, Array


class RouteOptions(Protocol):
    """The options that decide the route."""

    @property
    def stages(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def steps(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Route:
    """Relevance goes back through blocks first, first - 1, ..., stop + 1; the result is at the output of `stop`."""

    starts: Mapping[int, float]  # position -> share of the initial relevance that enters there
    stop: int
    lowest: int  # first block in scope
    stage_entries: frozenset[int]  # first blocks of the stages in scope, except the lowest: the grid before is finer
    notes: tuple[str, ...]

    @property
    def first(self) -> int:
        return max(self.starts)

    def enters_stage(self, at: int) -> bool:
        return at in self.stage_entries


def route(architecture: Architecture, norms: Array, mass: Array, options: RouteOptions) -> Route:
    """The route by the options; `norms` and `mass` are |G|_F and sum |G * T| over the patches, one per block."""
    if options.stages == "each" and (options.start, options.steps) != (0, -1):
        raise InputError("gradskip option stages='each' has its own starts: leave start at 0 and steps at -1")
    stages = [block.stage for block in architecture.blocks]
    entries = frozenset(at for at in range(1, len(stages)) if stages[at] != stages[at - 1])
    lowest = max(entries, default=0) if options.stages == "last" else 0
    if options.stages == "each":
        bounds = [0, *sorted(entries), len(stages)]
        spans = [range(low, high) for low, high in pairwise(bounds)]
    else:
        spans = [range(lowest, len(stages))]
    starts = {at: 1.0 for span in spans if (at := _last_with_gradient(span, norms, options)) is not None}
    if not starts:
        raise UnsupportedModelError("zero-gradient", _no_gradient(len(stages) - lowest, options))
    if options.stages == "each" and (total := float(mass[list(starts)].sum())) > 0:
        starts = {at: float(mass[at]) / total for at in starts if mass[at] > 0}
    elif options.stages == "each":
        starts = dict.fromkeys(starts, 1 / len(starts))
    stop = _stop(max(starts), lowest, options.steps)
    return Route(starts, stop, lowest, frozenset(at for at in entries if at > lowest), _notes(spans, starts, options))


def _last_with_gradient(span: range, norms: Array, options: RouteOptions) -> int | None:
    """The block of `span` to start at: the user's, or the last one with a gradient at its patches."""
    if options.start == 0:
        return max((at for at in span if norms[at] > 0), default=None)
    if options.start - 1 not in span:
        raise InputError(f"option start: got {options.start}, allowed: 0, {span.start + 1} to {span.stop}")
    if norms[options.start - 1] == 0:
        raise InputError(f"option start: block {options.start} has no gradient at its patches; try start=0")
    return options.start - 1


def _stop(first: int, lowest: int, steps: int) -> int:
    if steps == -1:
        return lowest
    if steps > first - lowest + 1:
        raise InputError(f"gradskip option steps: got {steps}, allowed: -1 to {first - lowest + 1} from this start")
    return first - steps


def _no_gradient(blocks: int, options: RouteOptions) -> str:
    scope = "in the last stage" if options.stages == "last" else "in the model"
    return (
        f"the score has no gradient at any patch of the {blocks} blocks {scope}, so no relevance can start; "
        "try tokens=input, another target or stages=all"
    )


def _notes(spans: list[range], starts: Mapping[int, float], options: RouteOptions) -> tuple[str, ...]:
    notes = []
    for span in spans:
        at = max((at for at in starts if at in span), default=None)
        if at is None:
            notes.append(f"blocks {span.start + 1} to {span.stop} have no gradient at their patches: no start there")
        elif at < span.stop - 1 and options.start == 0:
            notes.append(f"started at block {at + 1} of {span.stop}: no gradient at the patches of later blocks")
    return tuple(notes)
