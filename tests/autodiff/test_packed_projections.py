"""Queries, keys and values from one product, as exporters write it: float64 against autograd, and the products counted.

With attention held constant, queries and keys get no gradient. Only the columns that make values may be multiplied.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from gradskip_onnx.autodiff import RULESETS
from gradskip_onnx.metrics.flops import count, measured_shapes

from .gradient_models import SEED, differentiate, run, seen

pytestmark = pytest.mark.torch

CLOSE = 1e-12  # of the largest entry: both sides are float64
B, N, D, HEADS = 3, 5, 8, 2
Tensor = Any  # that of torch, whose methods are not typed
Parts = tuple[Tensor, ...]


def heads(x: Tensor) -> Tensor:
    return x.reshape(-1, N, HEADS, D // HEADS).transpose(1, 2)


def reshaped_first(p: Tensor) -> Tensor:
    return p.reshape(-1, N, 3, HEADS, D // HEADS).permute(2, 0, 3, 1, 4)


def in_projection(p: Tensor) -> Parts:
    """As torch.nn.MultiheadAttention, tokens first."""
    q, k, v = p.transpose(0, 1).unflatten(-1, (3, D)).unsqueeze(0).transpose(0, -2).squeeze(-2)
    return heads(q.transpose(0, 1)), heads(k.transpose(0, 1)), heads(v.transpose(0, 1))


# packed (B, N, 3 D) -> queries, keys, values (B, heads, N, D / heads)
SPELLINGS: dict[str, Callable[[Tensor], Parts]] = {
    "reshape, permute, unbind": lambda p: reshaped_first(p).unbind(0),
    "reshape, permute, index": lambda p: (reshaped_first(p)[0], reshaped_first(p)[1], reshaped_first(p)[2]),
    "reshape, index, transpose": lambda p: tuple(
        p.reshape(-1, N, 3, HEADS, D // HEADS)[:, :, i].transpose(1, 2) for i in range(3)
    ),
    "split": lambda p: tuple(heads(part) for part in p.split(D, -1)),
    "chunk": lambda p: tuple(heads(part) for part in p.chunk(3, -1)),
    "slices": lambda p: (heads(p[..., :D]), heads(p[..., D : 2 * D]), heads(p[..., 2 * D :])),
    "MultiheadAttention": in_projection,
}
# The parts of one head lie together, so that those of all values are no single slice: these gradients are padded.
PER_HEAD: dict[str, Callable[[Tensor], Parts]] = {
    "per head": lambda p: p.reshape(-1, N, HEADS, 3 * D // HEADS).transpose(1, 2).chunk(3, -1),
}


class Packed(nn.Module):
    """Attention on (B, N, D); with `hold` its weights are constants."""

    def __init__(self, unpack: Callable[[Tensor], Parts], layer: str, hold: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.unpack, self.layer, self.hold = unpack, layer, hold
        self.qkv = nn.Linear(D, 3 * D, bias=layer != "no bias")

    def project(self, x: Tensor) -> Tensor:
        if self.layer == "Gemm":
            return self.qkv(x.reshape(-1, D)).reshape(-1, N, 3 * D)
        if self.layer == "Conv":
            image = x.transpose(1, 2).unsqueeze(-1)
            found = nn.functional.conv2d(image, self.qkv.weight[:, :, None, None], self.qkv.bias)
            return found.squeeze(-1).transpose(1, 2)
        return self.qkv(x)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.unpack(self.project(x))
        attention = (q @ k.transpose(-2, -1)).softmax(-1)
        if self.hold:
            attention = attention.detach()
        return (attention @ v).transpose(1, 2).reshape(-1, N, D)


def torchscript(module: nn.Module) -> onnx.ModelProto:
    file: Any = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter announces its successor
        torch.onnx.export(
            module, (torch.zeros(B, N, D).double(),), file, input_names=["x"], output_names=["y"],
            dynamic_axes={"x": {0: "batch"}}, opset_version=17, dynamo=False,
        )  # fmt: skip
    return onnx.load_from_string(file.getvalue())


def dynamo(module: nn.Module) -> onnx.ModelProto:
    pytest.importorskip("onnxscript")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            module, (torch.zeros(B, N, D).double(),), opset_version=18, dynamo=True, verbose=False,
            input_names=["x"], output_names=["y"], dynamic_shapes=({0: torch.export.Dim("batch")},),
        )  # fmt: skip
    assert program is not None
    return program.model_proto


def check(unpack: Callable[[Tensor], Parts], layer: str, export: Any, ruleset: str, columns: int) -> None:
    """The gradient at x is that of autograd, and the product back multiplies `columns` columns of the weight."""
    rng = np.random.default_rng(1)
    x, seed = rng.normal(size=(B, N, D)), rng.normal(size=(B, N, D))
    model = export(Packed(unpack, layer).double().eval())
    derived, names = differentiate(model, seen(model, "x", x, x[:2]), ["y"], ["x"], RULESETS[ruleset]())
    feeds = {"x": x, f"{SEED}/y": seed}
    got = run(derived, [names["x"]], feeds)[names["x"]]
    leaf = torch.tensor(x).requires_grad_()
    score = (Packed(unpack, layer, hold=ruleset != "gradient").double()(leaf) * torch.tensor(seed)).sum()
    (true,) = torch.autograd.grad(score, leaf)

    assert np.abs(got - true.numpy()).max() <= CLOSE * np.abs(true.numpy()).max()
    if layer == "Conv":
        assert "Pad" not in {node.op_type for node in derived.graph.node}
        return  # ONNX Runtime has no float64 kernel to measure shapes with
    of_attention = B * N * N * D * (1 if ruleset != "gradient" else 4)
    both, forward = (count(m, measured_shapes(m, None, feeds if m is derived else {"x": x})) for m in (derived, model))
    assert both.total - forward.total == 2 * (B * N * D * columns + of_attention)


@pytest.mark.parametrize("export", [torchscript, pytest.param(dynamo, marks=pytest.mark.slow)])
@pytest.mark.parametrize("layer", ["MatMul", "no bias", "Gemm", "Conv"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_only_the_values_are_multiplied(spelling: str, layer: str, export: Any) -> None:
    check(SPELLINGS[spelling], layer, export, "conservative", columns=D)


@pytest.mark.parametrize("spelling", PER_HEAD)
def test_what_is_no_single_slice_is_padded(spelling: str) -> None:
    check(PER_HEAD[spelling], "MatMul", torchscript, "conservative", columns=3 * D)


@pytest.mark.parametrize("spelling", SPELLINGS | PER_HEAD)
def test_the_true_gradient_reads_all_columns(spelling: str) -> None:
    check((SPELLINGS | PER_HEAD)[spelling], "MatMul", torchscript, "gradient", columns=3 * D)
