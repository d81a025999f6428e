"""From matches to an `Architecture`: blocks, stages, grids, special tokens, task; each claim with its proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isqrt
from typing import Any, cast

import numpy as np
import onnx_graphsurgeon as gs

from ..errors import ModelError, UnsupportedModelError
from ..types import Architecture, Array, Block, Mismatch, Proof, Source, TensorFact
from .forward import fold, forward_graph
from .head import find_logits
from .image_input import ImageInput, find_image_input
from .index import Index, index
from .layouts import attention_layout, token_layouts
from .lower import lower, needs_lowering, prove_lowering, refuse_hardware
from .patterns import Attention, Residual, find_attention, find_skip, follow_stream
from .placement import prove_places
from .proofs import prove_attention, prove_stream, require
from .rehearsal import Rehearsal, constants, observe, rehearse


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What was read off a model: its architecture, facts on every tensor, and the graph they are about."""

    architecture: Architecture
    facts: Mapping[str, TensorFact]
    graph: gs.Graph  # shared: take a copy before editing


@dataclass(frozen=True, slots=True)
class Found:
    """One attention and the residual adds of its block, before anything is measured."""

    match: Attention
    skip: Residual
    chain: tuple[Residual, ...]


def read(source: Source, *, size: tuple[int, int] | None = None, outputs: Sequence[str] | None = None) -> Reading:
    """Find the transformer in a model; `size` is needed only where the file leaves the image size open."""
    graph = forward_graph(source.model, outputs)
    image = find_image_input(graph, size)
    refuse_hardware(graph)
    graph, proofs = _plain_operators(graph, image, source)
    rehearsal = rehearse(graph, image, source.folder)
    facts, shapes = observe(rehearsal)
    graph = fold(graph, constants(rehearsal, facts, index(graph, image.name).activations))
    lookup = index(graph, image.name)
    found, unmatched = find_blocks(lookup)
    if not found:
        raise UnsupportedModelError("no-attention", _nothing_found(unmatched), unmatched)
    logits, task = find_logits(graph, lookup, facts, after=found[-1].skip.out)
    values = _look(rehearsal, found, logits, graph)
    blocks = [_measure(f, i, facts, shapes, image.batch or 1) for i, f in enumerate(found)]
    blocks = _link(blocks, found, lookup, facts)
    for entry in found:
        proofs += prove_attention(entry.match, lookup.node(entry.match.context), values)
        proofs += prove_stream([entry.skip, *entry.chain], values)
    blocks, placed = prove_places(graph, blocks, [f.match.scores for f in found], values, rehearsal, source.folder)
    architecture = Architecture(
        task=task,
        input=image.name,
        input_dims=(image.channels, *rehearsal.size),
        input_layout=image.layout,
        logits=logits,
        classes=cast(int, facts[logits].dims[1]),
        blocks=tuple(blocks),
        proofs=require([*proofs, *placed]),
        unmatched=tuple(unmatched),
    )
    return Reading(architecture, facts, graph)


def _plain_operators(graph: gs.Graph, image: ImageInput, source: Source) -> tuple[gs.Graph, list[Proof]]:
    """The graph without fused operators; files that have none pay nothing."""
    if not needs_lowering(graph):
        return graph, []
    fused = rehearse(graph, image, source.folder)
    lowered = lower(graph, observe(fused)[0], source.opset["ai.onnx"])
    return lowered.graph, prove_lowering(graph, lowered, image, fused.size, source.folder)


def find_blocks(lookup: Index) -> tuple[list[Found], list[Mismatch]]:
    """Attentions that sit in a residual stream, with the adds that belong to each."""
    attentions, unmatched = find_attention(lookup)
    found: list[Found] = []
    for match in attentions:
        skip = find_skip(lookup, match)
        if isinstance(skip, Mismatch):
            unmatched.append(skip)
        else:
            found.append(Found(match, skip, tuple(follow_stream(lookup, skip.out, attentions))))
    return found, unmatched


def _nothing_found(unmatched: Sequence[Mismatch]) -> str:
    if not unmatched:
        return "the graph holds no attention (no softmax between two products of activations); is it a CNN?"
    first = unmatched[0]
    return f"no attention in a residual stream: at {first.node!r} {first.reason} ({first.code})"


def _look(rehearsal: Rehearsal, found: Sequence[Found], logits: str, graph: gs.Graph) -> dict[str, Array]:
    """The values of everything that is claimed, for one picture."""
    names = [logits]
    for entry in found:
        match = entry.match
        names += [match.attention, match.scores, match.operand, match.value, match.context]
        names += [name for add in (entry.skip, *entry.chain) for name in (add.skip, add.branch, add.out)]
    images = rehearsal.image.probe(rehearsal.size, rehearsal.image.batch or 1)
    values = rehearsal.values(names, images)
    if not np.isfinite(values[logits].astype(np.float64)).all():
        raise ModelError(f"the model's scores are not finite numbers: {_unsound_weight(graph)}")
    return values


def _unsound_weight(graph: gs.Graph) -> str:
    for name, tensor in graph.tensors().items():
        if (
            isinstance(tensor, gs.Constant)
            and np.dtype(tensor.dtype).kind == "f"
            and not np.isfinite(tensor.values).all()
        ):
            return f"weight {name!r} holds NaN or infinity; the file is damaged or was converted wrongly"
    return "all weights are finite, so a computation overflows; try a file of higher precision"


def _measure(
    entry: Found, number: int, facts: Mapping[str, TensorFact], shapes: Mapping[str, tuple[int, ...]], batch: int
) -> Block:
    """Heads, layouts and key reduction of one block, from the shapes of its tensors."""
    name, stream = entry.match.attention, entry.skip.skip
    layout = attention_layout(facts[name].dims, shapes[name], batch)
    if layout is None:
        raise _refuse("attention-layout", entry, f"attention of shape {facts[name].dims} has no known layout")
    heads, queries, keys = shapes[name][-3] // (batch if layout.startswith("(") else 1), *shapes[name][-2:]
    tokens = next(token_layouts(facts[stream].dims, shapes[stream], batch, queries), None)
    if tokens is None:
        reason = f"{queries} queries do not fit the residual stream {stream!r} of shape {facts[stream].dims}"
        raise _refuse("token-count", entry, reason)
    reduction = isqrt(queries // keys) if keys else 0
    if keys * reduction**2 != queries:
        raise _refuse(
            "key-count", entry, f"{queries} queries against {keys} keys: no square of tokens stands behind a key"
        )
    return Block(
        index=number, stage=0, tokens_in=stream, tokens_out=(entry.chain or (entry.skip,))[-1].out, attention=name,
        branch=entry.skip.branch, heads=heads, grid=(0, 0), reduction=reduction,
        tokens_layout=tokens, attention_layout=layout,
    )  # fmt: skip


def _link(
    blocks: Sequence[Block], found: Sequence[Found], lookup: Index, facts: Mapping[str, TensorFact]
) -> list[Block]:
    """Stages: a block hands its output to the next one as it is, or a new stage begins."""
    linked: list[Block] = []
    stage = 0
    for block, after, entry in zip(blocks, [*blocks[1:], None], found, strict=True):
        joined = after is not None and facts[after.tokens_in].dims == facts[block.tokens_in].dims
        if joined and not lookup.follows(cast(Any, after).tokens_in, entry.skip.out):
            raise _refuse("parallel-blocks", entry, f"block {block.index + 1} does not follow from block {block.index}")
        linked.append(
            replace(block, stage=stage, tokens_out=cast(Any, after).tokens_in if joined else block.tokens_out)
        )
        stage += not joined
    return linked


def _refuse(code: str, entry: Found, reason: str) -> UnsupportedModelError:
    return UnsupportedModelError(code, f"attention at node {entry.match.node!r}: {reason}")
