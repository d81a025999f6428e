"""Turns attention matches into blocks: their residual adds, layouts and stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isqrt

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.graph.index import Index
from gradskip_onnx.graph.layouts import attention_layout, axes_of, token_count, token_layouts
from gradskip_onnx.types import Block, Grid, Mismatch, TensorFact

from .attention_input import find_normed
from .patterns import NORMALISERS, Attention, Residual, find_attention, find_residuals, find_skip, follow_stream

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class BlockMatch:
    """One attention and the residual adds of its block, as found in the graph; nothing is measured yet."""

    match: Attention
    skip: Residual
    chain: tuple[Residual, ...]


def find_blocks(lookup: Index) -> tuple[list[BlockMatch], list[Mismatch]]:
    """Attentions in a residual stream, each with its residual adds, and the near misses."""
    attentions, unmatched = find_attention(lookup)
    found: list[BlockMatch] = []
    residuals, contexts = find_residuals(lookup), lookup.runs(match.context for match in attentions)
    for match in attentions:
        skip = find_skip(lookup, match, residuals)
        if isinstance(skip, Mismatch):
            unmatched.append(skip)
        else:
            found.append(BlockMatch(match, skip, tuple(follow_stream(lookup, skip.out, contexts))))
    kept = {entry.match.node for entry in found}
    _refuse_gaps(lookup, [match for match in attentions if match.node not in kept], found, unmatched)
    return found, unmatched


def _refuse_gaps(
    lookup: Index, outside: Sequence[Attention], found: Sequence[BlockMatch], unmatched: Sequence[Mismatch]
) -> None:
    """Refuse a softmax outside the residual stream if a later block depends on it.

    After the last block such a softmax is attention pooling; before one it is a block that was not understood.
    """
    anchors = {node.name: node for node in lookup.nodes if node.op in NORMALISERS}
    for missed in unmatched:
        anchor = anchors.get(missed.node)
        after = _dependent_block(lookup, found, anchor.outputs[0].name) if anchor is not None else None
        if after is not None and missed.code != "no-residual":
            reason = f"{missed.reason}, and the attention at {after.match.node!r} follows from it"
            raise UnsupportedModelError(missed.code, f"softmax at node {missed.node!r}: {reason}", unmatched)
    for match in outside:
        after = _dependent_block(lookup, found, match.context)
        if after is not None:
            reason = f"it lies in no residual stream, and the attention at {after.match.node!r} follows from it"
            raise UnsupportedModelError("no-residual", f"attention at node {match.node!r}: {reason}", unmatched)


def _dependent_block(lookup: Index, found: Sequence[BlockMatch], tensor: str) -> BlockMatch | None:
    """The first block whose scores depend on `tensor`."""
    return next((entry for entry in found if lookup.follows(entry.match.scores, tensor)), None)


def measure(
    entry: BlockMatch, number: int, lookup: Index, facts: Mapping[str, TensorFact], shapes: Shapes, batch: int
) -> Block:
    """Heads, layouts, windows and key reduction of one block, from the shapes of its tensors."""
    name, stream = entry.match.attention, entry.skip.skip
    layout = attention_layout(facts[name].dims, shapes[name], batch)
    if layout is None:
        raise _refuse("attention-layout", entry, f"attention of shape {facts[name].dims} has no known layout")
    heads, queries, keys = shapes[name][-3] // (batch if layout == "(bh)qk" else 1), *shapes[name][-2:]
    windows = shapes[name][0] // batch if layout == "(bw)hqk" else 1
    possible = token_layouts(facts[stream].dims, shapes[stream], batch, windows * queries, padded=windows > 1)
    tokens = next(possible, None)
    if tokens is None:
        reason = f"{windows} x {queries} queries do not fit the stream {stream!r} of shape {facts[stream].dims}"
        raise _refuse("token-count", entry, reason)
    last = (entry.chain or (entry.skip,))[-1].out
    count = token_count(shapes[stream], tokens)
    leaving = next(token_layouts(facts[last].dims, shapes[last], batch, count, padded=False), None)
    if leaving is None:
        raise _refuse(
            "token-count", entry, f"its output {last!r} of shape {facts[last].dims} does not hold {count} tokens"
        )
    return Block(
        index=number,
        stage=0,
        tokens_in=stream,
        tokens_out=last,
        attention=name,
        branch=entry.skip.branch,
        normed=find_normed(lookup, stream, entry.match.query, facts),
        heads=heads,
        grid=Grid(0, 0),  # measured later, by `prove_places`
        reduction=_reduction(entry, queries, keys, windows),
        tokens_layout=tokens,
        output_layout=leaving,
        attention_layout=layout,
    )


def _reduction(entry: BlockMatch, queries: int, keys: int, windows: int) -> int:
    """The side of the square of tokens that each key stands for."""
    side = isqrt(queries // keys) if keys else 0
    if keys * side**2 != queries or (windows > 1 and side != 1):
        reason = f"{queries} queries against {keys} keys: no square of tokens stands behind a key"
        raise _refuse("key-count", entry, reason)
    return side


def link(
    blocks: Sequence[Block], found: Sequence[BlockMatch], lookup: Index, facts: Mapping[str, TensorFact]
) -> list[Block]:
    """Set stages and outputs: a stage ends where the token shape changes; inside it, output and next input are one."""
    linked: list[Block] = []
    stage = 0
    for block, after, entry in zip(blocks, [*blocks[1:], None], found, strict=True):
        if after is None or _token_shape(after, facts) != _token_shape(block, facts):
            linked.append(replace(block, stage=stage))
            stage += 1
            continue
        if not lookup.follows(after.tokens_in, entry.skip.out):
            raise _refuse("parallel-blocks", entry, f"block {after.index} does not follow from block {block.index}")
        linked.append(replace(block, stage=stage, tokens_out=after.tokens_in, output_layout=after.tokens_layout))
    return linked


def _token_shape(block: Block, facts: Mapping[str, TensorFact]) -> list[tuple[str, int | None]]:
    """The sizes of a block's tokens by the letters of their axes, in whatever order it holds them."""
    return sorted(zip(axes_of(block.tokens_layout), facts[block.tokens_in].dims, strict=True))


def _refuse(code: str, entry: BlockMatch, reason: str) -> UnsupportedModelError:
    return UnsupportedModelError(code, f"attention at node {entry.match.node!r}: {reason}")
