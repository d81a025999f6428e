"""FLOPs: each operator against a count by hand, whole models against the formulas of the literature."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from gradskip_onnx.errors import ModelError
from gradskip_onnx.graph.architecture import read
from gradskip_onnx.graph.read.load import load
from gradskip_onnx.instrument.build_plan import build_plan
from gradskip_onnx.metrics.flop_rules import FREE, PRODUCTS, SIMPLE
from gradskip_onnx.metrics.flops import Flops, count, measured_shapes, of_plan
from gradskip_onnx.types import Needs
from tests.support.models import Vit, vit

FLOAT = onnx.TensorProto.FLOAT
MICROSOFT = "com.microsoft"


def single(op: str, inputs, outputs, domain: str = "", **attrs) -> Flops:
    """The count of one node with these shapes; an input of None is left out."""
    names = ["" if shape is None else f"x{i}" for i, shape in enumerate(inputs)]
    results = [f"y{i}" for i in range(len(outputs))]
    node = helper.make_node(op, names, results, name="it", domain=domain, **attrs)
    ports = [helper.make_tensor_value_info(name, FLOAT, None) for name in names if name]
    model = helper.make_model(helper.make_graph([node], "one", ports, []))
    shapes = {f"x{i}": shape for i, shape in enumerate(inputs) if shape is not None}
    return count(model, shapes | dict(zip(results, outputs, strict=True)))


# operator, inputs, outputs, attributes -> multiply-accumulates, written as the product they are
PRODUCT_CASES = [
    ("MatMul", [(2, 3), (3, 5)], [(2, 5)], {}, 2 * 5 * 3),
    ("MatMul", [(7, 1, 2, 3), (4, 3, 5)], [(7, 4, 2, 5)], {}, 7 * 4 * 2 * 5 * 3),
    ("MatMul", [(3,), (3,)], [()], {}, 3),
    ("Gemm", [(2, 3), (3, 5)], [(2, 5)], {}, 2 * 5 * 3),
    ("Gemm", [(3, 2), (5, 3)], [(2, 5)], {"transA": 1, "transB": 1}, 2 * 5 * 3),
    ("Conv", [(1, 3, 8, 8), (6, 3, 2, 2)], [(1, 6, 4, 4)], {"strides": [2, 2]}, 6 * 4 * 4 * 3 * 2 * 2),
    ("Conv", [(1, 6, 8, 8), (6, 1, 3, 3)], [(1, 6, 8, 8)], {"group": 6}, 6 * 8 * 8 * 9),
    ("ConvTranspose", [(1, 6, 4, 4), (6, 3, 2, 2)], [(1, 3, 8, 8)], {}, 6 * 4 * 4 * 3 * 2 * 2),
    ("QLinearConv", [(1, 3, 8, 8), (), (), (6, 3, 2, 2), (), (), (), ()], [(1, 6, 4, 4)], {}, 6 * 4 * 4 * 12),
    ("MatMulInteger", [(2, 3), (3, 5)], [(2, 5)], {}, 30),
    ("QLinearMatMul", [(2, 3), (), (), (3, 5), (), (), (), ()], [(2, 5)], {}, 30),
    ("Einsum", [(2, 3), (3, 5)], [(2, 5)], {"equation": "ij, jk -> ik"}, 30),
    ("Einsum", [(2, 4, 7, 3), (2, 4, 5, 3)], [(2, 4, 7, 5)], {"equation": "bhqd,bhkd->bhqk"}, 2 * 4 * 7 * 5 * 3),
    ("Einsum", [(6, 2, 3), (1, 3, 5)], [(6, 2, 5)], {"equation": "...ij,...jk->...ik"}, 6 * 30),
    ("Einsum", [(2, 3)], [(3, 2)], {"equation": "ij->ji"}, 0),
    ("Attention", [(1, 2, 7, 3), (1, 2, 5, 3), (1, 2, 5, 4)], [(1, 2, 7, 4)], {}, 2 * 7 * 5 * (3 + 4)),
]
MICROSOFT_CASES = [
    ("FusedMatMul", [(3, 2), (3, 5)], [(2, 5)], {"transA": 1}, 30),
    ("FusedConv", [(1, 3, 8, 8), (6, 3, 2, 2)], [(1, 6, 4, 4)], {}, 6 * 4 * 4 * 12),
    # 7 tokens of 6 channels: three projections, then scores and context over all pairs
    ("Attention", [(1, 7, 6), (6, 18), (18,)], [(1, 7, 6)], {"num_heads": 2}, 7 * 6 * 18 + 2 * 7 * 7 * 6),
    ("MultiHeadAttention", [(1, 7, 6), (1, 5, 6), (1, 5, 8)], [(1, 7, 8)], {"num_heads": 2}, 7 * 5 * (6 + 8)),
    ("MultiHeadAttention", [(1, 7, 2, 3, 3)], [(1, 7, 6)], {"num_heads": 2}, 7 * 7 * (6 + 6)),
]


@pytest.mark.parametrize(("op", "inputs", "outputs", "attrs", "macs"), PRODUCT_CASES)
def test_products(op, inputs, outputs, attrs, macs):
    found = single(op, inputs, outputs, **attrs)

    assert found.total == 2 * macs
    assert found.by_op == {op: 2 * macs}


@pytest.mark.parametrize(("op", "inputs", "outputs", "attrs", "macs"), MICROSOFT_CASES)
def test_fused_products(op, inputs, outputs, attrs, macs):
    found = single(op, inputs, outputs, MICROSOFT, **attrs)

    assert found.by_op == {f"{MICROSOFT}.{op}": 2 * macs}


SIMPLE_CASES = [
    ("Add", [(2, 3), (3,)], [(2, 3)], {}, 6),
    ("Softmax", [(2, 3)], [(2, 3)], {}, 5 * 6),
    ("LayerNormalization", [(2, 3), (3,), (3,)], [(2, 3)], {}, 7 * 6),
    ("ReduceSum", [(2, 3)], [(2,)], {}, 6),
    ("ReduceLogSum", [(2, 3)], [(2,)], {}, 6),
    *((op, [(2, 3)], [(2, 3)], {}, 6) for op in ("Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "ThresholdedRelu")),
    *((op, [(2, 3)], [(2, 3)], {}, 6) for op in ("Asinh", "Acosh", "Atanh", "Hardmax")),
    ("Selu", [(2, 3)], [(2, 3)], {}, 2 * 6),  # exp - 1 in one, a factor
    ("Celu", [(2, 3)], [(2, 3)], {}, 3 * 6),  # a division, exp - 1 in one, a factor
    ("Softsign", [(2, 3)], [(2, 3)], {}, 3 * 6),  # |x|, + 1, a division
    ("MeanVarianceNormalization", [(2, 3)], [(2, 3)], {}, 5 * 6),  # LayerNormalization without scale and bias
    ("Sum", [(2, 3), (2, 3), (2, 3)], [(2, 3)], {}, 2 * 6),
    ("Gemm", [(2, 3), (3, 5), (5,)], [(2, 5)], {}, 10),
    ("Gemm", [(2, 3), (3, 5)], [(2, 5)], {}, 0),
    ("AveragePool", [(1, 1, 4, 4)], [(1, 1, 2, 2)], {"kernel_shape": [2, 2]}, 4 * 4),
    ("Resize", [(1, 1, 2, 2), None, (4,)], [(1, 1, 4, 4)], {"mode": "linear"}, 8 * 16),
    ("Resize", [(1, 1, 2, 2), None, (4,)], [(1, 1, 4, 4)], {}, 0),
    ("ScatterND", [(9,), (4, 1), (4,)], [(9,)], {"reduction": "add"}, 4),
    ("ScatterND", [(9,), (4, 1), (4,)], [(9,)], {}, 0),
    ("Attention", [(1, 2, 7, 3), (1, 2, 5, 3), (1, 2, 5, 4)], [(1, 2, 7, 4)], {}, 5 * 2 * 7 * 5),
]


@pytest.mark.parametrize(("op", "inputs", "outputs", "attrs", "flops"), SIMPLE_CASES)
def test_element_wise(op, inputs, outputs, attrs, flops):
    assert single(op, inputs, outputs, **attrs).elementwise == flops


def test_moving_is_free_and_the_unknown_is_listed():
    assert single("Transpose", [(2, 3)], [(3, 2)]) == Flops(0, 0, {}, {}, {})
    assert single("LSTM", [(2, 3, 4)], [(2, 3, 4)]).unknown == {"LSTM": 1}
    assert single("MatMul", [(2, 3), (3, 5)], [(2, 5)], "their.own").unknown == {"their.own.MatMul": 1}


def test_tables_do_not_overlap():
    """What is free has no cost in another table."""
    assert FREE.isdisjoint(PRODUCTS)
    assert FREE.isdisjoint(SIMPLE)


def test_missing_shapes_are_errors():
    node = helper.make_node("MatMul", ["a", "b"], ["c"], name="lost")
    ports = [helper.make_tensor_value_info(name, FLOAT, None) for name in "ab"]
    with pytest.raises(ModelError, match=r"'lost'.*'c'"):
        count(helper.make_model(helper.make_graph([node], "g", ports, [])), {"a": (2, 3), "b": (3, 5)})


def test_products_of_stored_values_are_folded():
    """W1 W2 is computed once, when the file is opened; x (W1 W2) at each run."""
    nodes = [helper.make_node("MatMul", ["w", "v"], ["wv"]), helper.make_node("MatMul", ["x", "wv"], ["y"])]
    stored = [
        onnx.numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in (("w", (3, 4)), ("v", (4, 5)))
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", FLOAT, [2, 5])],
        stored,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    shapes = measured_shapes(model, None, {"x": np.zeros((2, 3), np.float32)})

    assert shapes == {"x": (2, 3), "wv": (3, 5), "y": (2, 5)}
    assert count(model, shapes).total == 2 * 2 * 3 * 5


def transformer_macs(shape: Vit) -> int:
    """N (d x d) four times and (d x 4d) twice, two products of all pairs of tokens; then patches and head."""
    n, d = (shape.size[0] // shape.patch) * (shape.size[1] // shape.patch), shape.width
    tokens = n + shape.special
    block = tokens * (4 * d * d + 2 * d * MLP * d) + 2 * tokens * tokens * d
    return n * shape.channels * shape.patch**2 * d + shape.depth * block + d * shape.classes


MLP = 2  # of the tiny models; real ones have 4
SHAPES = [Vit(), Vit(depth=3, special=2), Vit(decomposed_norm=True, folded_heads=True), Vit(channels_last=True)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("batch", [1, 3])
def test_forward_of_whole_models(shape: Vit, batch: int):
    source = load(vit(shape).SerializeToString())
    reading = read(source)
    found = of_plan(build_plan(source, reading, Needs(), simplify_forward=False), reading.architecture, batch)

    assert found.total == 2 * batch * transformer_macs(shape)
    assert found.unknown == {}
    assert found.elementwise > 0


def test_backward_to_the_first_block_by_formula():
    """The activations' gradient alone: once each linear map and twice each attention product, from block 1 on.

    The head's gradient is one more d x classes product; the gradient at block 0's output needs nothing of block 0.
    """
    shape = Vit(depth=4)
    source = load(vit(shape).SerializeToString())
    reading = read(source)
    forward = of_plan(build_plan(source, reading, Needs(), simplify_forward=False), reading.architecture)
    needs = Needs(tokens_out_gradients=reading.architecture.every_block)
    both = of_plan(build_plan(source, reading, needs, simplify_forward=False), reading.architecture)
    n, d = 17, shape.width
    block = n * (4 * d * d + 2 * d * MLP * d) + 2 * (2 * n * n * d)

    assert both.total - forward.total == 2 * (3 * block + d * shape.classes)
    assert both.unknown == {}


def test_vit_base_by_formula():
    """The number the literature gives for ViT-B/16 at 224: 35.13; RISE is charged 140927.36 for 4000 of them."""
    n, d = 197, 768
    macs = 196 * 3 * 16 * 16 * d + 12 * (n * 12 * d * d + 2 * n * n * d) + d * 1000

    assert 2 * macs / 1e9 == pytest.approx(35.13, abs=0.005)
