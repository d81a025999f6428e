"""The operator test models that ship inside the `onnx` package, judged by finite differences."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.types import Array

from .gradient_models import EXACT_OPS, SEED, differentiate, fact, run

STEP = 1e-5  # central differences in float64: truncation and rounding both below 1e-8
DIRECTIONS = 3
AGREE = 2e-4  # relative; the gradient is computed in float32 by ONNX Runtime
KINK = 1e-3  # relative difference of the two one-sided slopes where the function has a corner
JUMP = 0.05  # a change over one step that only a discontinuity can make
MANY = 20_000  # elements; the reference implementation is slow


SETTINGS = {"Resize": (1, 2), "Dropout": (1,), "Conv": (1,), "ConvTranspose": (1,)}  # float inputs without gradient
FIRST_OUTPUT = ("LayerNormalization", "BatchNormalization")  # the other outputs are statistics


@dataclass(frozen=True)
class Verdict:
    """What came out for one model: "agrees", "differs" or the reason why it was not compared."""

    name: str
    outcome: str
    detail: str = ""


def models() -> list[tuple[str, onnx.ModelProto, dict[str, Array]]]:
    """Name, model and inputs of every shipped operator test whose inputs are plain tensors of a usable opset."""
    from onnx.backend.test.loader import load_node_model_tests

    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the generators overflow and divide by zero on purpose
        tests = load_node_model_tests()
    for test in tests:
        if test.model is None:
            continue
        opset = {entry.domain or "ai.onnx": entry.version for entry in test.model.opset_import}
        inputs = test.data_sets[0][0] if test.data_sets else []
        if set(opset) == {"ai.onnx"} and opset["ai.onnx"] >= 13 and all(isinstance(x, np.ndarray) for x in inputs):
            names = [entry.name for entry in test.model.graph.input]
            found.append((test.name, *with_settings(test.model, dict(zip(names, inputs, strict=False)))))
    return found


def with_settings(model: onnx.ModelProto, feeds: dict[str, Array]) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The model with axes, indices, scales and kernels stored in it, as an exporter would; and the other inputs."""
    settings = {name for name, array in feeds.items() if array.dtype != np.float32}
    for node in model.graph.node:
        settings |= {node.input[i] for i in SETTINGS.get(node.op_type, ()) if i < len(node.input)}
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    del changed.graph.input[:]
    changed.graph.input.extend(entry for entry in model.graph.input if entry.name not in settings)
    changed.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(feeds[name]), name) for name in feeds if name in settings
    )
    return changed, {name: array for name, array in feeds.items() if name not in settings}


def judge(name: str, model: onnx.ModelProto, feeds: Mapping[str, Array]) -> Verdict:
    """Compare v^T J u from the gradient graph with central differences along random directions u."""
    at = [key for key, array in feeds.items() if array.size]
    if not at:
        return Verdict(name, "no float32 input")
    if sum(array.size for array in feeds.values()) > MANY:
        return Verdict(name, "too large")
    try:
        seen = {key: x for key, x in everything(model, feeds).items() if isinstance(x, np.ndarray | np.generic)}
    except (RuntimeError, NotImplementedError, TypeError, ValueError, KeyError, IndexError, AttributeError) as failure:
        return Verdict(name, "the reference cannot run it", repr(failure)[:80])
    facts = {key: fact(np.asarray(x), dynamic=False) for key, x in seen.items()}
    of = [y.name for y in model.graph.output if y.name in seen and np.asarray(seen[y.name]).dtype == np.float32]
    of = of[:1] if any(node.op_type in FIRST_OUTPUT for node in model.graph.node) else of
    if not of:
        return Verdict(name, "no float32 output")
    try:
        derived, outputs = differentiate(model, facts, of, at)
    except UnsupportedModelError as refusal:
        return Verdict(name, f"refused [{refusal.code}]", str(refusal))
    if not outputs:
        return Verdict(name, "the output does not depend on a float32 input")
    return compare(name, model, derived, outputs, feeds, {y: np.asarray(seen[y]) for y in of})


def everything(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    session = ReferenceEvaluator(model, new_ops=EXACT_OPS)
    return dict(session.run(None, dict(feeds), intermediate=True))


def compare(
    name: str,
    model: onnx.ModelProto,
    derived: onnx.ModelProto,
    outputs: Mapping[str, str],
    feeds: Mapping[str, Array],
    values: Mapping[str, Array],
) -> Verdict:
    rng = np.random.default_rng(0)
    upstream = {f"{SEED}/{y}": np.asarray(rng.uniform(-1, 1, a.shape), np.float32) for y, a in values.items()}
    gradients = run(derived, list(outputs.values()), {**feeds, **upstream})
    double = as_double(model)

    def score(moved: Mapping[str, Array]) -> float:
        wide = {key: x.astype(np.float64) for key, x in {**feeds, **moved}.items()}
        found = ReferenceEvaluator(double, new_ops=EXACT_OPS).run(list(values), wide)
        return float(sum((y * upstream[f"{SEED}/{key}"]).sum() for key, y in zip(values, found, strict=True)))

    worst = 0.0
    for _ in range(DIRECTIONS):
        u = {key: rng.uniform(-1, 1, feeds[key].shape) for key in outputs}
        try:
            ahead, here, behind = (score({key: feeds[key] + t * u[key] for key in u}) for t in (STEP, 0.0, -STEP))
        except (RuntimeError, NotImplementedError, TypeError, ValueError) as failure:
            return Verdict(name, "the reference cannot run it in float64", repr(failure)[:80])
        slope = (ahead - behind) / (2 * STEP)
        size = max(1.0, abs(slope))
        if not np.isfinite([ahead, here, behind]).all() or abs(ahead - behind) > JUMP:
            return Verdict(name, "not smooth at the data")
        if abs(ahead - 2 * here + behind) / STEP > KINK * size:
            return Verdict(name, "not smooth at the data")
        ours = sum(float((gradients[outputs[key]].astype(np.float64) * u[key]).sum()) for key in outputs)
        worst = max(worst, abs(ours - slope) / size)
    return Verdict(name, "agrees" if worst <= AGREE else "differs", f"{worst:.1e}")


def as_double(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model over float64: types, stored values and casts."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for entry in (*wide.graph.input, *wide.graph.output):
        if entry.type.tensor_type.elem_type == TensorProto.FLOAT:
            entry.type.tensor_type.elem_type = TensorProto.DOUBLE
    stored = [*wide.graph.initializer]
    for node in wide.graph.node:
        for attribute in node.attribute:
            if attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE
            if attribute.type == onnx.AttributeProto.TENSOR:
                stored.append(attribute.t)
    for tensor in stored:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
    return wide
