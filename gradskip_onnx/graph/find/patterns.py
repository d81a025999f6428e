"""Patterns of attention and residual adds in a graph: operators and data flow count, names and numbers do not.

Attention: a normaliser whose input comes, through nodes that keep the meaning, from a product of two activations
(scores = Q Kᵀ), and whose output reaches another one (context = A V) in the same way.
Residual add: an addition one operand of which is an ancestor of the other, so that it bypasses the branch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

import numpy as np

from gradskip_onnx.graph.index import Index, data_inputs
from gradskip_onnx.operators import Kind, of_kind
from gradskip_onnx.types import Array, Mismatch

NORMALISERS = frozenset({"Softmax"})  # of attention; one that is written out is not looked for
PRODUCTS = of_kind(Kind.MATRIX) - of_kind(Kind.INTEGER)
WEIGHTED = of_kind(Kind.MATRIX | Kind.CONVOLUTION)
ADDITIONS = of_kind(Kind.ADDS)
# Nodes that may stand between a normaliser and its products: layout, precision, scale, mask, bias, NaN guard.
# What picks single tokens or parts of a packed tensor (Gather, Split) may not.
TOLERATED = frozenset(
    of_kind(Kind.RELABELS | Kind.PICKS | Kind.DEQUANTISES)
    | {"Transpose", "Expand", "Slice", "Concat", "Pad", "QuantizeLinear"}
    | {"Add", "Sub", "Mul", "Div", "IsNaN"}
)
ROUNDERS = of_kind(Kind.QUANTISES)
MOST_HOPS = 32


@dataclass(frozen=True, slots=True)
class Attention:
    """One attention: tensor names around its normaliser."""

    node: str
    attention: str  # after the normaliser
    scores: str  # the product Q Kᵀ
    query: str  # Q as it enters that product
    operand: str  # the attention as it enters the second product
    value: str
    context: str  # the second product
    attention_first: bool  # context = A V, not Vᵀ Aᵀ
    quantised: bool  # rounded to a grid on its way to the values


@dataclass(frozen=True, slots=True)
class Residual:
    """One residual add: out = operand + branch, where `operand` is the skip, maybe rounded or transposed."""

    node: str
    skip: str
    operand: str
    branch: str
    out: str


def find_attention(index: Index) -> tuple[list[Attention], list[Mismatch]]:
    """Every attention in topological order, and for each other normaliser the reason why it is none."""
    found: list[Attention] = []
    missed: list[Mismatch] = []
    for node in index.nodes:
        if node.op in NORMALISERS and node.outputs[0].name in index.activations:
            match = _match(index, node)
            (found if isinstance(match, Attention) else missed).append(match)  # type: ignore[arg-type]
    return found, missed


def _match(index: Index, anchor: Any) -> Attention | Mismatch:
    scores = _walk(index, anchor.inputs[0].name, up=True)
    if scores is None:
        return Mismatch("attention", anchor.name, "no-score-product", "its input is no product of two activations")
    context = _walk(index, anchor.outputs[0].name, up=False)
    if context is None:
        return Mismatch("attention", anchor.name, "no-value-product", "its output enters no product with activations")
    inputs = [tensor.name for tensor in context.inputs]
    place = 0 if index.follows(inputs[0], anchor.outputs[0].name) else 1
    return Attention(
        node=anchor.name,
        attention=anchor.outputs[0].name,
        scores=scores.outputs[0].name,
        query=scores.inputs[0].name,
        operand=inputs[place],
        value=inputs[1 - place],
        context=context.outputs[0].name,
        attention_first=place == 0,
        quantised=index.passes(anchor.outputs[0].name, inputs[place], ROUNDERS),
    )


def _walk(index: Index, start: str, *, up: bool) -> Any | None:
    """The nearest product of two activations above or below `start`, through tolerated nodes only."""
    queue = deque([(start, 0)])
    seen = {start}
    while queue:
        tensor, hops = queue.popleft()
        maker = index.node(tensor)
        nodes = ([maker] if maker is not None else []) if up else index.readers(tensor)
        for node in nodes:
            if _is_activation_product(index, node):
                return node
            if node.op in TOLERATED and hops < MOST_HOPS:
                around = data_inputs(node) if up else [out.name for out in node.outputs]
                for name in around:
                    if name in index.activations and name not in seen:
                        seen.add(name)
                        queue.append((name, hops + 1))
    return None


def _is_activation_product(index: Index, node: Any) -> bool:
    return node.op in PRODUCTS and all(tensor.name in index.activations for tensor in node.inputs[:2])


@dataclass(frozen=True, slots=True, eq=False)
class Residuals:
    """All residual adds of a graph in topological order, with the positions of each and of the maker of its skip."""

    adds: Sequence[Residual]
    positions: Array
    skips: Array  # -1: the skip is an input of the graph

    def around(self, first: int, last: int) -> Iterator[Residual]:
        """Those behind node `last` whose skip is made up to node `first`."""
        start = int(np.searchsorted(self.positions, last, side="right"))
        return (self.adds[start + int(at)] for at in np.flatnonzero(self.skips[start:] <= first))


def find_residuals(index: Index) -> Residuals:
    """Every residual add of a graph."""
    found = [
        (position, add)
        for position in sorted(at for kind in ADDITIONS for at in index.operators.get(kind, ()))
        if (add := _residual(index, index.nodes[position])) is not None
    ]
    skips = [index.producer.get(add.skip, -1) for _, add in found]
    return Residuals([add for _, add in found], np.array([at for at, _ in found], int), np.array(skips, int))


def find_skip(index: Index, attention: Attention, residuals: Residuals) -> Residual | Mismatch:
    """The residual add that closes the branch of `attention`."""
    for add in residuals.around(index.producer[attention.scores], index.producer[attention.context]):
        if index.follows(add.branch, attention.context) and index.follows(attention.scores, add.skip):
            return add
    reason = "no later addition has an operand that bypasses the attention and also feeds it"
    return Mismatch("residual", attention.node, "no-residual", reason)


def follow_stream(index: Index, start: str, contexts: int) -> list[Residual]:
    """The residual adds that follow `start` before the stream enters another attention.

    `contexts` is the set of runs in which attentions end.
    """
    chain: list[Residual] = []
    add = _next_on_stream(index, start, contexts)
    while add is not None:
        chain.append(add)
        add = _next_on_stream(index, add.out, contexts)
    return chain


def _next_on_stream(index: Index, stream: str, contexts: int) -> Residual | None:
    """The first residual add of which the skip is the stream, and the branch has weights but no attention of its own.

    The walk goes from `stream` as far as no weights stand in any path, so that it ends within a block.
    """
    elsewhere = contexts & ~index.runs_above(stream)
    reached = {stream}
    waiting = list(index.consumers.get(stream, ()))  # a heap: positions come out rising
    while waiting:
        node = index.nodes[heappop(waiting)]
        add = _residual(index, node) if node.op in ADDITIONS else None
        on_stream = add is not None and add.skip in reached and not index.runs_above(add.branch) & elsewhere
        if add is not None and on_stream and _weighted(index, add.skip, add.branch):
            return add
        for name in _unweighted_outputs(index, node, stream, reached):
            reached.add(name)
            for reader in index.consumers.get(name, ()):
                heappush(waiting, reader)
    return None


def _unweighted_outputs(index: Index, node: Any, stream: str, reached: set[str]) -> list[str]:
    """New outputs of a node to which no path from `stream` has weights, given that `reached` has all such before it."""
    if node.op in WEIGHTED or any(name not in reached and index.follows(name, stream) for name in data_inputs(node)):
        return []
    values = not reached.isdisjoint(data_inputs(node))  # shapes do not count
    return [tensor.name for tensor in node.outputs if values and tensor.name and tensor.name not in reached]


def _residual(index: Index, node: Any) -> Residual | None:
    """An addition of two activations as a residual add, if one operand is an ancestor of the other."""
    if len(node.inputs) == 2:
        a, b = (tensor.name for tensor in node.inputs)
        if a in index.activations and b in index.activations:
            for operand, branch in ((a, b), (b, a)):
                skip = _bypassing(index, operand, branch)
                if skip is not None and skip != branch:
                    return Residual(node.name, skip, operand, branch, node.outputs[0].name)
    return None


def _bypassing(index: Index, operand: str, branch: str) -> str | None:
    """The tensor that bypasses `branch`: `operand`, or its source if it was rounded or transposed for the add alone."""
    skip: str | None = operand
    while skip is not None and not index.follows(branch, skip):
        skip = _source(index, skip)
    return skip


def _source(index: Index, tensor: str) -> str | None:
    """The tensor that was transposed, or quantised and dequantised, to give this one."""
    after = index.node(tensor)
    if after is not None and after.op == "Transpose":  # ONNX Runtime moves transposes behind what else reads a tensor
        return str(after.inputs[0].name)
    before = index.node(after.inputs[0].name) if after is not None and after.op == "DequantizeLinear" else None
    return before.inputs[0].name if before is not None and before.op == "QuantizeLinear" else None


def _weighted(index: Index, start: str, end: str) -> bool:
    """Whether a product with weights stands between two tensors."""
    return start != end and index.passes(start, end, WEIGHTED)
