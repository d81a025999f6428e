"""Arithmetic on tensors of the graph: what is written in fewer or quicker operators has the same values."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest

from gradskip_onnx.autodiff.emit import Emit
from gradskip_onnx.graph.read.assemble import assemble
from gradskip_onnx.runtime.session import open_session
from gradskip_onnx.types import Array, TensorFact


def emit_for(dtype: type, dims: tuple[int | None, ...]) -> Emit:
    """A writer on a graph with one input, x."""
    graph = gs.import_onnx(
        onnx.helper.make_model(
            onnx.helper.make_graph([], "g", [], []), opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9
        )
    )
    graph.inputs = [gs.Variable("x", np.dtype(dtype), list(dims))]
    return Emit(graph, {"x": TensorFact(dims, np.dtype(dtype))}, 18)


def values(emit: Emit, name: str, x: Array) -> Array:
    emit.graph.outputs = [emit.graph.tensors()[name]]
    return open_session(assemble(emit.graph), device="cpu").run([name], {"x": x})[name]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_sign_has_the_values_of_the_operator(dtype: type):
    limit = float(np.finfo(dtype).max)
    x: Array = np.array([-limit, -2.0, -1.5e-38, -0.0, 0.0, 1.5e-38, 1e-6, 7.0, limit, np.inf, -np.inf]).astype(dtype)
    emit = emit_for(dtype, (None,))

    found = values(emit, emit.sym("x").sign().name, x)

    np.testing.assert_array_equal(found, np.sign(x))


def test_a_reshape_of_a_reshape_reads_the_first_input():
    x = np.arange(48, dtype=np.float32).reshape(2, 4, 6)
    emit = emit_for(np.float32, (None, 4, 6))

    twice = emit.sym("x").reshape((None, 4, 2, 3)).reshape((None, 6))

    assert [source.name for source in twice.tensor.inputs[0].inputs][:1] == ["x"]
    np.testing.assert_array_equal(values(emit, twice.name, x), x.reshape(8, 6))
