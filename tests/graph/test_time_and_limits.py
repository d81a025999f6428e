"""Time is linear in the nodes of a file, loops are ended, and the limits of both can be set."""

from __future__ import annotations

import time

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from gradskip_onnx import limits
from gradskip_onnx.errors import InputError, ModelError
from gradskip_onnx.graph.architecture import read
from gradskip_onnx.graph.read.load import load
from gradskip_onnx.limits import NODES, Limit
from tests.support.altered_models import accepted, between_blocks, chain, maps
from tests.support.models import FLOAT, INT64, vit

# --- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("op", ["Mul", "Relu"])
def test_time_is_linear_in_nodes(op: str):
    """Four times the nodes may take eight times as long, not sixteen."""
    seconds = []
    for count in (1000, 4000):
        model = chain(op, count).SerializeToString()
        start = time.process_time()
        read(load(model))
        seconds.append(time.process_time() - start)

    assert seconds[1] < 8 * seconds[0]


@pytest.mark.slow
@pytest.mark.parametrize("op", ["Mul", "Relu"])
def test_a_chain_of_3000_nodes_is_explained(op: str):
    """A product with one, and what is positive already, change nothing; only rounding may differ."""
    for one, other in zip(maps(chain(op, 1)), maps(chain(op, 3000)), strict=True):
        np.testing.assert_allclose(other, one, atol=1e-5 * np.abs(one).max())


@pytest.mark.slow
def test_nodes_in_reverse_order_take_no_stack():
    """ONNX asks for sorted nodes, ONNX Runtime for none in particular."""
    model = chain("Relu", 3000)
    nodes = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)

    assert accepted(model)
    assert len(read(load(model.SerializeToString())).architecture.blocks) == 2


def test_loops_without_end_are_ended(monkeypatch: pytest.MonkeyPatch):
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Abs", ["x"], ["y"])],
        "body",
        [helper.make_tensor_value_info("i", INT64, []), helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("x", FLOAT, None)],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []), helper.make_tensor_value_info("y", FLOAT, None)],
    )  # fmt: skip
    model = vit()
    stored = {"times": np.int64(1 << 60), "yes": np.array(True)}
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), name) for name, v in stored.items())
    between_blocks(model, [helper.make_node("Loop", ["times", "yes", "STREAM"], ["looped"], body=body)], "looped")
    monkeypatch.setenv("GRADSKIP_MAX_DRY_RUN_SECONDS", "1")

    with pytest.raises(ModelError, match="took more than 1 seconds"):
        read(load(model.SerializeToString()))


# --- limits -----------------------------------------------------------------------------------------------------------


def test_a_limit_can_be_raised_and_lowered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(NODES.variable, "10")
    with pytest.raises(ModelError, match=r"more than the limit of 10; .*GRADSKIP_MAX_NODES"):
        load(vit().SerializeToString())
    monkeypatch.setenv(NODES.variable, "1000")
    load(vit().SerializeToString())


@pytest.mark.parametrize(("free", "most"), [(None, 100), (0, 100), (399, 100), (4000, 1000)])
def test_a_limit_of_memory_follows_what_is_free(free: int | None, most: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "free_bytes", lambda: free)
    limit = Limit("THINGS", 100, "things", of_free=1 / 4)

    assert limit.amount == most
    monkeypatch.setenv(limit.variable, "7")  # what a user says holds, whatever is free
    assert limit.amount == 7
    assert Limit("OTHERS", 100, "things").amount == 100


@pytest.mark.parametrize("text", ["many", "-1", "1.5", "9" * 30])
def test_a_limit_that_is_no_number_is_said(text: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GRADSKIP_MAX_THINGS", text)
    with pytest.raises(InputError, match="GRADSKIP_MAX_THINGS"):
        Limit("THINGS", 1, "things").check(1, "it")
