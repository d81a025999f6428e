"""Finds the tensor of class scores, whether they are for the picture or for each pixel, and what says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
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
PASSED = frozenset({"Identity", "Cast"})  # an Identity is left where two outputs hold one value
REARRANGED = frozenset({"Cast", "Resize"})  # the same classes on the same axis, in another type or at another size
CALLED = "logits"
CLASS_AXIS = 1
DEFAULT_AXIS = {"Softmax": -1, "LogSoftmax": -1, "ArgMax": 0}  # of the operators that compare classes


def possible_logits(graph: gs.Graph, lookup: Index) -> dict[str, str]:
    """For each output of the graph, the tensor that would hold the scores."""
    return {output.name: _before_squashing(lookup, output.name) for output in graph.outputs}


@dataclass(frozen=True, slots=True)
class Told:
    """What is known about the scores besides the graph: the task the user named, and stated numbers of classes."""

    task: TaskName | None = None
    classes: tuple[int, ...] = ()


NOTHING_TOLD = Told()


@dataclass(frozen=True, slots=True)
class Scores:
    """The tensor of class scores, its task, and what was assumed about it."""

    tensor: str
    task: TaskName
    assumptions: tuple[str, ...] = ()


def find_scores(
    graph: gs.Graph, lookup: Index, facts: Mapping[str, TensorFact], *, after: str, told: Told = NOTHING_TOLD
) -> Scores:
    """The scores that depend on the last block; an output called "logits" has priority, then what has evidence.

    Numbers for each cell of a grid may be features as well as class scores, so evidence is required for them. Rank 2
    without evidence is taken for classes, and that is noted.
    """
    candidates = []
    for output, name in possible_logits(graph, lookup).items():
        fact = facts.get(name)
        if fact is not None and lookup.follows(name, after) and fact.dtype.kind == "f" and len(fact.dims) in BY_RANK:
            task = BY_RANK[len(fact.dims)].name
            if told.task in (None, task):
                candidates.append((output, Scores(name, task), _evidence(lookup, output, name, fact, told)))
    if not candidates:
        raise _no_scores(graph, facts, told)
    output, scores, evidence = min(candidates, key=lambda entry: _preference(entry[0], entry[1].task, entry[2]))
    if evidence:
        return scores
    described = f"output {output!r} of shape {facts[scores.tensor].dims}"
    if scores.task == "classification":
        return replace(scores, assumptions=(f"{described} is taken for class scores; nothing in the file says so",))
    raise UnsupportedModelError(
        "task-unknown",
        f"{described} may hold scores of classes for each pixel, or features: nothing in the file says which; if they "
        "are scores, give --task segmentation (Python: task='segmentation') or the names of the classes (--labels)",
    )


def _preference(output: str, task: TaskName, evidence: bool) -> tuple[bool, bool, bool]:
    """Smallest first; among equals, the order of the outputs decides."""
    return output != CALLED, not evidence, task != "classification"


def _evidence(lookup: Index, output: str, name: str, fact: TensorFact, told: Told) -> bool:
    """Whether anything says that a tensor holds scores of classes along its axis 1."""
    return (
        told.task is not None
        or fact.dims[CLASS_AXIS] in told.classes
        or output.rpartition("/")[2] == CALLED
        or _compared(lookup, name, len(fact.dims))
    )


def _compared(lookup: Index, name: str, rank: int) -> bool:
    """Whether classes are compared with each other: a softmax or argmax along their axis, at this size or another."""
    for node in lookup.readers(name):
        axis = node.attrs.get("axis", DEFAULT_AXIS.get(node.op, 0))
        if node.op in DEFAULT_AXIS and axis % rank == CLASS_AXIS:
            return True
        if node.op in REARRANGED and _compared(lookup, node.outputs[0].name, rank):
            return True
    return rank == 2 and any(node.op == "Sigmoid" for node in lookup.readers(name))


def _no_scores(graph: gs.Graph, facts: Mapping[str, TensorFact], told: Told) -> UnsupportedModelError:
    forms = {"classification": "(B, classes)", "segmentation": "(B, classes, h, w)"}
    expected = forms[told.task] if told.task else " or ".join(forms.values())
    outputs = ", ".join(f"{t.name} {facts[t.name].dims if t.name in facts else '?'}" for t in graph.outputs)
    return UnsupportedModelError(
        "no-class-scores", f"no output holds class scores {expected} after the last block; outputs are {outputs}"
    )


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
