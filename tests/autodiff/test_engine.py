"""The reverse loop: which nodes it visits, what it adds up, what it refuses, what it leaves alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest
from onnx import helper, numpy_helper

from gradskip_onnx.autodiff import GRADIENT, Emit, Node, Sym, backward, vjp
from gradskip_onnx.errors import MissingRuleError, UnsupportedModelError
from gradskip_onnx.surgeon.private_names import held_as
from gradskip_onnx.types import Array, TensorFact

from .gradient_models import SEED, differentiate, run, seen

X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


def model(
    *nodes: Any, weights: dict[str, Array] | None = None, opset: int = 18, dims: Any = ("b", 4)
) -> onnx.ModelProto:
    """A model from x to y; a node is (op, inputs, outputs, attributes) in words."""
    protos = [
        helper.make_node(op, i.split(), o.split(), name=f"{op}_{k}", **(a[0] if a else {}))
        for k, (op, i, o, *a) in enumerate(nodes)
    ]
    graph = helper.make_graph(
        protos,
        "test",
        [helper.make_tensor_value_info("x", 1, dims)],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in (weights or {}).items()],
    )
    domains = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=8)


def derive(
    built: onnx.ModelProto, *at: str, rules: Any = GRADIENT, x: Array = X
) -> tuple[onnx.ModelProto, dict[str, str]]:
    return differentiate(built, seen(built, "x", x, x[:2]), ["y"], list(at) or ["x"], rules)


def added(derived: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in derived.graph.node if node.name.startswith("gradskip/"))


def at_x(built: onnx.ModelProto, seed: Array, x: Array = X) -> Array:
    derived, names = derive(built, x=x)
    return run(derived, [names["x"]], {"x": x, f"{SEED}/y": seed})[names["x"]]


def test_gradients_of_all_uses_are_added() -> None:
    built = model(("Mul", "x x", "s"), ("Add", "s x", "t"), ("Mul", "t x", "y"))  # x^3 + x^2
    assert np.allclose(at_x(built, np.ones_like(X)), 3 * X**2 + 2 * X, atol=1e-5)


def test_a_target_in_the_middle_keeps_its_own_gradient() -> None:
    built = model(("Exp", "x", "h"), ("Mul", "h h", "y"))
    derived, names = derive(built, "h", "x", "y")
    seed = np.ones_like(X)
    got = run(derived, list(names.values()), {"x": X, f"{SEED}/y": seed})
    assert np.allclose(got[names["h"]], 2 * np.exp(X), rtol=1e-5)
    assert np.allclose(got[names["x"]], 2 * np.exp(2 * X), rtol=1e-5)
    assert np.array_equal(got[names["y"]], seed)


def test_nothing_is_visited_below_the_deepest_target() -> None:
    built = model(("Unique", "x", "u", {"axis": 0}), ("Exp", "u", "h"), ("Neg", "h", "y"))
    derived, _ = derive(built, "h")
    assert added(derived) == {"Neg": 1}


def test_weight_gradients_are_not_left_behind() -> None:
    built = model(("MatMul", "x w", "h"), ("Add", "h b", "y"), weights={"w": np.eye(4, dtype=np.float32), "b": X[0]})
    derived, _ = derive(built)
    assert added(derived) == {"Gemm": 1}


def test_slices_of_one_tensor_meet_in_one_concat() -> None:
    ends = {f"n{i}": np.asarray([i], np.int64) for i in range(5)}
    built = model(
        ("Slice", "x n0 n1 n1", "q"), ("Slice", "x n1 n3 n1", "k"), ("Slice", "x n3 n4 n1", "v"),
        ("Concat", "v q k", "y", {"axis": 1}), weights=ends,
    )  # fmt: skip
    derived, _ = derive(built)
    assert added(derived) == {"Slice": 3, "Concat": 1}
    seed = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert np.array_equal(at_x(built, seed), seed[:, [1, 2, 3, 0]])


def test_slices_with_gap_and_overlap_are_added() -> None:
    ends = {f"n{i}": np.asarray([i], np.int64) for i in range(5)}
    built = model(("Slice", "x n0 n2 n1", "a"), ("Slice", "x n1 n3 n1", "b"), ("Add", "a b", "y"), weights=ends)
    assert np.array_equal(at_x(built, np.ones((3, 2), np.float32)), np.tile([1, 2, 1, 0], (3, 1)))


def test_only_one_output_of_a_node_may_lead_to_the_score() -> None:
    built = model(("Split", "x", "a b", {"axis": 1, "num_outputs": 2}), ("Exp", "b", "y"))
    got = at_x(built, np.ones((3, 2), np.float32))
    assert np.allclose(got, np.concatenate([np.zeros((3, 2)), np.exp(X[:, 2:])], 1), rtol=1e-5)


def test_a_piecewise_constant_path_gives_zeros() -> None:
    assert np.array_equal(at_x(model(("Floor", "x", "h"), ("Neg", "h", "y")), np.ones_like(X)), np.zeros_like(X))


def test_computed_slice_bounds_are_worked_out_where_they_do_not_follow_the_batch() -> None:
    built = model(
        ("Shape", "x", "s"), ("Gather", "s n1", "width"), ("Sub", "width n1", "end"), ("Slice", "x n0 end n1", "y"),
        weights={"n0": np.asarray([0]), "n1": np.asarray([1])},
    )  # fmt: skip
    assert np.array_equal(at_x(built, np.ones((3, 3), np.float32)), np.tile([1, 1, 1, 0], (3, 1)))


def test_slice_bounds_that_follow_the_batch_are_refused() -> None:
    built = model(
        ("Shape", "x", "s"),
        ("Gather", "s n0", "end"),
        ("Slice", "x n0 end n1", "y"),
        weights={"n0": np.asarray([0]), "n1": np.asarray([1])},
    )
    with pytest.raises(MissingRuleError, match=r"Slice does not cover a computed ends.*'Slice_2'"):
        derive(built)


def test_a_missing_rule_says_which_where_and_how() -> None:
    built = model(("Exp", "x", "h"), ("Det", "h", "y"), dims=("b", 2, 2))
    with pytest.raises(MissingRuleError) as caught:
        derive(built, x=np.ones((3, 2, 2), np.float32) + np.eye(2, dtype=np.float32))
    assert str(caught.value).startswith("no gradient rule for Det (node 'Det_1', opset 18); add one with @vjp('Det')")
    assert caught.value.code == "no-gradient-rule"


def test_a_rule_can_be_added_for_one_call() -> None:
    mine: dict[str, Any] = {}

    @vjp("Exp", table=mine)
    def twice(_: Node, g: Sym) -> tuple[Sym]:
        return (g * 2,)

    built = model(("Exp", "x", "y"))
    derived, names = derive(built, rules=GRADIENT | mine)
    assert np.array_equal(run(derived, [names["x"]], {"x": X, f"{SEED}/y": X})[names["x"]], 2 * X)
    assert GRADIENT["Exp"] is not twice


def test_a_rule_with_the_wrong_number_of_gradients_is_caught() -> None:
    with pytest.raises(ValueError, match="zip"):
        derive(model(("Add", "x x", "y")), rules=GRADIENT | {"Add": lambda _, g: (g,)})


def test_operators_of_other_domains_do_not_take_the_standard_rule() -> None:
    built = model(("Gelu", "x", "y", {"domain": "com.microsoft"}))
    with pytest.raises(MissingRuleError, match=r"com\.microsoft::Gelu"):
        derive(built)


@pytest.mark.parametrize(
    "nodes",
    [
        [("Shape", "x", "s"), ("Cast", "s", "y", {"to": 1})],
        [("ArgMax", "x", "i", {"axis": 1}), ("Cast", "i", "y", {"to": 1})],
    ],
)
def test_no_path_through_indices_or_shapes(nodes: list[Any]) -> None:
    with pytest.raises(UnsupportedModelError, match="'y' does not depend on 'x'") as caught:
        derive(model(*nodes))
    assert caught.value.code == "no-path"


def test_what_a_branch_takes_from_outside_is_noticed() -> None:
    def body(op: str) -> onnx.GraphProto:
        return helper.make_graph(
            [helper.make_node(op, ["x"], [op])], op, [], [helper.make_tensor_value_info(op, 1, None)]
        )

    branches = {"then_branch": body("Exp"), "else_branch": body("Neg")}
    built = model(("If", "flag", "h", branches), ("Add", "h x", "y"), weights={"flag": np.asarray(True)})
    with pytest.raises(MissingRuleError, match="no gradient rule for If"):
        derive(built)


def test_an_old_opset_is_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="opset 11") as caught:
        derive(model(("Exp", "x", "y"), opset=11))
    assert caught.value.code == "opset-too-old"


def test_names_stay_unique_in_a_graph_that_has_gradients_already() -> None:
    derived, names = derive(model(("Exp", "x", "h"), ("Exp", "h", "y")))
    graph = gs.import_onnx(derived)
    facts = {name: TensorFact((None, 4), np.dtype(np.float32)) for name in ("x", "h", "y", f"{SEED}/y")}
    emit = Emit(graph, facts, 18)
    again = backward(emit, of="y", seed=emit.sym(f"{SEED}/y"), at=["x"])
    graph.outputs = [graph.tensors()[names["x"]], again["x"].tensor]
    onnx.checker.check_model(gs.export_onnx(graph, do_type_check=False))
    assert len({node.name for node in graph.nodes}) == len(graph.nodes)


def test_weights_in_external_files_are_not_read(tmp_path: Any) -> None:
    built = model(("MatMul", "x w", "y"), weights={"w": np.ones((4, 5000), np.float32)})
    facts = seen(built, "x", X, X[:2])
    onnx.save(built, tmp_path / "m.onnx", save_as_external_data=True, location="gone.bin", size_threshold=0)
    (tmp_path / "gone.bin").unlink()
    graph = gs.import_onnx(onnx.load(tmp_path / "m.onnx", load_external_data=False))
    emit = Emit(graph, facts, 18)
    found = backward(emit, of="y", seed=emit.sym("y"), at=["x"])
    assert found["x"].dims == (None, 4)
    assert held_as(graph.tensors()["w"]) == "proto"
