"""The part of a model behind its positional embedding, as a model of its own that takes any number of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.graph.layouts import axes_of
from gradskip_onnx.graph.rewrite.write import Write
from gradskip_onnx.surgeon.node_writer import NodeWriter, replace_reads
from gradskip_onnx.surgeon.sorting import sort_nodes
from gradskip_onnx.types import Architecture, Array, Block, TensorFact

from . import lengths_places as lengths_places
from .lengths import Walk, follow
from .sizes import BATCH, TOKENS, Scale, Shape, plain

SEQUENCE = "gradskip/sequence"
OPEN_BATCH = 999_983  # stands for an open batch; a prime, so that no other size of a model has it as a factor


@dataclass(frozen=True, slots=True, eq=False)
class Short:
    """A model from the tokens that enter the first block to the scores."""

    model: onnx.ModelProto
    folder: Path | None
    input: str
    logits: str
    entrance: Block  # the first block; `input` takes its tokens_in, in its layout
    patches: Array  # (N,) booleans: False at the special tokens
    dtype: np.dtype[Any]

    def rows(self, keep: Array) -> Array:
        """Indices of the tokens that stay: all special ones, and the patches in `keep`, (n,) booleans."""
        kept = ~self.patches
        kept[self.patches] = keep
        return np.flatnonzero(kept)

    def dims_of(self, shape: tuple[int, ...]) -> list[int]:
        """The dimensions, in the model's own order, of sequences given as (M, T, d)."""
        sizes = dict(zip("bnd", shape, strict=True))
        return [sizes[letter] for letter in axes_of(self.entrance.tokens_layout)]


def shorten(
    graph: gs.Graph, facts: Mapping[str, TensorFact], architecture: Architecture, opset: int, folder: Path | None
) -> Short:
    """Rewrite a model for sequences of any length; UnsupportedModelError("fixed-sequence") if the graph fixes it."""
    entrance = entrance_of(architecture)
    graph = graph.copy()
    sequence = cut(graph, entrance, facts)
    write = Write(NodeWriter(graph, opset, f"{SEQUENCE}/"), facts)
    walk = _walk(write, sequence, entrance, facts)
    make_scores_output(graph, architecture, facts)
    follow(walk, list(graph.nodes))
    sort_nodes(graph.cleanup(remove_unused_graph_inputs=True, recurse_subgraphs=False))
    _refuse_bypass(graph, entrance)
    model = finish(graph)
    patches = np.ones(walk.scale.tokens, bool)
    patches[list(entrance.special)] = False
    return Short(model, folder, SEQUENCE, architecture.logits, entrance, patches, facts[entrance.tokens_in].dtype)


def entrance_of(architecture: Architecture) -> Block:
    """The first block; raises UnsupportedModelError unless all blocks share one sequence of tokens."""
    for block in architecture.blocks:
        reason = (
            f"attends inside {len(block.windows)} windows" if block.windows
            else f"has keys that stand for {block.reduction} x {block.reduction} tokens" if block.reduction > 1
            else "lies on another token grid" if block.grid != architecture.grid
            else "holds its tokens as a picture" if "n" not in axes_of(block.tokens_layout)
            else ""
        )  # fmt: skip
        if reason:
            raise UnsupportedModelError(
                "fixed-sequence", f"tokens cannot be left out of this model: block {block.index} {reason}"
            )
    return architecture.blocks[0]


def cut(graph: gs.Graph, entrance: Block, facts: Mapping[str, TensorFact]) -> Any:
    """Make the tokens that enter the first block a graph input, and return it."""
    fact = facts[entrance.tokens_in]
    sequence = gs.Variable(SEQUENCE, dtype=fact.dtype, shape=[None] * len(fact.dims))
    replace_reads(graph.tensors()[entrance.tokens_in], sequence)
    graph.inputs.append(sequence)
    return sequence


def make_scores_output(graph: gs.Graph, architecture: Architecture, facts: Mapping[str, TensorFact]) -> None:
    """Make the scores the only output; their type is set, since files often leave it out for inner tensors."""
    logits = graph.tensors()[architecture.logits]
    logits.dtype = facts[architecture.logits].dtype
    graph.outputs = [logits]


def _refuse_bypass(graph: gs.Graph, entrance: Block) -> None:
    others = [tensor.name for tensor in graph.inputs if tensor.name != SEQUENCE]
    if others:
        raise UnsupportedModelError(
            "fixed-sequence",
            f"tokens cannot be left out of this model: the scores also depend on {others[0]!r} "
            f"on a path that bypasses the first block ({entrance.tokens_in!r})",
        )


def finish(graph: gs.Graph) -> onnx.ModelProto:
    """Export a cut graph without recorded shapes, which hold for one length only."""
    model: onnx.ModelProto = gs.export_onnx(graph, do_type_check=False)
    del model.graph.value_info[:]  # shapes of the original length
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return model


def _walk(write: Write, sequence: Any, entrance: Block, facts: Mapping[str, TensorFact]) -> Walk:
    axes, dims = axes_of(entrance.tokens_layout), facts[entrance.tokens_in].dims
    batch = dims[axes.index("b")] if "b" in axes else 1
    whole = int(dims[axes.index("n")] or 0)
    sizes = {"b": (BATCH,), "n": (TOKENS,), "d": plain(int(dims[axes.index("d")] or 0))}
    shape: Shape = tuple(sizes[letter] for letter in axes)
    patches = np.setdiff1d(np.arange(whole), entrance.special)
    sequence_shape = write.op("Shape", sequence, gives=np.int64)

    def size_of(letter: str) -> Any:
        if letter not in axes:
            return write.ints(1)
        return write.op("Gather", sequence_shape, write.ints(axes.index(letter)), axis=0)

    return Walk(
        sizes={sequence.name: shape},
        facts=facts,
        scale=Scale(OPEN_BATCH if batch is None else int(batch), whole),
        leading=int(patches[0]),
        trailing=whole - 1 - int(patches[-1]),
        write=write,
        batch=size_of("b"),
        tokens=size_of("n"),
    )
