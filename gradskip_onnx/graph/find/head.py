"""Which tensor holds the class scores, and whether they are for the picture or for each pixel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_graphsurgeon as gs

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.graph.index import Index
from gradskip_onnx.graph.layouts import axes_of
from gradskip_onnx.graph.rewrite.prune_rows import wanted
from gradskip_onnx.operators import Kind, of_kind
from gradskip_onnx.tasks import BY_RANK
from gradskip_onnx.types import Block, TaskName, TensorFact

SQUASHED = of_kind(Kind.PROBABILITIES) | {"Sigmoid"}  # the scores are their input
PASSED = frozenset({"Identity", "Cast"})


def possible_logits(graph: gs.Graph, lookup: Index) -> dict[str, str]:
    """By output of the graph, the tensor that would be the scores."""
    return {output.name: _before_squashing(lookup, output.name) for output in graph.outputs}


def find_logits(graph: gs.Graph, lookup: Index, facts: Mapping[str, TensorFact], after: str) -> tuple[str, TaskName]:
    """The score tensor that follows from the last block; an output called "logits" wins over others."""
    candidates = []
    for output, name in possible_logits(graph, lookup).items():
        fact = facts.get(name)
        if fact is not None and lookup.follows(name, after) and fact.dtype.kind == "f" and len(fact.dims) in BY_RANK:
            candidates.append((output, name, BY_RANK[len(fact.dims)].name))
    if not candidates:
        seen = ", ".join(f"{t.name} {facts[t.name].dims if t.name in facts else '?'}" for t in graph.outputs)
        raise UnsupportedModelError(
            "no-class-scores",
            f"no output holds class scores (B, classes) or (B, classes, h, w) after the last block; outputs are {seen}",
        )
    candidates.sort(key=lambda entry: entry[0] != "logits")
    return candidates[0][1], candidates[0][2]


def reads_patches(graph: gs.Graph, logits: str, last: Block, facts: Mapping[str, TensorFact]) -> bool:
    """Whether the scores follow from any patch of the last block, and not only from its special tokens."""
    rows = wanted(graph, [logits], facts).get(last.tokens_out)
    if rows is None or rows.axis != axes_of(last.output_layout).index("n"):
        return True
    return not set(range(rows.start, rows.stop)) <= set(last.special)


def _before_squashing(lookup: Index, name: str) -> str:
    """The scores behind an output that a softmax or sigmoid turned into probabilities."""
    node: Any | None = lookup.node(name)
    while node is not None and node.op in PASSED:
        node = lookup.node(node.inputs[0].name)
    return node.inputs[0].name if node is not None and node.op in SQUASHED else name
