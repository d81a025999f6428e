"""Moves nodes of a finished graph into bodies: behind a switch, or into a loop over classes.

Works on the protobuf and not on graphsurgeon's graph: a graphsurgeon subgraph stores its own copy of every constant,
which would double the weights; in the protobuf the inner graph refers to the constants of the outer one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from gradskip_onnx.surgeon.node_writer import PREFIX

MOVES = frozenset({"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Gather", "Expand", "MaxPool"})
SWITCH = "explain"  # bool input, default true; false: only the forward pass is computed


def put_behind_switch(graph: onnx.GraphProto, outputs: Mapping[str, str], switch: str) -> None:
    """Move the nodes that only the `outputs` (tensor -> new name) depend on into an `If` on the input `switch`.

    With `switch` false the outputs have a batch of 0, and the rest of the graph costs what it costs without them.
    """
    inner = _needed_only_for(graph, set(outputs))
    inside = {node.name for node in inner}
    outer = [node for node in graph.node if node.name not in inside]
    inner = _with_own_moves(inner, outer, "switch")
    types = {output.name: output.type.tensor_type for output in graph.output}
    then = helper.make_graph(inner, f"{PREFIX}backward", [], [_info(name, types[name].elem_type) for name in outputs])
    blanks = []
    for name in outputs:
        sizes = [dim.dim_value for dim in types[name].shape.dim]
        blank = helper.make_tensor(f"{name}/none", types[name].elem_type, [0, *sizes[1:]], b"", raw=True)
        blanks.append(helper.make_node("Constant", [], [f"{name}/none"], value=blank))
    otherwise = helper.make_graph(
        blanks, f"{PREFIX}nothing", [], [_info(f"{name}/none", types[name].elem_type) for name in outputs]
    )
    node = helper.make_node(
        "If", [switch], list(outputs.values()), name=f"{PREFIX}switch", then_branch=then, else_branch=otherwise
    )
    _replace_nodes(graph, [*outer, node])
    for output in graph.output:
        if output.name in outputs:
            for batch in output.type.tensor_type.shape.dim[:1]:
                batch.Clear()  # its size follows the switch too
            output.name = outputs[output.name]
    graph.input.append(helper.make_tensor_value_info(switch, onnx.TensorProto.BOOL, []))
    graph.initializer.append(numpy_helper.from_array(np.array(True), switch))


def repeat_for_classes(graph: onnx.GraphProto, outputs: Sequence[str], target: str, count: int) -> dict[str, str]:
    """Make the input `target` (B, count), and the `outputs` (B, ..) of one class those of all, (B, count, ..).

    Everything that follows from the class moves into a `Loop`: a file for many classes is no larger than for one, and
    the backward pass of one class is in memory at a time. Returns new names of the outputs.
    """
    inner = _following(graph, target)
    inside = {node.name for node in inner}
    outer = [node for node in graph.node if node.name not in inside]
    number, going, one = (f"{PREFIX}class/{word}" for word in ("number", "going", "target"))
    body = helper.make_graph(
        [
            helper.make_node("Gather", [target, number], [one], name=f"{one}/of", axis=1),
            *(_reading(node, {target: one}) for node in _with_own_moves(inner, outer, "class")),
            helper.make_node("Identity", [going], [f"{going}/on"], name=f"{going}/same"),
        ],
        f"{PREFIX}one class",
        [
            helper.make_tensor_value_info(number, onnx.TensorProto.INT64, []),
            helper.make_tensor_value_info(going, onnx.TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info(f"{going}/on", onnx.TensorProto.BOOL, []), *_take(graph, outputs)],
    )
    times = numpy_helper.from_array(np.array(count, np.int64), f"{PREFIX}classes")
    stacked = [f"{name}/classes" for name in outputs]
    nodes = [*outer, helper.make_node("Loop", [times.name, ""], stacked, name=f"{PREFIX}each class", body=body)]
    names = {name: f"{name}/by image" for name in outputs}
    for info, stack in zip(list(body.output)[1:], stacked, strict=True):
        dims = info.type.tensor_type.shape.dim
        order = [1, 0, *range(2, len(dims) + 1)]
        nodes.append(helper.make_node("Transpose", [stack], [names[info.name]], name=f"{stack}/order", perm=order))
        shape = [dim.dim_value or None for dim in dims]
        graph.output.append(
            helper.make_tensor_value_info(
                names[info.name], info.type.tensor_type.elem_type, [shape[0], count, *shape[1:]]
            )
        )
    graph.initializer.append(times)
    _replace_nodes(graph, nodes)
    return names


def _following(graph: onnx.GraphProto, start: str) -> list[onnx.NodeProto]:
    """The nodes, in order, whose results depend on a tensor."""
    known, found = {start}, []
    for node in graph.node:
        if not known.isdisjoint(_reads(node)):
            known.update(node.output)
            found.append(node)
    return found


def _with_own_moves(
    inner: Sequence[onnx.NodeProto], outer: Sequence[onnx.NodeProto], where: str
) -> list[onnx.NodeProto]:
    """The nodes of a body, with copies of those outside that only move dequantised values which it reads.

    ONNX Runtime 1.31 lets integers pass such a node, and takes every reader of its result for an input of a node. A
    body is none, and the process ends.
    """
    makers = {output: node for node in outer for output in node.output}
    names: dict[str, str] = {}
    copies: list[onnx.NodeProto] = []

    def own(name: str) -> str:
        """The name of a copy of the tensor, where it needs one."""
        node = makers.get(name)
        if name in names or node is None or node.op_type not in MOVES or not _dequantised(node, makers):
            return names.get(name, name)
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.name = f"{PREFIX}{where}/{node.name}"
        copy.input[0] = own(node.input[0])
        copy.output[0] = names[name] = f"{PREFIX}{where}/{name}"
        copies.append(copy)
        return names[name]

    for node in inner:
        for name in _reads(node):
            own(name)
    return [*copies, *(_reading(node, names) for node in inner)]


def _dequantised(node: onnx.NodeProto, makers: Mapping[str, onnx.NodeProto]) -> bool:
    """Whether a node moves what a DequantizeLinear gives, directly or by way of others that move."""
    before = makers.get(node.input[0])
    while before is not None and before.op_type in MOVES:
        before = makers.get(before.input[0])
    return before is not None and before.op_type == "DequantizeLinear"


def _reading(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """A copy of a node that reads other tensors, also in its bodies."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [names.get(name, name) for name in node.input]
    for attribute in copy.attribute:
        if attribute.HasField("g"):
            for place, one in enumerate([_reading(one, names) for one in attribute.g.node]):
                attribute.g.node[place].CopyFrom(one)
            for output in attribute.g.output:
                output.name = names.get(output.name, output.name)
    return copy


def _take(graph: onnx.GraphProto, outputs: Sequence[str]) -> list[onnx.ValueInfoProto]:
    """Copies of some outputs of a graph, which it then has no longer."""
    copies = onnx.GraphProto(output=graph.output)
    graph.ClearField("output")
    graph.output.extend(output for output in copies.output if output.name not in outputs)
    found = {output.name: output for output in copies.output}
    return [found[name] for name in outputs]


def _needed_only_for(graph: onnx.GraphProto, outputs: set[str]) -> list[onnx.NodeProto]:
    """The nodes, in order, that only the given graph outputs depend on."""
    needed = {output.name for output in graph.output} - outputs
    only: list[onnx.NodeProto] = []
    for node in reversed(graph.node):
        if needed.isdisjoint(node.output):
            only.append(node)
        else:
            needed.update(_reads(node))
    return only[::-1]


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """The tensors that a node reads, also those that its bodies take from around them."""
    yield from node.input
    for attribute in node.attribute:
        for body in (attribute.g, *attribute.graphs):
            yield from (name for inner in body.node for name in _reads(inner))
            yield from (output.name for output in body.output)


def _replace_nodes(graph: onnx.GraphProto, nodes: Sequence[onnx.NodeProto]) -> None:
    kept = onnx.GraphProto(node=nodes)  # copies, before the originals are freed
    graph.ClearField("node")
    graph.node.extend(kept.node)


def _info(name: str, kind: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, None)
