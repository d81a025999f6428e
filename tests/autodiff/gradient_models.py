"""Builds, differentiates and runs the small models the gradient tests are made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import onnxruntime as ort
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from gradskip_onnx.autodiff import GRADIENT, Emit, Rule, Sym, backward
from gradskip_onnx.types import Array, TensorFact

BATCH = 11  # no other axis of a test tensor has this size, so it can be hidden from the engine
SEED = "upstream"  # the input that carries the gradient of the output


class Erf(OpRun):
    """Exact to float64; the one in onnx.reference is only exact to float32."""

    op_domain = ""

    def _run(self, x: Array) -> tuple[Array]:
        return (np.vectorize(math.erf, otypes=[x.dtype])(x),)


class Gelu(OpRun):
    """Exact to float64, for the same reason."""

    op_domain = ""

    def _run(self, x: Array, approximate: str | None = None) -> tuple[Array]:
        if approximate == "tanh":
            inner = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
            return ((0.5 * x * (1 + np.tanh(inner))).astype(x.dtype),)
        phi = np.vectorize(lambda v: 0.5 * math.erfc(-v / math.sqrt(2)), otypes=[x.dtype])
        return ((x * phi(x)).astype(x.dtype),)


EXACT_OPS = [Erf, Gelu]


def fact(array: Array, dynamic: bool) -> TensorFact:
    """Shape and type of an array; with `dynamic` the batch size is unknown."""
    return TensorFact(tuple(None if dynamic and size == BATCH else size for size in array.shape), array.dtype)


def one_node(
    op: str,
    inputs: Sequence[Array | None],
    constant: Sequence[bool],
    outputs: int,
    attrs: Mapping[str, Any],
    opset: int,
) -> onnx.ModelProto:
    """A model of a single node; inputs are called x0, x1, .., outputs y0, y1, .."""
    names = ["" if array is None else f"x{i}" for i, array in enumerate(inputs)]
    values = {name: array for name, array in zip(names, inputs, strict=True) if array is not None}
    fixed = {name for name, is_fixed in zip(names, constant, strict=True) if is_fixed}
    graph = helper.make_graph(
        [helper.make_node(op, names, [f"y{i}" for i in range(outputs)], name="tested", **attrs)],
        "one_node",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for name, a in values.items()
            if name not in fixed
        ],
        [onnx.ValueInfoProto(name=f"y{i}") for i in range(outputs)],
        [numpy_helper.from_array(a, name) for name, a in values.items() if name in fixed],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version(opset))


@lru_cache
def ir_version(opset: int) -> int:
    return int(helper.find_min_ir_version_for([helper.make_opsetid("", opset)]))


def differentiate(
    model: onnx.ModelProto,
    facts: Mapping[str, TensorFact],
    of: Sequence[str],
    at: Sequence[str],
    rules: Mapping[str, Rule] = GRADIENT,
) -> tuple[onnx.ModelProto, dict[str, str]]:
    """The model with inputs `upstream/..` (gradients of the outputs `of`) and the gradients at `at` as outputs.

    Several outputs are tied together as a sum of products, so that one call of `backward` sees them all.
    """
    graph = gs.import_onnx(model)
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    emit = Emit(graph, facts, opset)
    found: dict[str, Sym] = {}
    for name in of:
        y = emit.sym(name)
        seed = gs.Variable(f"{SEED}/{name}", y.dtype, [None] * y.rank)
        graph.inputs.append(seed)
        reached = [x for x in at if depends(graph, name, x)]
        for x, g in backward(emit, of=name, seed=Sym(emit, seed, y.dtype, y.dims), at=reached, rules=rules).items():
            found[x] = found[x] + g if x in found else g
    graph.outputs = [g.tensor for g in found.values()]
    result = gs.export_onnx(graph, do_type_check=False)
    del result.graph.value_info[:]
    result.ir_version = max(model.ir_version, 7)
    return result, {x: g.name for x, g in found.items()}


def depends(graph: gs.Graph, of: str, on: str) -> bool:
    """Whether the tensor `of` is computed from the tensor `on`."""
    tensors = graph.tensors()
    stack, seen = [tensors[of]], set()
    while stack:
        tensor = stack.pop()
        if tensor.name == on:
            return True
        if tensor.name not in seen:
            seen.add(tensor.name)
            stack += [source for node in tensor.inputs for source in node.inputs]
    return False


def seen(model: onnx.ModelProto, name: str, *inputs: Array) -> dict[str, TensorFact]:
    """Shape and type of every tensor in runs on inputs of different batch sizes; what differs is unknown."""
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    named = {y.name for y in probe.graph.output}
    inner = [y for node in probe.graph.node for y in node.output if y and y not in named]
    probe.graph.output.extend(onnx.ValueInfoProto(name=y) for y in inner)
    outputs = [y.name for y in probe.graph.output]
    runs = [run(probe, outputs, {name: x}) | {name: x} for x in inputs]
    return {
        key: TensorFact(
            tuple(a if len({a, *rest}) == 1 else None for a, *rest in zip(*(r[key].shape for r in runs), strict=True)),
            runs[0][key].dtype,
        )
        for key in runs[0]
    }


def run(model: onnx.ModelProto, outputs: Sequence[str], feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Run on ONNX Runtime; where it has no kernel (float64 Erf, ConvTranspose, ..) on the reference of ONNX."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except ort.capi.onnxruntime_pybind11_state.NotImplemented:
        return reference(model, outputs, feeds)
    except ort.capi.onnxruntime_pybind11_state.Fail as failure:
        if not any(hint in str(failure) for hint in ("Unsupported model IR version", "is till opset")):
            raise
        return reference(model, outputs, feeds)  # an onnx package newer than ONNX Runtime
    used = {entry.name for entry in session.get_inputs()}
    values = session.run(list(outputs), {name: array for name, array in feeds.items() if name in used})
    return dict(zip(outputs, values, strict=True))


def reference(model: onnx.ModelProto, outputs: Sequence[str], feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Run on the reference implementation that comes with the `onnx` package."""
    session = ReferenceEvaluator(model, new_ops=EXACT_OPS)
    return dict(zip(outputs, session.run(list(outputs), dict(feeds)), strict=True))
