"""Gradients that fill part of a tensor: every row of the table against padding with zeros, and where pieces end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from gradskip_onnx.autodiff import GRADIENT, RULESETS, Node, Sym, engine
from gradskip_onnx.autodiff.rules.piece_rules import PIECE_RULES
from gradskip_onnx.autodiff.rulesets.attnlrp import lrp
from gradskip_onnx.types import Array

from .gradient_models import SEED, differentiate, run, seen

RNG = np.random.default_rng(0)
DOUBLE = TensorProto.DOUBLE
FLOAT = TensorProto.FLOAT
CLOSE: dict[int, float] = {DOUBLE: 1e-12, FLOAT: 1e-5}  # of the largest entry


def normal(*dims: int, dtype: Any = np.float64) -> Array:
    return RNG.normal(size=dims).astype(dtype)


def ints(*values: int) -> Array:
    return np.asarray(values, np.int64)


@dataclass(frozen=True)
class Case:
    """Nodes from x to h as (operator, inputs, outputs, attributes) in words; then entries 4 and 5 of h are cut out."""

    nodes: tuple[tuple[Any, ...], ...]
    weights: dict[str, Any] = field(default_factory=dict)
    dims: tuple[int, ...] = (3, 5, 6)
    axis: int = -1
    dtype: int = DOUBLE
    opset: int = 18

    def model(self) -> onnx.ModelProto:
        cut = ("Slice", "h start stop axis", "y")
        protos = [
            helper.make_node(op, i.split(), o.split(), name=f"{op}_{k}", **(a[0] if a else {}))
            for k, (op, i, o, *a) in enumerate((*self.nodes, cut))
        ]
        stored = self.weights | {"start": ints(4), "stop": ints(6), "axis": ints(self.axis)}
        graph = helper.make_graph(
            protos,
            "piece",
            [helper.make_tensor_value_info("x", self.dtype, ["b", *self.dims[1:]])],
            [onnx.ValueInfoProto(name="y")],
            [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)

    def x(self) -> Array:
        rng = np.random.default_rng(1)
        return np.asarray(rng.normal(size=self.dims), helper.tensor_dtype_to_np_dtype(self.dtype))


def gradient(case: Case, rules: Any = GRADIENT) -> tuple[Array, list[onnx.NodeProto]]:
    """The gradient at x and the nodes that compute it."""
    model, x = case.model(), case.x()
    facts = seen(model, "x", x, x[:2])
    derived, names = differentiate(model, facts, ["y"], ["x"], rules)
    y = run(model, ["y"], {"x": x})["y"]
    seed = np.asarray(np.random.default_rng(2).normal(size=y.shape), y.dtype)
    got = run(derived, [names["x"]], {"x": x, f"{SEED}/y": seed})[names["x"]]
    return got, [node for node in derived.graph.node if node.name.startswith("gradskip/")]


COLUMNS, TABLE = normal(6), normal(5, 6)
MOVES: dict[str, Case] = {
    "Identity": Case((("Identity", "x", "h"),)),
    "Add": Case((("Add", "x w", "h"),), {"w": COLUMNS}),
    "Add, twice the same": Case((("Add", "x x", "h"),)),
    "Sub": Case((("Sub", "w x", "h"),), {"w": TABLE}),
    "Neg": Case((("Neg", "x", "h"),)),
    "Sum": Case((("Sum", "x w x", "h"),), {"w": COLUMNS}),
    "Mean": Case((("Mean", "x w", "h"),), {"w": COLUMNS}),
    "Mul": Case((("Mul", "x w", "h"),), {"w": COLUMNS}),
    "Mul, one factor a token": Case((("Mul", "w x", "h"),), {"w": normal(5, 1)}),
    "Mul, a square": Case((("Mul", "x x", "h"),)),
    "Div": Case((("Div", "x w", "h"),), {"w": TABLE}),
    "Div, below": Case((("Div", "w x", "h"),), {"w": COLUMNS}),
    "Cast": Case((("Cast", "x", "f", {"to": FLOAT}), ("Cast", "f", "h", {"to": DOUBLE}))),
    "CastLike": Case((("CastLike", "x w", "h"),), {"w": COLUMNS}),
    "Expand": Case((("Expand", "x shape", "h"),), {"shape": ints(1, 4, 1)}, dims=(3, 1, 6)),
    "Transpose": Case((("Transpose", "x", "h", {"perm": [2, 0, 1]}),), axis=0),
    "Transpose, reversed": Case((("Transpose", "x", "h"),), axis=0),
    "Reshape, merged": Case((("Reshape", "x s", "h"),), {"s": ints(-1, 5, 6)}, dims=(3, 5, 3, 2)),
    "Reshape, split": Case((("Reshape", "x s", "h"),), {"s": ints(-1, 6, 2, 2)}, dims=(3, 24), axis=1),
    "Flatten": Case((("Flatten", "x", "h"),), dims=(3, 3, 2)),
    "Squeeze": Case((("Squeeze", "x a", "h"),), {"a": ints(1, 3)}, dims=(3, 1, 6, 1)),
    "Squeeze, behind the batch": Case(
        (("Transpose", "x", "t", {"perm": [1, 0, 2, 3]}), ("Squeeze", "t a", "h")),
        {"a": ints(2)}, dims=(3, 6, 1, 2), axis=0,
    ),
    "Unsqueeze": Case((("Unsqueeze", "x a", "h"),), {"a": ints(0, 2)}),
    "QuantizeLinear, DequantizeLinear": Case(
        (("QuantizeLinear", "x s z", "q"), ("DequantizeLinear", "q s z", "h")),
        {"s": np.float32(0.05), "z": np.uint8(120)}, dtype=FLOAT,
    ),
    "DequantizeLinear, a scale a column": Case(
        (("QuantizeLinear", "x t z", "q"), ("DequantizeLinear", "q s v", "h", {"axis": 2})),
        {"t": np.float32(0.05), "z": np.uint8(120), "v": np.full(6, 120, np.uint8), "s": np.arange(1, 7, dtype="f4")},
        dtype=FLOAT,
    ),
}  # fmt: skip
PRODUCTS: dict[str, Case] = {
    "MatMul": Case((("MatMul", "x w", "h"),), {"w": normal(6, 6)}),
    "MatMul, of rank 2": Case((("MatMul", "x w", "h"),), {"w": normal(4, 6)}, dims=(3, 4)),
    "Gemm": Case(
        (("Gemm", "x w c", "h", {"alpha": 0.5, "beta": 2.0}),), {"w": normal(4, 6), "c": COLUMNS}, dims=(3, 4)
    ),
    "Gemm, transposed": Case((("Gemm", "x w", "h", {"transB": 1}),), {"w": normal(6, 4)}, dims=(3, 4)),
    "MatMulInteger": Case(
        (
            ("DynamicQuantizeLinear", "x", "q s z"), ("MatMulInteger", "q w z v", "i"),
            ("Cast", "i", "f", {"to": FLOAT}), ("Mul", "f s", "h"),
        ),
        {"w": RNG.integers(-60, 60, (6, 6), np.int8), "v": np.int8(3)}, dtype=FLOAT,
    ),
    "Conv": Case((("Conv", "x w c", "h"),), {"w": normal(6, 2, 3, 3), "c": COLUMNS}, dims=(3, 2, 5, 4), axis=1),
}  # fmt: skip
ROWS: dict[str, Case] = {  # rows of a product: the gradient of x is whole, or padded behind the product
    "MatMul, rows": Case((("MatMul", "x w", "h"),), {"w": normal(4, 5)}, dims=(3, 6, 4), axis=1),
    "MatMul, rows of two activations": Case(
        (("Transpose", "x", "t", {"perm": [0, 2, 1]}), ("MatMul", "x t", "h")), dims=(3, 6, 4), axis=1
    ),
}
ENDS: dict[str, Case] = {  # the piece is no slice of one axis there, or is multiplied in another way
    "Reshape, heads outside": Case((("Reshape", "x s", "h"),), {"s": ints(-1, 2, 6)}, dims=(3, 12)),
    "Reshape, inside of a row": Case((("Reshape", "x s", "h"),), {"s": ints(-1, 9)}, dims=(3, 3, 3)),
    "MatMul, of stacks": Case((("MatMul", "x w", "h"),), {"w": normal(5, 4, 6)}, dims=(3, 5, 2, 4)),
    "MatMul, by a vector": Case((("MatMul", "x w", "h"),), {"w": normal(4)}, dims=(3, 6, 4)),
    "Gemm, rows": Case((("Gemm", "w x", "h", {"transB": 1}),), {"w": normal(6, 4)}, dims=(3, 4), axis=0),
    "Conv, rows of pixels": Case((("Conv", "x w", "h"),), {"w": normal(3, 2, 1, 1)}, dims=(3, 2, 6, 4), axis=2),
    "Conv, in groups": Case(
        (("Conv", "x w", "h", {"group": 2}),),
        {"w": normal(6, 1, 1, 1, dtype="f4")}, dims=(3, 2, 3, 3), axis=1, dtype=FLOAT,
    ),
    "Exp": Case((("Exp", "x", "h"),)),
}  # fmt: skip
SEVERAL: dict[str, Case] = {  # one operand gets a piece, another a sum, or a piece that fills another part
    "Add, a row to all rows": Case(
        (("Slice", "x i j k", "row"), ("Add", "row x", "h")), {"i": ints(0), "j": ints(1), "k": ints(1)}
    ),
    "Mul, a column by all columns": Case(
        (("Slice", "x i j k", "column"), ("Mul", "x column", "h")), {"i": ints(2), "j": ints(3), "k": ints(2)}
    ),
    "Sub, fewer axes": Case((("Gather", "x i", "one"), ("Sub", "x one", "h")), {"i": np.int64(0)}, dims=(3, 6)),
    "MatMul, a gradient at the matrix": Case(
        (("ReduceSum", "x a", "w", {"keepdims": 0}), ("MatMul", "x w", "h")), {"a": ints(0)}, dims=(3, 6, 6)
    ),
    "Gemm, gradients at all inputs": Case(
        (("ReduceSum", "x a", "c", {"keepdims": 0}), ("Unsqueeze", "c a", "r"), ("Gemm", "x w r", "p"),
         ("Transpose", "r", "k"), ("MatMul", "k r", "m"), ("Gemm", "p m r", "h", {"transB": 1})),
        {"a": ints(0), "w": normal(6, 6)}, dims=(3, 6),
    ),
}  # fmt: skip


@pytest.mark.parametrize("ruleset", ["gradient", "conservative"])
@pytest.mark.parametrize("name", [*MOVES, *PRODUCTS, *ROWS, *ENDS, *SEVERAL])
def test_gradients_are_those_of_padded_ones(name: str, ruleset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, rules = (MOVES | PRODUCTS | ROWS | ENDS | SEVERAL)[name], RULESETS[ruleset]()
    got, _ = gradient(case, rules)
    monkeypatch.setattr(engine, "PIECE_RULES", {})
    expected, _ = gradient(case, rules)

    assert got.shape == expected.shape
    assert np.abs(got - expected).max() <= CLOSE[case.dtype] * np.abs(expected).max()
    assert expected.any()


@pytest.mark.parametrize("name", MOVES)
def test_operators_that_move_or_scale_leave_padding_to_the_end(name: str) -> None:
    """Behind the padding come at most the sums and casts that the engine adds to any gradient."""
    _, nodes = gradient(MOVES[name])
    kinds = [node.op_type for node in nodes]

    assert kinds.count("Pad") == 1
    assert set(kinds[kinds.index("Pad") + 1 :]) <= {"Add", "Cast"}


@pytest.mark.parametrize("ruleset", ["gradient", "conservative"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_need_no_padding(name: str, ruleset: str) -> None:
    _, nodes = gradient(PRODUCTS[name], RULESETS[ruleset]())

    assert "Pad" not in {node.op_type for node in nodes}
    assert "Slice" in {node.op_type for node in nodes}  # of the weight


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_padded_behind_the_product(name: str) -> None:
    _, nodes = gradient(ROWS[name])
    operators = [node.op_type for node in nodes]

    assert operators.index("Pad") > next(at for at, op in enumerate(operators) if op in ("MatMul", "Gemm"))


@pytest.mark.parametrize("name", ENDS)
def test_what_is_no_single_slice_is_padded_at_once(name: str) -> None:
    _, nodes = gradient(ENDS[name])

    assert nodes[0].op_type == "Pad"


def test_every_row_has_a_case() -> None:
    used = {op for case in (*MOVES.values(), *PRODUCTS.values()) for op, *_ in case.nodes}

    assert {rules[op] for rules in (GRADIENT, RULESETS["conservative"]()) for op in used} >= set(PIECE_RULES)


def packed(*readers: tuple[int, int]) -> onnx.ModelProto:
    """x W, of whose six columns the sum of some slices, all of one width, is y."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], name="product")]
    stored: dict[str, Array] = {"w": normal(6, 6), "last": ints(-1)}
    for i, (start, stop) in enumerate(readers):
        stored |= {f"a{i}": ints(start), f"b{i}": ints(stop), f"f{i}": normal(stop - start)}
        nodes.append(helper.make_node("Slice", ["h", f"a{i}", f"b{i}", "last"], [f"s{i}"], name=f"cut{i}"))
        nodes.append(helper.make_node("Mul", [f"s{i}", f"f{i}"], [f"t{i}"], name=f"scale{i}"))
    nodes.append(helper.make_node("Sum", [f"t{i}" for i in range(len(readers))], ["y"], name="sum"))
    graph = helper.make_graph(
        nodes,
        "packed",
        [helper.make_tensor_value_info("x", DOUBLE, ["b", 5, 6])],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(value, name) for name, value in stored.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.parametrize(
    ("readers", "padded", "columns"),
    [
        ([(4, 6)], 0, 2),
        ([(2, 4), (4, 6)], 0, 4),  # adjacent: one piece
        ([(4, 6), (0, 2)], 2, 6),  # a gap
        ([(2, 4), (3, 5)], 2, 6),  # an overlap
        ([(0, 2), (2, 4), (4, 6)], 0, 6),  # everything: no piece at all
    ],
)
def test_slices_of_one_product(readers: list[tuple[int, int]], padded: int, columns: int) -> None:
    model = packed(*readers)
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    x, seed = normal(3, 5, 6), normal(3, 5, 2)
    derived, names = differentiate(model, seen(model, "x", x, x[:2]), ["y"], ["x", "h"])
    got = run(derived, list(names.values()), {"x": x, f"{SEED}/y": seed})
    at_h = np.zeros((3, 5, 6))
    for i, (start, stop) in enumerate(readers):
        at_h[..., start:stop] += seed * weights[f"f{i}"]

    assert np.allclose(got[names["h"]], at_h, rtol=1e-12, atol=0)  # a tensor that is asked for is whole
    assert np.allclose(got[names["x"]], at_h @ weights["w"].T, rtol=1e-12, atol=1e-12)
    alone, _ = differentiate(model, seen(model, "x", x, x[:2]), ["y"], ["x"])
    kinds = [node.op_type for node in alone.graph.node if node.name.startswith("gradskip/")]
    assert kinds.count("Pad") == padded
    assert ("Slice" in kinds) == (columns < 6)


def test_a_rule_of_ones_own_gets_whole_gradients() -> None:
    shapes = []

    def doubled(n: Node, g: Sym) -> tuple[Any, ...]:
        shapes.append(g.dims)
        return 2 * (g @ n.x[1].mT), None

    case = PRODUCTS["MatMul"]
    plain, _ = gradient(case)
    own, _ = gradient(case, {**GRADIENT, "MatMul": doubled})

    assert shapes == [(None, 5, 6)]
    assert np.allclose(own, 2 * plain, rtol=1e-12)


def test_gamma_counts_all_columns() -> None:
    """Where the gamma rule acts it gets the whole gradient; a product that embeds patches is such a place."""
    case = PRODUCTS["MatMul"]
    rules = GRADIENT | lrp(attention_held=True, halves=False, gamma_linear=0.0, gamma_conv=100.0)
    _, nodes = gradient(case, rules)

    assert nodes[0].op_type == "Pad"


@pytest.mark.parametrize("ruleset", ["conservative", "pe-lrp", "ah+ln", "attnlrp"])
def test_rules_that_leave_a_node_alone_leave_it_its_pieces(ruleset: str) -> None:
    """Without a gamma, products by weights are plain in every rule set, and so is a scaling by constants."""
    settings = {"gamma_linear": 0.0, "gamma_conv": 0.0} if ruleset in ("pe-lrp", "attnlrp") else {}
    case = Case((("MatMul", "x w", "p"), ("Mul", "p c", "h")), {"w": normal(6, 6), "c": COLUMNS})
    got, nodes = gradient(case, RULESETS[ruleset](**settings))

    assert "Pad" not in {node.op_type for node in nodes}
    assert np.array_equal(got, gradient(case)[0])
