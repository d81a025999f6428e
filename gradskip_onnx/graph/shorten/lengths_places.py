"""The table, continued: operators that select tokens by position; only positions of special tokens can be kept."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from .lengths import Walk, constant_input, refuse, rule
from .sizes import Free, Scale, Shape, Size, number, open_tokens, plain, spell

TO_THE_END = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Bound:
    """A cut between tokens: so many tokens after the start or, with `from_end`, before the end."""

    tokens: int
    from_end: bool

    @property
    def index(self) -> int:
        return (-self.tokens or int(TO_THE_END)) if self.from_end else self.tokens

    def value(self, whole: int) -> int:
        return whole - self.tokens if self.from_end else self.tokens


def _bound(walk: Walk, node: Any, at: int, size: Free) -> Bound:
    """The cut in front of token `at`, counted from the end of the sequence that no patch separates it from."""
    whole = walk.scale.factor(size)
    at = min(max(at + whole if at < 0 else at, 0), whole)
    if at <= walk.leading - size.front:
        return Bound(at, from_end=False)
    if at >= whole - (walk.trailing - size.back):
        return Bound(whole - at, from_end=True)
    raise refuse(node, f"cuts the sequence after token {at} of {whole}, between patches")


def _between(start: Bound, end: Bound, tokens: Free, scale: Scale) -> Size:
    """The number of tokens between two cuts."""
    if end.from_end and not start.from_end:
        return (Free("tokens", tokens.front + start.tokens, tokens.back + end.tokens),)
    whole = scale.factor(tokens)  # cancels if both cuts are counted from the same end
    return plain(max(end.value(whole) - start.value(whole), 0))


@rule("Concat")
def _concat(walk: Walk, node: Any) -> list[Shape]:
    shapes = [walk.shape(tensor, node) for tensor in node.inputs]
    axis = node.attrs["axis"] % len(shapes[0])
    numbers = [number(shape[axis]) for shape in shapes]
    free = [at for at, count in enumerate(numbers) if count is None]
    tokens = open_tokens(shapes[free[0]][axis]) if free else None
    if len({shape[:axis] + shape[axis + 1 :] for shape in shapes}) > 1 or len(free) > 1 or (free and tokens is None):
        raise refuse(node, f"joins {' and '.join(map(spell, shapes))}: places are bound")
    if tokens is None:
        size = plain(sum(count or 0 for count in numbers))
    else:
        before, after = (sum(count or 0 for count in part) for part in (numbers[: free[0]], numbers[free[0] :]))
        size = (Free("tokens", tokens.front - before, tokens.back - after),)
    return [(*shapes[0][:axis], size, *shapes[0][axis + 1 :])]


@rule("Slice")
def _slice(walk: Walk, node: Any) -> list[Shape]:
    shape = list(walk.shape(node.inputs[0], node))
    starts, ends, axes, steps = _bounds(node)
    measured = walk.facts[node.outputs[0].name].dims
    for at, axis in enumerate(axis % len(shape) for axis in axes):
        tokens = open_tokens(shape[axis])
        if tokens is None:
            if number(shape[axis]) is None:
                raise refuse(node, f"cuts an axis of {spell((shape[axis],))}")
            shape[axis] = plain(measured[axis] or 0)
            continue
        if steps[at] != 1:
            raise refuse(node, f"takes tokens in steps of {steps[at]}")
        start, end = (_bound(walk, node, bound, tokens) for bound in (starts[at], ends[at]))
        starts[at], ends[at] = start.index, end.index
        shape[axis] = _between(start, end, tokens, walk.scale)
    node.inputs[1], node.inputs[2] = walk.write.ints(*starts), walk.write.ints(*ends)
    return [tuple(shape)]


def _bounds(node: Any) -> list[list[int]]:
    """Starts, ends, axes and steps of a Slice, with defaults for those left out."""
    present = [at < len(node.inputs) and bool(node.inputs[at].name) for at in range(1, 5)]
    starts = constant_input(node, 1)
    default = (starts, starts, np.arange(len(starts)), np.ones_like(starts))
    found = [constant_input(node, at) if present[at - 1] else default[at - 1] for at in range(1, 5)]
    return [[int(entry) for entry in part] for part in found]


@rule("Split")
def _split(walk: Walk, node: Any) -> list[Shape]:
    shape = walk.shape(node.inputs[0], node)
    axis = node.attrs.get("axis", 0) % len(shape)
    tokens = open_tokens(shape[axis])
    counts = [walk.facts[tensor.name].dims[axis] or 0 for tensor in node.outputs]
    if tokens is not None:
        bounds = [_bound(walk, node, int(end), tokens) for end in np.cumsum([0, *counts])]
        sizes = [_between(*pair, tokens, walk.scale) for pair in pairwise(bounds)]
        entries = [walk.measure(size) if number(size) is None else number(size) for size in sizes]
        node.attrs.pop("num_outputs", None)
        node.inputs = [node.inputs[0], walk.joined(entries)]
    elif number(shape[axis]) is None:
        raise refuse(node, f"cuts an axis of {spell((shape[axis],))}")
    else:
        sizes = [plain(count) for count in counts]
    return [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]


@rule("Gather")
def _gather(walk: Walk, node: Any) -> list[Shape]:
    shape, indices = walk.shape(node.inputs[0], node), constant_input(node, 1)
    axis = node.attrs.get("axis", 0) % len(shape)
    tokens = open_tokens(shape[axis])
    if tokens is not None:
        picked = [_token(walk, node, int(place), tokens) for place in indices.ravel()]
        node.inputs[1] = walk.write.const(np.reshape(picked, indices.shape), np.int64)
    elif number(shape[axis]) is None:
        raise refuse(node, f"picks from an axis of {spell((shape[axis],))}")
    return [(*shape[:axis], *(plain(size) for size in indices.shape), *shape[axis + 1 :])]


def _token(walk: Walk, node: Any, at: int, tokens: Free) -> int:
    """The index of a special token in a sequence of any length; negative if counted from the end."""
    whole = walk.scale.factor(tokens)
    at = at + whole if at < 0 else at
    if at < walk.leading - tokens.front:
        return at
    if at >= whole - (walk.trailing - tokens.back):
        return at - whole
    raise refuse(node, f"reads the patch at place {at} of {whole}")
