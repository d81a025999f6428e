"""Patterns of attention and residual adds in a graph: operators and data flow count, names and numbers do not.

Attention: a normaliser whose input comes, through nodes that keep the meaning, from a product of two activations
(scores = Q Kᵀ), and whose output reaches another one (context = A V) in the same way.
Residual add: an addition one operand of which is an ancestor of the other, so that it bypasses the branch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gradskip_onnx.graph.index import Index, data_inputs
from gradskip_onnx.operators import Kind, of_kind
from gradskip_onnx.types import Mismatch

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


def find_skip(index: Index, attention: Attention) -> Residual | Mismatch:
    """The residual add that closes the branch of `attention`."""
    for add in _residuals(index, after=attention.context):
        if index.follows(add.branch, attention.context) and index.follows(attention.scores, add.skip):
            return add
    reason = "no later addition has an operand that bypasses the attention and also feeds it"
    return Mismatch("residual", attention.node, "no-residual", reason)


def follow_stream(index: Index, start: str, attentions: Sequence[Attention]) -> list[Residual]:
    """The residual adds that follow `start` before the stream enters another attention."""
    chain: list[Residual] = []
    stream = start
    contexts = index.makers(other.context for other in attentions)
    for add in _residuals(index, after=start):
        other_attention = index.ancestry[add.branch] & contexts & ~index.ancestry[stream]
        on_stream = index.follows(add.skip, stream) and not _weighted(index, stream, add.skip)
        if on_stream and not other_attention and _weighted(index, add.skip, add.branch):
            chain.append(add)
            stream = add.out
    return chain


def _residuals(index: Index, after: str) -> Iterator[Residual]:
    """Additions of two activations below `after`, one operand being an ancestor of the other."""
    for node in index.pick(index.below(after) & index.of(ADDITIONS)):
        if len(node.inputs) == 2:
            a, b = (tensor.name for tensor in node.inputs)
            if a in index.activations and b in index.activations:
                for operand, branch in ((a, b), (b, a)):
                    skip = _bypassing(index, operand, branch)
                    if skip is not None and skip != branch:
                        yield Residual(node.name, skip, operand, branch, node.outputs[0].name)
                        break


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
