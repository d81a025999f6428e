"""Reads the architecture of a model; `read` is the whole procedure, top to bottom, each claim with its proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import onnx_graphsurgeon as gs

from gradskip_onnx.errors import ModelError, UnsupportedModelError
from gradskip_onnx.graph.find.block_proofs import prove_blocks
from gradskip_onnx.graph.find.blocks import BlockMatch, find_blocks, link, measure
from gradskip_onnx.graph.find.head import NOTHING_TOLD, Told, find_scores, possible_logits, reads_patches
from gradskip_onnx.graph.find.placement import prove_places
from gradskip_onnx.graph.find.position import find_position
from gradskip_onnx.graph.find.windowing import find_windows
from gradskip_onnx.graph.prove.dry_run import make_dry_run, observe
from gradskip_onnx.graph.prove.partial_model import partial_model
from gradskip_onnx.graph.prove.probes import DYNAMIC
from gradskip_onnx.graph.prove.proofs import require
from gradskip_onnx.graph.read.forward import fold, forward_graph, share_copies
from gradskip_onnx.graph.read.image_input import ImageInput, find_image_input
from gradskip_onnx.graph.read.upgrade import prove_upgrade
from gradskip_onnx.graph.rewrite.lower import lower, needs_lowering, prove_lowering, refuse_hardware
from gradskip_onnx.graph.rewrite.whole_softmax import make_softmax_whole, needs_whole_softmax
from gradskip_onnx.surgeon.pause_collector import collector_paused
from gradskip_onnx.types import Architecture, Array, ImageDims, Mismatch, Proof, Source, TensorFact

from .index import Index, index


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """Result of reading a model: its architecture, a fact per tensor, and the graph they describe."""

    architecture: Architecture
    facts: Mapping[str, TensorFact]
    graph: gs.Graph  # shared: take a copy before editing


@collector_paused()
def read(
    source: Source,
    *,
    size: tuple[int, int] | None = None,
    outputs: Sequence[str] | None = None,
    told: Told = NOTHING_TOLD,
) -> Reading:
    """Find the transformer in a model; `size` is needed only where the file leaves the image size open.

    `outputs` are the outputs to look at (None: all), `told` is what is known about the scores besides the file.
    """
    graph = forward_graph(source.model, outputs, source.folder)
    image = find_image_input(graph, size)
    refuse_hardware(graph)
    graph, proofs = _plain_operators(graph, image, source)
    graph = share_copies(graph)
    lookup = index(graph, image.name)
    found, unmatched = find_blocks(lookup)
    if not found:
        raise UnsupportedModelError("no-attention", _nothing_found(graph, unmatched), unmatched)
    dry_run = make_dry_run(partial_model(graph, source.folder), image, _kept(graph, lookup, found))
    observed = observe(dry_run, lookup.activations)
    facts = observed.facts
    scores = find_scores(graph, lookup, facts, after=found[-1].skip.out, told=told)
    logits = scores.tensor
    model, values = dry_run.model.with_values(observed.constants), dry_run.values
    _require_finite(values[logits], graph)
    graph = fold(graph, observed.constants)  # they do not depend on the image, so all tensors named above stay
    blocks = [measure(f, i, lookup, facts, dry_run.shapes, image.batch or 1) for i, f in enumerate(found)]
    blocks = link(blocks, found, lookup, facts)
    queries = {block.index: entry.match.query for block, entry in zip(blocks, found, strict=True)}
    blocks, windowed = find_windows(model, blocks, queries, values)
    proofs += prove_upgrade(source, image, dry_run.size)
    proofs += prove_blocks(model, found, lookup, values, dry_run)
    blocks, placed = prove_places(model, blocks, [f.match.scores for f in found], values, dry_run)
    architecture = Architecture(
        task=scores.task,
        input=image.name,
        input_dims=ImageDims(image.channels, *dry_run.size),
        input_layout=image.layout,
        logits=logits,
        classes=cast(int, facts[logits].dims[1]),
        blocks=tuple(blocks),
        proofs=require([*proofs, *windowed, *placed]),
        unmatched=tuple(unmatched),
        position=find_position(lookup, image.name, blocks[0], facts, dry_run.shapes),
        patches_read=reads_patches(graph, logits, blocks[-1], facts),
        assumptions=_batch_note(observed.why_single) + scores.assumptions,
    )
    return Reading(architecture, facts, graph)


def _batch_note(why_single: str) -> tuple[str, ...]:
    if not why_single:
        return ()
    return (f"the file leaves the number of images open, but cannot run two: one at a time ({why_single})",)


def _plain_operators(graph: gs.Graph, image: ImageInput, source: Source) -> tuple[gs.Graph, list[Proof]]:
    """The graph with fused operators written out and no flattened softmax, and the proofs; else it costs no run."""
    proofs: list[Proof] = []
    if needs_lowering(graph):
        fused = make_dry_run(partial_model(graph, source.folder), image)
        lowered = lower(graph, fused.facts, source.opset["ai.onnx"])
        graph, proofs = lowered.graph, prove_lowering(fused.model, lowered, image, fused.size)
    if needs_whole_softmax(graph):
        graph, whole = make_softmax_whole(graph, make_dry_run(partial_model(graph, source.folder), image))
        proofs += whole
    return graph, proofs


def _nothing_found(graph: gs.Graph, unmatched: Sequence[Mismatch]) -> str:
    advice = "CNNs, linear and deformable attention cannot be explained; give a vision transformer"
    if not unmatched:
        end = "".join(f" up to node {node.name!r} ({node.op})" for node in graph.nodes[-1:])
        return f"no softmax stands between two products of activations{end}; {advice}"
    first = unmatched[0]
    return f"no attention in a residual stream: at node {first.node!r} {first.reason} ({first.code}); {advice}"


def _kept(graph: gs.Graph, lookup: Index, found: Sequence[BlockMatch]) -> list[str]:
    """Tensors whose values are kept while a file is read: scores, what residual adds give, scales found at run time."""
    names = [name for name in possible_logits(graph, lookup).values() if name in lookup.producer]
    names += [tensor.name for node in graph.nodes if node.op == DYNAMIC for tensor in node.outputs[1:]]
    outs = (name for entry in found for name in (entry.skip.skip, *(add.out for add in (entry.skip, *entry.chain))))
    return list(dict.fromkeys([*names, *outs]))


def _require_finite(logits: Array, graph: gs.Graph) -> None:
    if not np.isfinite(logits.astype(np.float64)).all():
        raise ModelError(f"the model's scores are not finite numbers: {_unsound_weight(graph)}")


def _unsound_weight(graph: gs.Graph) -> str:
    for name, tensor in graph.tensors().items():
        if (
            isinstance(tensor, gs.Constant)
            and np.dtype(tensor.dtype).kind == "f"
            and not np.isfinite(tensor.values).all()
        ):
            return f"weight {name!r} holds NaN or infinity; the file is damaged or was converted wrongly"
    return "all weights are finite, so a computation overflows; try a file of higher precision"
