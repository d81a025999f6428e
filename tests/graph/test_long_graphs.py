"""Work that grows with the number of nodes: counted, not timed."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from gradskip_onnx import limits
from gradskip_onnx.errors import ModelError
from gradskip_onnx.graph.architecture import read
from gradskip_onnx.graph.find.blocks import find_blocks
from gradskip_onnx.graph.index import Index, index
from gradskip_onnx.graph.prove.dry_run import make_dry_run, observe
from gradskip_onnx.graph.prove.partial_model import PartialModel, partial_model
from gradskip_onnx.graph.read.forward import forward_graph
from gradskip_onnx.graph.read.image_input import find_image_input
from gradskip_onnx.graph.read.load import load
from gradskip_onnx.limits import ELEMENTS, RUN_BYTES
from tests.support.models import Vit, vit

LONG = 1000


def with_chain(place: str, count: int, op: str = "Mul") -> onnx.ModelProto:
    """A transformer with `count` nodes in a row before, between or after its blocks."""
    model = vit()
    graph = model.graph
    norms = [node for node in graph.node if node.op_type == "LayerNormalization"]
    start = {"before": graph.input[0].name, "between": norms[2].input[0], "after": norms[-1].output[0]}[place]
    more = ["one"] if op == "Mul" else []
    names = [start, *(f"chain{at}" for at in range(count))]
    nodes = list(graph.node)
    at = 1 + max((i for i, node in enumerate(nodes) if start in node.output), default=-1)
    for node in nodes[at:]:
        node.input[:] = [names[-1] if name == start else name for name in node.input]
    links = [helper.make_node(op, [a, *more], [b]) for a, b in pairwise(names)]
    del graph.node[:]
    graph.node.extend([*nodes[:at], *links, *nodes[at:]])
    graph.initializer.append(numpy_helper.from_array(np.array(1, np.float32), "one"))
    return model


@pytest.mark.parametrize("place", ["before", "between", "after"])
@pytest.mark.parametrize("op", ["Mul", "Relu", "Identity"])
def test_a_chain_is_one_run_of_the_index(op: str, place: str):
    graph = forward_graph(with_chain(place, LONG, op))
    short = forward_graph(vit())
    long_index, short_index = (index(each, each.inputs[0].name) for each in (graph, short))

    assert len(long_index.above) <= len(short_index.above) + 2
    assert [entry.match.node for entry in find_blocks(long_index)[0]] == [
        entry.match.node for entry in find_blocks(short_index)[0]
    ]


def test_the_walk_along_the_stream_stays_in_its_block(monkeypatch: pytest.MonkeyPatch):
    """Blocks four times as many take four times the questions about paths, not sixteen times."""
    asked: list[int] = []
    for depth in (4, 16):
        questions = 0

        def counted(self: Index, position: int, later: int, plain: Any = Index._reaches) -> bool:
            nonlocal questions
            questions += 1
            return bool(plain(self, position, later))

        graph = forward_graph(vit(Vit(depth=depth)))
        lookup = index(graph, graph.inputs[0].name)
        with monkeypatch.context() as patch:
            patch.setattr(Index, "_reaches", counted)
            found, _ = find_blocks(lookup)
        assert len(found) == depth
        asked.append(questions)

    assert asked[1] <= 5 * asked[0]


@pytest.mark.parametrize("place", ["before", "between", "after"])
@pytest.mark.parametrize("op", ["Mul", "Relu", "Transpose"])
def test_outputs_of_a_dry_run_do_not_grow_with_the_nodes(op: str, place: str, monkeypatch: pytest.MonkeyPatch):
    counts: list[int] = []
    plain = PartialModel.open

    def counted(self: PartialModel, outputs: Any, *args: Any, **more: Any) -> Any:
        counts.append(len(outputs))
        return plain(self, outputs, *args, **more)

    monkeypatch.setattr(PartialModel, "open", counted)
    most = []
    for count in (2, LONG):
        counts.clear()
        read(load(with_chain(place, count, op).SerializeToString()))
        most.append(max(counts))

    packed = LONG // 256 + 1 if op == "Transpose" else 0  # its shape is measured, in groups of 256
    assert most[1] <= most[0] + packed


def test_shapes_and_values_are_those_of_a_session_that_shows_every_tensor():
    graph = forward_graph(vit(Vit(depth=1, decomposed_norm=True, opset=13, masked=True, special_last=True)))
    image, model = find_image_input(graph), partial_model(graph, None)
    lookup = index(graph, image.name)
    names = [name for node in model.nodes for name in node.output]
    dry_run = make_dry_run(model, image)
    observed = observe(dry_run, lookup.activations)
    one, two = (model.open(names).run(names, {image.name: image.probe(dry_run.size, batch)}) for batch in (1, 2))

    for name in names:
        assert dry_run.shapes[name] == one[name].shape
        assert dry_run.dtypes[name] == one[name].dtype
        sizes = zip(one[name].shape, two[name].shape, strict=True)
        assert observed.facts[name].dims == tuple(a if a == b else None for a, b in sizes)
    for name, value in observed.constants.items():
        np.testing.assert_array_equal(value, one[name], strict=True)


# --- memory -----------------------------------------------------------------------------------------------------------


def doubled(count: int, first: str = "seed") -> onnx.ModelProto:
    """A transformer and 2^count numbers, made by `count` Concats and added up into the scores."""
    model = vit()
    output = model.graph.output[0].name
    last = next(node for node in model.graph.node if output in node.output)
    last.output[0] = "scores_before"
    names = [first, *(f"double{at}" for at in range(count))]
    model.graph.initializer.append(numpy_helper.from_array(np.ones(1, np.float32), "seed"))
    model.graph.node.extend(helper.make_node("Concat", [a, a], [b], axis=0) for a, b in pairwise(names))
    model.graph.node.append(helper.make_node("ReduceSum", [names[-1]], ["all"], keepdims=0))
    model.graph.node.append(helper.make_node("Add", ["scores_before", "all"], [output]))
    return model


def hidden(count: int) -> onnx.ModelProto:
    """The same, with sizes that only a run tells: the first number is picked by a condition."""
    model = doubled(count, first="picked")
    model.graph.initializer.append(numpy_helper.from_array(np.array([True]), "yes"))
    model.graph.node.insert(0, helper.make_node("Compress", ["seed", "yes"], ["picked"], axis=0))
    return model


def test_a_doubling_chain_is_refused_before_it_is_made():
    with pytest.raises(ModelError, match=f"more than the limit of .*{ELEMENTS.variable}"):
        read(load(doubled(40).SerializeToString()))


def test_what_is_held_at_once_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(RUN_BYTES.variable, str(4 << 20))
    with pytest.raises(ModelError, match=f"bytes of tensors at once, more than the limit of .*{RUN_BYTES.variable}"):
        read(load(doubled(20).SerializeToString()))


def test_what_only_a_run_tells_is_bounded_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "free_bytes", lambda: 4 << 30)  # what is really free need not be filled
    with pytest.raises(ModelError, match=f"more than the limit of .*{RUN_BYTES.variable}"):
        read(load(hidden(40).SerializeToString()))
    monkeypatch.setenv(RUN_BYTES.variable, str(1 << 20))
    with pytest.raises(ModelError, match="limit of 1,048,576 bytes"):
        read(load(hidden(20).SerializeToString()))
    monkeypatch.setenv(RUN_BYTES.variable, str(64 << 20))

    assert len(read(load(hidden(20).SerializeToString())).architecture.blocks) == 2
