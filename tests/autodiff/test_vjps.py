"""Every gradient rule against torch float64 autograd, over shapes, attributes, broadcasting, opsets and types."""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np
import onnx
import pytest

pytest.importorskip("torch")

import torch

from gradskip_onnx.autodiff import GRADIENT, Sym
from gradskip_onnx.autodiff.rules.table import NOTES, Gradient
from gradskip_onnx.autodiff.rules.vjps import ZERO
from gradskip_onnx.types import Array

from . import vjp_cases_layout  # noqa: F401  (adds its rows to CASES)
from .gradient_models import SEED, differentiate, fact, one_node, run
from .quantised_chains import QUANTISED_OPS
from .vjp_cases import CASES, Case, I, X

pytestmark = pytest.mark.torch

# Largest difference allowed, relative to the largest entry of the true gradient.
EXACT = 1e-9  # float64
ROUNDED = 2e-7  # float64, but ONNX stores the factors of this operator (slope, epsilon, 1/sqrt 2) as float32
MATRICES = 5e-6  # float64, but ONNX Runtime computes the weights of Resize in float32
SINGLE = 2e-5  # float32: products and exponentials of a few dozen terms
HALF = 2e-2  # float16 keeps eleven bits, and forward values are rounded too

ROUNDED_BODIES = {"Gelu", "HardSwish"}  # float32 factors inside the function that defines them
NO_DOUBLE = {"MeanVarianceNormalization"}  # float64 is allowed, but neither runtime computes it
ZERO_OPS = {op for op, note in NOTES.items() if note == ZERO}
WIDENED = {"LayerNormalization"}  # statistics of half precision are taken in float32, as the operator does

HALF_OPS = {
    *("Add", "Sub", "Mul", "Div", "Pow", "Sqrt", "ReduceMean", "Erf", "MatMul", "Gemm", "Softmax", "Split", "Squeeze"),
    *("Reshape", "Transpose", "Gather", "Conv", "Resize", "Concat", "Relu", "LayerNormalization", "Gelu", "Slice"),
    "Tanh",
}


def kernels(case: Case) -> int:
    """How many kernels a convolution has."""
    kernel = case.inputs[1]
    assert isinstance(kernel, X)
    return kernel.dims[0]


def double_tolerance(case: Case) -> float | None:
    """What float64 can reach for this operator, or None if nothing can run it in float64."""
    schema = onnx.defs.get_schema(case.op, case.opsets[-1])
    if "tensor(double)" not in schema.inputs[-1].types | schema.inputs[0].types or case.op in NO_DOUBLE:
        return None
    if case.op in ("Conv", "ConvTranspose") and case.attrs.get("group", 1) not in (1, kernels(case)):
        return None  # no float64 kernel, and the reference cannot transpose a convolution in groups of several channels
    if case.op == "Resize":
        return MATRICES
    rounded = any(a.type == onnx.defs.OpSchema.AttrType.FLOAT for a in schema.attributes.values())
    return ROUNDED if rounded or case.op in ROUNDED_BODIES else EXACT


ROWS = [pytest.param(case, opset, id=f"{case.op}-{i}-{opset}") for i, case in enumerate(CASES) for opset in case.opsets]
NAMED = [(case, f"{case.op}-{i}") for i, case in enumerate(CASES)]
DOUBLE = [pytest.param(case, id=name) for case, name in NAMED if double_tolerance(case) is not None]
HALVES = [pytest.param(case, id=name) for case, name in NAMED if case.op in HALF_OPS]


def values(case: Case, dtype: type) -> list[Array | None]:
    """Inputs with a seed of their own, so that a case does not change when another is added."""
    rng = np.random.default_rng(zlib.crc32(repr((case.op, case.inputs, sorted(case.attrs))).encode()))
    arrays: list[Array | None] = []
    for entry in case.inputs:
        if isinstance(entry, X):
            arrays.append(np.asarray(rng.uniform(entry.low, entry.high, entry.dims), dtype))
        elif isinstance(entry, I):
            # scales of Resize and the ratio of Dropout are float32 whatever the image is
            follows = entry.dtype is np.float32 and case.op not in ("Resize", "Dropout")
            arrays.append(np.asarray(entry.value, dtype=dtype if follows else entry.dtype))
        else:
            arrays.append(None)
    return arrays


def differentiable(entry: X | I | None) -> bool:
    return (isinstance(entry, X) and not entry.fixed) or (
        isinstance(entry, I) and entry.dtype is np.float32 and not entry.fixed
    )


def oracle(case: Case, arrays: list[Array | None], upstream: list[Array]) -> tuple[list[Array], dict[str, Array]]:
    """Forward values and gradients from torch, in float64 whatever the model computes in."""
    tensors = []
    for entry, array in zip(case.inputs, arrays, strict=True):
        tensor = None if array is None else torch.tensor(array)
        if tensor is not None and tensor.is_floating_point():
            tensor = tensor.double().requires_grad_(differentiable(entry))
        tensors.append(tensor)
    outputs = case.oracle(*tensors)
    outputs = list(outputs) if isinstance(outputs, tuple | list) else [outputs]
    score = sum((y * torch.tensor(v).double()).sum() for y, v in zip(outputs, upstream, strict=True))
    wanted = {f"x{i}": t for i, t in enumerate(tensors) if t is not None and t.requires_grad}
    gradients = torch.autograd.grad(score, list(wanted.values()), allow_unused=True) if score.requires_grad else []
    zeros = {name: np.zeros(t.shape) for name, t in wanted.items()}
    found = {name: g.numpy() for name, g in zip(wanted, gradients, strict=False) if g is not None}
    return [y.detach().numpy() for y in outputs], zeros | found


def derive(
    case: Case, opset: int, dtype: type, dynamic: bool
) -> tuple[onnx.ModelProto, dict[str, str], dict[str, Array], dict[str, Array]]:
    """The model of a case with its gradients, their names, the inputs and the forward values."""
    arrays = values(case, dtype)
    fixed = [entry is not None and not differentiable(entry) and entry.fixed for entry in case.inputs]
    model = one_node(case.op, arrays, fixed, case.outputs, case.attrs, opset)
    feeds = {f"x{i}": a for i, (a, f) in enumerate(zip(arrays, fixed, strict=True)) if a is not None and not f}
    names = [f"y{i}" for i in range(case.outputs)]
    forward = run(model, names, feeds)
    facts = {name: fact(array, dynamic) for name, array in (feeds | forward).items()}
    at = [f"x{i}" for i, entry in enumerate(case.inputs) if differentiable(entry)]
    return *differentiate(model, facts, names, at), feeds, forward


def check(case: Case, opset: int, dtype: type, tolerance: float, dynamic: bool) -> onnx.ModelProto:
    derived, outputs, feeds, forward = derive(case, opset, dtype, dynamic)
    if not onnx.defs.get_schema(case.op, opset).deprecated:
        onnx.checker.check_model(derived)
    rng = np.random.default_rng(1)
    upstream = {name: np.asarray(rng.uniform(-1, 1, y.shape), y.dtype) for name, y in forward.items()}
    got = run(derived, list(outputs.values()), feeds | {f"{SEED}/{name}": v for name, v in upstream.items()})
    truth, expected = oracle(case, values(case, dtype), list(upstream.values()))
    for (name, y), true in zip(forward.items(), truth, strict=True):
        assert_close(y, true, tolerance, f"forward {name}: the oracle is not this operator")
    for name, output in outputs.items():
        assert got[output].dtype == feeds[name].dtype
        assert_close(got[output], expected[name], tolerance, f"gradient of {name}")
    return derived


def assert_close(got: Array, expected: Array, tolerance: float, what: str) -> None:
    assert got.shape == expected.shape, f"{what}: shape {got.shape}, expected {expected.shape}"
    error = np.abs(got - expected).max(initial=0) / max(1.0, np.abs(expected).max(initial=0))
    assert error <= tolerance, f"{what}: relative error {error:.2e} > {tolerance:.0e}"


@pytest.mark.parametrize(("case", "opset"), ROWS)
def test_gradient_in_single_precision_on_onnx_runtime(case: Case, opset: int) -> None:
    check(case, opset, np.float32, SINGLE, dynamic=case.dynamic)


@pytest.mark.parametrize("case", DOUBLE)
def test_gradient_in_double_precision_with_fixed_shapes(case: Case) -> None:
    tolerance = double_tolerance(case)
    assert tolerance is not None
    check(case, case.opsets[-1], np.float64, SINGLE if case.op == "Cast" else tolerance, dynamic=False)


@pytest.mark.parametrize("case", HALVES)
def test_gradient_in_half_precision_for_the_operators_of_transformers(case: Case) -> None:
    derived = check(case, case.opsets[-1], np.float16, HALF, dynamic=True)
    if case.op in WIDENED:
        return
    wide = {onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE}
    assert not [w.name for w in derived.graph.initializer if w.data_type in wide and w.name.startswith("gradskip/")]


def test_every_rule_has_a_case() -> None:
    assert set(GRADIENT) - {case.op for case in CASES} == QUANTISED_OPS  # these have chains of their own


@pytest.mark.parametrize("op", sorted(set(GRADIENT) - ZERO_OPS - QUANTISED_OPS))
def test_a_rule_that_is_one_percent_off_is_noticed(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    true = GRADIENT[op]

    def off(g: Gradient) -> Gradient:
        return g * 1.01 if isinstance(g, Sym) else g and replace(g, part=g.part * 1.01)

    monkeypatch.setitem(GRADIENT, op, lambda *args: tuple(off(g) for g in true(*args)))
    case = next(case for case in CASES if case.op == op)
    with pytest.raises(AssertionError, match="gradient of"):
        check(case, case.opsets[0], np.float32, SINGLE, case.dynamic)


def test_no_weight_is_copied() -> None:
    case = next(c for c in CASES if c.op == "MatMul" and c.inputs[1] == X((3, 4), fixed=True))
    derived = check(case, 18, np.float32, SINGLE, dynamic=True)
    assert sum(np.prod(w.dims) for w in derived.graph.initializer if w.data_type == onnx.TensorProto.FLOAT) == 12
