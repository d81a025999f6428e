"""Damage to the structure of a graph: nodes, edges, attributes, outputs, functions, operator sets, subgraphs."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper

from .case import pick
from .model_table import damage
from .seeds import FLOAT

Rng = np.random.Generator


def node_of(model: onnx.ModelProto, rng: Rng) -> onnx.NodeProto:
    node: onnx.NodeProto = pick(rng, model.graph.node)
    return node


def values(model: onnx.ModelProto) -> list[str]:
    """The names of all computed values."""
    return [name for node in model.graph.node for name in node.output]


@damage("duplicate node")
def duplicate_node(model: onnx.ModelProto, rng: Rng) -> str:
    node = node_of(model, rng)
    model.graph.node.insert(int(rng.integers(len(model.graph.node) + 1)), node)
    return f"duplicated {node.name}"


@damage("drop node")
def drop_node(model: onnx.ModelProto, rng: Rng) -> str:
    node = model.graph.node.pop(int(rng.integers(len(model.graph.node))))
    return f"dropped {node.name}"


@damage("shuffle nodes")
def shuffle_nodes(model: onnx.ModelProto, rng: Rng) -> str:
    order = rng.permutation(len(model.graph.node))
    nodes = [model.graph.node[int(i)] for i in order]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return "nodes in any order"


@damage("rewire input")
def rewire_input(model: onnx.ModelProto, rng: Rng) -> str:
    node = pick(rng, [node for node in model.graph.node if node.input])
    place = int(rng.integers(len(node.input)))
    weights = [tensor.name for tensor in model.graph.initializer]
    node.input[place] = pick(rng, [*values(model), *weights, "", "nowhere", model.graph.input[0].name])
    return f"input {place} of {node.name} is {node.input[place]!r}"


@damage("cycle")
def cycle(model: onnx.ModelProto, rng: Rng) -> str:
    early, late = sorted(int(i) for i in rng.integers(0, len(model.graph.node), 2))
    node = model.graph.node[early]
    node.input[0] = model.graph.node[late].output[0]
    return f"{node.name} reads node {late}"


@damage("inputs added or dropped")
def input_count(model: onnx.ModelProto, rng: Rng) -> str:
    node = pick(rng, [node for node in model.graph.node if node.input])
    if rng.random() < 0.5:
        del node.input[-1]
    else:
        node.input.extend([pick(rng, values(model))] * int(rng.integers(1, 4)))
    return f"{node.name} has {len(node.input)} inputs"


@damage("rewire output")
def rewire_output(model: onnx.ModelProto, rng: Rng) -> str:
    node = node_of(model, rng)
    node.output[0] = pick(rng, [*values(model), "", model.graph.input[0].name])
    return f"output of {node.name} is {node.output[0]!r}"


@damage("change operator")
def change_operator(model: onnx.ModelProto, rng: Rng) -> str:
    node = node_of(model, rng)
    was = node.op_type
    kinds = (
        "Relu",
        "MatMul",
        "Softmax",
        "Loop",
        "If",
        "Einsum",
        "Split",
        "NonZero",
        "Gelu",
        "Attention",
        "",
        "No such",
    )
    node.op_type = pick(rng, kinds)
    return f"{node.name} from {was} to {node.op_type!r}"


@damage("change domain")
def change_domain(model: onnx.ModelProto, rng: Rng) -> str:
    node = node_of(model, rng)
    node.domain = pick(rng, ("com.microsoft", "ai.onnx", "ai.onnx.ml", "nobody's", "ai.onnx.training"))
    return f"{node.name} in domain {node.domain}"


@damage("change attribute")
def change_attribute(model: onnx.ModelProto, rng: Rng) -> str:
    node = pick(rng, [node for node in model.graph.node if node.attribute])
    attribute = pick(rng, node.attribute)
    odd = int(pick(rng, (-1, 0, 7, -9, 2**31, 2**62, -(2**63))))
    match int(rng.integers(5)):
        case 0:
            attribute.i = odd
        case 1:
            attribute.ints.append(odd)
        case 2:
            del attribute.ints[:]
        case 3:
            attribute.type = AttributeProto.AttributeType.Value(pick(rng, AttributeProto.AttributeType.keys()))
        case _:
            attribute.f = float(pick(rng, (np.nan, np.inf, -1e38, 0.0)))
    return f"{attribute.name} of {node.name}: {odd}"


@damage("duplicate attribute")
def duplicate_attribute(model: onnx.ModelProto, rng: Rng) -> str:
    node = pick(rng, [node for node in model.graph.node if node.attribute])
    node.attribute.append(pick(rng, node.attribute))
    return f"an attribute of {node.name} twice"


@damage("foreign attribute")
def foreign_attribute(model: onnx.ModelProto, rng: Rng) -> str:
    node = node_of(model, rng)
    value = pick(rng, (1, 2.5, "text", b"\xff\xfe", [1, 2], [b"\xff"]))
    node.attribute.append(helper.make_attribute(pick(rng, ("axis", "junk", "perm", "")), value))
    return f"{node.name} gets {node.attribute[-1].name!r} = {value!r}"


@damage("reference to attribute")
def reference_attribute(model: onnx.ModelProto, rng: Rng) -> str:
    node = pick(rng, [node for node in model.graph.node if node.attribute])
    attribute = pick(rng, node.attribute)
    attribute.ref_attr_name = "alpha"
    return f"{attribute.name} of {node.name} refers to a function's attribute outside any function"


@damage("subgraph")
def subgraph(model: onnx.ModelProto, rng: Rng) -> str:
    node = node_of(model, rng)
    inner = helper.make_graph([node], "inner", [], [helper.make_empty_tensor_value_info(node.output[0])])
    flag = helper.make_tensor("flag", TensorProto.BOOL, [], [True])
    both = {"then_branch": inner, "else_branch": inner} if rng.random() < 0.7 else {"then_branch": inner}
    chosen = helper.make_node("If", ["flag"], [node.output[0]], name="choice", **both)
    model.graph.initializer.append(flag)
    place = [each.name for each in model.graph.node].index(node.name)
    model.graph.node[place].CopyFrom(chosen)
    return f"a node inside If ({', '.join(both)})"


@damage("outputs")
def outputs(model: onnx.ModelProto, rng: Rng) -> str:
    names = {
        "duplicated": model.graph.output[0].name,
        "an initialiser": pick(rng, model.graph.initializer).name,
        "an inner value": pick(rng, values(model)),
        "the input": model.graph.input[0].name,
        "missing": "nowhere",
    }
    what = pick(rng, tuple(names))
    extra = helper.make_tensor_value_info(names[what], FLOAT, None if rng.random() < 0.5 else [1, 5])
    if rng.random() < 0.3:
        del model.graph.output[:]
    model.graph.output.insert(int(rng.integers(len(model.graph.output) + 1)), extra)
    return f"an output that is {what}: {names[what]}"


@damage("inputs")
def inputs(model: onnx.ModelProto, rng: Rng) -> str:
    match int(rng.integers(4)):
        case 0:
            model.graph.input.append(model.graph.input[0])
        case 1:
            model.graph.input.append(helper.make_tensor_value_info("more", TensorProto.INT64, ["n"]))
        case 2:
            model.graph.input[0].type.tensor_type.elem_type = int(rng.integers(0, 25))
        case _:
            del model.graph.input[:]
    return f"{len(model.graph.input)} inputs, the first {[v.type.tensor_type.elem_type for v in model.graph.input][:1]}"


@damage("declared shape")
def declared_shape(model: onnx.ModelProto, rng: Rng) -> str:
    value = pick(rng, [*model.graph.input, *model.graph.output])
    dims = value.type.tensor_type.shape.dim
    if dims and rng.random() < 0.7:
        dim = pick(rng, dims)
        dim.dim_value = int(pick(rng, (-1, 0, 1, 2**31, 2**62, 3, 99999)))
        return f"{value.name} declared with {dim.dim_value}"
    del dims[:]
    return f"{value.name} declared without dims"


@damage("contradicting value_info")
def contradicting_value_info(model: onnx.ModelProto, rng: Rng) -> str:
    name = pick(rng, values(model))
    kind = int(pick(rng, (FLOAT, TensorProto.INT64, TensorProto.STRING, TensorProto.FLOAT16)))
    dims = [int(n) for n in rng.integers(1, 9, int(rng.integers(0, 5)))]
    model.graph.value_info.append(helper.make_tensor_value_info(name, kind, dims))
    return f"{name} said to be {TensorProto.DataType.Name(kind)} {dims}"


@damage("operator sets")
def operator_sets(model: onnx.ModelProto, rng: Rng) -> str:
    if rng.random() < 0.4:
        model.opset_import.append(
            helper.make_opsetid(pick(rng, ("", "strange", "com.microsoft")), int(rng.integers(30)))
        )
    else:
        model.opset_import[0].version = int(pick(rng, (-1, 0, 1, 6, 7, 9, 11, 12, 13, 18, 23, 99, 2**40)))
    return f"sets {[(entry.domain, entry.version) for entry in model.opset_import]}"


@damage("versions")
def versions(model: onnx.ModelProto, rng: Rng) -> str:
    model.ir_version = int(pick(rng, (-1, 0, 1, 3, 4, 9, 11, 50, 2**40)))
    if rng.random() < 0.2:
        del model.opset_import[:]
    return f"IR {model.ir_version}, {len(model.opset_import)} operator sets"


@damage("function")
def function(model: onnx.ModelProto, rng: Rng) -> str:
    """A node becomes a call; its function is sound, doubled, recursive, or lacks its import."""
    node = pick(rng, [node for node in model.graph.node if len(node.output) == 1])
    how = pick(rng, ("sound", "doubled", "recursive", "without import", "too few inputs"))
    ports = [f"a{i}" for i in range(len(node.input))]
    body = onnx.NodeProto()
    body.CopyFrom(node)
    del body.input[:], body.output[:]
    body.input.extend(ports[:1] if how == "too few inputs" else ports)
    body.output.append("b")
    if how == "recursive":
        body = helper.make_node("Called", ports, ["b"], domain="local")
    sets = [*model.opset_import, helper.make_opsetid("local", 1)]
    made = helper.make_function("local", "Called", ports, ["b"], [body], sets)
    model.functions.extend([made] * (2 if how == "doubled" else 1))
    node.op_type, node.domain = "Called", "local"
    del node.attribute[:]
    if how != "without import":
        model.opset_import.append(helper.make_opsetid("local", 1))
    return f"{node.name} calls a function ({how})"
