"""Proves that a shortened model computes what the whole model computes with the dropped tokens masked.

In the whole model, places of dropped patches hold copies of kept ones, each copied equally often, and every attention
masks these places. Kept tokens and their copies then have the values they have in the shortened model, so scores that
are read from special tokens or averaged over patches are equal. They differ where the graph hides the length in a
constant (a mean written as a sum and a factor).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.graph.architecture import Reading
from gradskip_onnx.graph.layouts import as_fed, axes_of, restore
from gradskip_onnx.graph.prove.proofs import difference, rounding
from gradskip_onnx.graph.rewrite.write import Write
from gradskip_onnx.runtime.session import Session, open_session
from gradskip_onnx.surgeon.node_writer import NodeWriter
from gradskip_onnx.surgeon.sorting import sort_nodes
from gradskip_onnx.types import Architecture, Array, Block, Proof, Source, TensorFact, Trace

from .shorten import SEQUENCE, Short, cut, finish, make_scores_output, shorten

MASKS = 2  # sequences in one batch, so that an effect of one on another would show
UNSEEN = "gradskip/unseen/"
# Score of a masked key: beside other scores its exp is 0.
FAR: Mapping[str, float] = {"float16": -3e4, "float32": -1e9, "float64": -1e9}


def proven_short(source: Source, reading: Reading, trace: Trace) -> Short:
    """The shortened model, proven on the image of `trace`, which must hold the first block's tokens_in."""
    short = shorten(reading.graph, reading.facts, reading.architecture, source.opset["ai.onnx"], source.folder)
    prove_shortening(short, reading, trace)
    return short


def prove_shortening(short: Short, reading: Reading, trace: Trace) -> tuple[Proof, ...]:
    """Prove a shortened model on one image; UnsupportedModelError("fixed-sequence") if a claim does not hold."""
    tokens = trace.values[short.entrance.tokens_in]
    session = open_session(short.model, short.folder, "cpu", optimise=False)
    keep, copied = draw_masks(len(tokens) - len(short.entrance.special))
    patches = np.flatnonzero(short.patches)
    whole = _MaskedModel.open(reading, short.folder)
    masked = []
    for kept, source in zip(keep, copied, strict=True):
        filled = tokens.copy()
        filled[patches] = tokens[patches[source]]
        masked.append(whole.scores(short, trace.input, filled, kept))
    fewer = run_short(session, short, np.stack([tokens[short.rows(kept)] for kept in keep]))
    everything = run_short(session, short, tokens[None])[0]
    bound = rounding(short.dtype)
    return _require(
        Proof("all tokens give the model's scores", SEQUENCE, difference(everything, trace.logits), bound),
        Proof("fewer tokens give what the others unseen give", SEQUENCE, difference(fewer, np.stack(masked)), bound),
    )


def run_short(session: Session, short: Short, sequences: Array) -> Array:
    """Scores of M sequences (M, T, d); run one by one if the model's sequence has no batch axis."""
    like = short.dims_of(sequences.shape)
    step = len(sequences) if "b" in axes_of(short.entrance.tokens_layout) else 1
    found = []
    for start in range(0, len(sequences), step):
        part = sequences[start : start + step].astype(short.dtype)
        feed = restore(part, short.entrance.tokens_layout, like)
        found.append(session.run([short.logits], {short.input: feed})[short.logits])
    return np.concatenate(found)


def draw_masks(count: int) -> tuple[Array, Array]:
    """Random masks (M, count) with equally many patches kept per row, and the kept patch to put at each place."""
    times = next(factor for factor in range(2, count + 1) if count % factor == 0)
    rng = np.random.default_rng(4)
    keep, copied = np.zeros((MASKS, count), bool), np.tile(np.arange(count), (MASKS, 1))
    for row in range(MASKS):
        order = rng.permutation(count)
        kept, left = order[: count // times], order[count // times :]
        keep[row, kept] = True
        copied[row, left] = np.tile(kept, times - 1)
    return keep, copied


class _MaskedModel:
    """The model at full length, with an input per block that masks keys of its attention."""

    def __init__(
        self, session: Session, architecture: Architecture, facts: Mapping[str, TensorFact], inputs: Set[str]
    ) -> None:
        self.session, self.architecture, self.facts, self.inputs = session, architecture, facts, inputs

    @classmethod
    def open(cls, reading: Reading, folder: Path | None) -> _MaskedModel:
        graph, facts, architecture = reading.graph.copy(), reading.facts, reading.architecture
        cut(graph, architecture.blocks[0], facts)
        tensors = graph.tensors()
        for block in architecture.blocks:
            _add_mask_input(graph, tensors[block.attention], facts)
        make_scores_output(graph, architecture, facts)
        sort_nodes(graph.cleanup(remove_unused_graph_inputs=True, recurse_subgraphs=False))
        session = open_session(finish(graph), folder, "cpu", optimise=False)
        return cls(session, architecture, facts, {tensor.name for tensor in graph.inputs})

    def scores(self, short: Short, picture: Array, tokens: Array, keep: Array) -> Array:
        """Scores of one full-length sequence (N, d) of which attention sees only the patches in `keep`."""
        fact = self.facts[short.entrance.tokens_in]
        axes = axes_of(short.entrance.tokens_layout)
        batch = (fact.dims[axes.index("b")] or 1) if "b" in axes else 1
        sequences = np.repeat(tokens[None], batch, axis=0)
        feed = restore(sequences, short.entrance.tokens_layout, short.dims_of(sequences.shape))
        masks = {UNSEEN + block.attention: self._mask(block, keep) for block in self.architecture.blocks}
        feeds = {SEQUENCE: feed, **masks}
        if self.architecture.input in self.inputs:  # shape arithmetic may still read it
            pictures = np.repeat(picture[None], batch, axis=0).astype(self.facts[self.architecture.input].dtype)
            feeds[self.architecture.input] = as_fed(pictures, self.architecture.input_layout)
        found: Array = self.session.run([short.logits], feeds)[short.logits]
        return np.asarray(found[0])

    def _mask(self, block: Block, keep: Array) -> Array:
        """(keys,): 0 for visible keys, a very low score for masked ones."""
        dtype = self.facts[block.attention].dtype
        visible = np.ones(len(keep) + len(block.special), bool)
        visible[np.setdiff1d(np.arange(len(visible)), block.special)] = keep
        return np.where(visible, 0.0, FAR[dtype.name]).astype(dtype)


def _add_mask_input(graph: gs.Graph, attention: Any, facts: Mapping[str, TensorFact]) -> None:
    """Add a new input (keys,) to the scores in front of a softmax."""
    (softmax,) = attention.inputs
    name = f"{UNSEEN}{attention.name}"
    mask = gs.Variable(name, dtype=facts[attention.name].dtype, shape=[None])
    write = Write(NodeWriter(graph, graph.opset, f"{name}/"), facts)
    softmax.inputs[0] = write.op("Add", softmax.inputs[0], mask)
    graph.inputs.append(mask)


def _require(*proofs: Proof) -> tuple[Proof, ...]:
    for proof in proofs:
        if not proof.holds:
            raise UnsupportedModelError(
                "fixed-sequence",
                f"tokens cannot be left out of this model: it does not hold that {proof.claim} "
                f"(measured {proof.measured:.3g}, allowed {proof.bound:.3g})",
            )
    return proofs
