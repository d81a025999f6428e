"""Gradients through quantised tensors against torch, where rounding is the identity backwards and rounding forwards."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from gradskip_onnx.autodiff import GRADIENT, Sym
from gradskip_onnx.types import Array

from .gradient_models import SEED, differentiate, run, seen
from .quantised_chains import CHAINS, OPSETS, QUANTISED_OPS, Chain

pytestmark = pytest.mark.torch

SINGLE = 2e-5  # float32 sums; integer products are exact
STEP = 1e-5  # forward values on the same grid, one rounding apart at most


def check(chain: Chain, opset: int) -> None:
    x: Array = np.asarray(np.random.default_rng(5).standard_normal(chain.dims), np.float32)
    model = chain.model(opset)
    facts = seen(model, "x", x, np.concatenate([x, x[:3]]))
    derived, names = differentiate(model, facts, ["y"], ["x"])
    name = names["x"]
    y = run(model, ["y"], {"x": x})["y"]
    upstream: Array = np.asarray(np.random.default_rng(6).standard_normal(y.shape), np.float32)
    ours = run(derived, [name], {"x": x, f"{SEED}/y": upstream})[name]
    real = torch.tensor(x).double().requires_grad_()
    truth = chain.oracle(real)
    (expected,) = torch.autograd.grad((truth * torch.tensor(upstream)).sum(), real)

    assert_close(y, truth.detach().numpy(), STEP, "forward")
    assert ours.dtype == np.float32
    assert_close(ours, expected.numpy(), SINGLE, "gradient")


def assert_close(got: Array, expected: Array, tolerance: float, what: str) -> None:
    error = np.abs(got - expected).max() / np.abs(expected).max()
    assert error <= tolerance, f"{what}: relative error {error:.2e} > {tolerance:.0e}"


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS.keys())
def test_rounding_is_taken_straight_through(chain: Chain, opset: int) -> None:
    check(chain, opset)


@pytest.mark.parametrize("op", sorted(QUANTISED_OPS))
def test_a_rule_that_is_one_percent_off_is_noticed(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    true = GRADIENT[op]
    monkeypatch.setitem(GRADIENT, op, lambda *args: tuple(g * 1.01 if isinstance(g, Sym) else g for g in true(*args)))
    with pytest.raises(AssertionError, match="gradient"):
        check(next(chain for chain in CHAINS.values() if op in chain.ops), 17)
