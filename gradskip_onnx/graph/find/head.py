"""Finds the tensor of class scores, and whether they are for the picture or for each pixel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_graphsurgeon as gs

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.graph.index import Index
from gradskip_onnx.graph.layouts import axes_of
from gradskip_onnx.graph.rewrite.prune_rows import rows_read
from gradskip_onnx.operators import Kind, of_kind
from gradskip_onnx.tasks import BY_RANK
from gradskip_onnx.types import Block, TaskName, TensorFact

SQUASHED = of_kind(Kind.PROBABILITIES) | {"Sigmoid"}  # the scores are their input
PASSED = frozenset({"Identity", "Cast"})


def possible_logits(graph: gs.Graph, lookup: Index) -> dict[str, str]:
    """For each output of the graph, the tensor that would hold the scores."""
    return {output.name: _before_squashing(lookup, output.name) for output in graph.outputs}


def find_logits(graph: gs.Graph, lookup: Index, facts: Mapping[str, TensorFact], after: str) -> tuple[str, TaskName]:
    """The score tensor that depends on the last block, and its task; an output called "logits" has priority."""
    candidates = []
    for output, name in possible_logits(graph, lookup).items():
        fact = facts.get(name)
        if fact is not None and lookup.follows(name, after) and fact.dtype.kind == "f" and len(fact.dims) in BY_RANK:
            candidates.append((output, name, BY_RANK[len(fact.dims)].name))
    if not candidates:
        outputs = ", ".join(f"{t.name} {facts[t.name].dims if t.name in facts else '?'}" for t in graph.outputs)
        raise UnsupportedModelError(
            "no-class-scores",
            f"no output holds class scores (B, classes) or (B, classes, h, w) after the last block; outputs are "
            f"{outputs}",
        )
    candidates.sort(key=lambda entry: entry[0] != "logits")
    return candidates[0][1], candidates[0][2]


def reads_patches(graph: gs.Graph, logits: str, last: Block, facts: Mapping[str, TensorFact]) -> bool:
    """Whether the scores depend on any patch of the last block, and not only on its special tokens."""
    rows = rows_read(graph, [logits], facts).get(last.tokens_out)
    if rows is None or rows.axis != axes_of(last.output_layout).index("n"):
        return True
    return not set(range(rows.start, rows.stop)) <= set(last.special)


def _before_squashing(lookup: Index, name: str) -> str:
    """The input of a final softmax or sigmoid; `name` itself if the output is not squashed."""
    node: Any | None = lookup.node(name)
    while node is not None and node.op in PASSED:
        node = lookup.node(node.inputs[0].name)
    return node.inputs[0].name if node is not None and node.op in SQUASHED else name
