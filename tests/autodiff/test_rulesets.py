"""Rule sets against twins in torch that say detach() where a rule set holds something constant."""

from __future__ import annotations

import io
import math
import warnings
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest

pytest.importorskip("torch")

import torch
from onnx import numpy_helper
from torch import nn

from gradskip_onnx.autodiff import GRADIENT, RULESETS
from gradskip_onnx.errors import MissingRuleError
from gradskip_onnx.graph.rewrite.lower import lower
from gradskip_onnx.operators import Kind, of_kind
from gradskip_onnx.types import Array

from .gradient_models import SEED, differentiate, one_node, run, seen

pytestmark = pytest.mark.torch

CLOSE = 2e-5  # relative, float32 against float64
BATCH, TOKENS, WIDTH, HEADS, CLASSES = 3, 5, 8, 2, 4


class Block(nn.Module):
    """A pre-norm transformer block and a linear head; `hold` decides what is held constant."""

    def __init__(self, bias: bool, hold: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.hold: Any = (lambda x: x.detach()) if hold else (lambda x: x)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias), nn.Linear(WIDTH, WIDTH, bias)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH, bias), nn.Linear(2 * WIDTH, WIDTH, bias)
        self.head = nn.Linear(WIDTH, CLASSES, bias)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH, bias=bias) for _ in range(3))
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.7)

    def norm(self, i: int, x: Any) -> Any:
        layer: Any = self.norms[i]
        if not self.twin:
            return layer(x)
        centred = x - x.mean(-1, keepdim=True)
        spread = self.hold((centred.pow(2).mean(-1, keepdim=True) + layer.eps).sqrt())
        return centred / spread * layer.weight + (0 if layer.bias is None else layer.bias)

    def gelu(self, x: Any) -> Any:
        return x * self.hold(0.5 * (1 + torch.erf(x / math.sqrt(2)))) if self.twin else nn.functional.gelu(x)

    twin = False

    def forward(self, x: Any) -> Any:
        q, k, v = (
            self.qkv(self.norm(0, x)).reshape(-1, TOKENS, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        )
        attention = self.hold((q @ k.transpose(-2, -1) / math.sqrt(WIDTH // HEADS)).softmax(-1))
        x = x + self.out((attention @ v).transpose(1, 2).reshape(-1, TOKENS, WIDTH))
        x = x + self.down(self.gelu(self.up(self.norm(1, x))))
        return self.head(self.norm(2, x)[:, 0])


def exported(block: nn.Module, opset: int) -> onnx.ModelProto:
    file: Any = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter announces its successor
        torch.onnx.export(
            block.eval(), (torch.zeros(BATCH, TOKENS, WIDTH),), file, input_names=["x"], output_names=["y"],
            dynamic_axes={"x": {0: "batch"}}, opset_version=opset, dynamo=False,
        )  # fmt: skip
    return onnx.load_from_string(file.getvalue())


def gradient(model: onnx.ModelProto, ruleset: str, x: Array, seed: Array) -> tuple[Array, Array]:
    """Score-weighted output and gradient at the input, on ONNX Runtime."""
    derived, names = differentiate(model, seen(model, "x", x, x[:2]), ["y"], ["x"], RULESETS[ruleset]())
    got = run(derived, [names["x"]], {"x": x, f"{SEED}/y": seed})[names["x"]]
    return run(model, ["y"], {"x": x})["y"], got


@pytest.mark.parametrize("opset", [13, 14, 17, 18, 20])
@pytest.mark.parametrize("ruleset", ["gradient", "conservative"])
def test_a_transformer_block_agrees_with_torch(ruleset: str, opset: int) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(BATCH, TOKENS, WIDTH)).astype(np.float32)
    seed = rng.normal(size=(BATCH, CLASSES)).astype(np.float32)
    _, got = gradient(exported(Block(bias=True), opset), ruleset, x, seed)
    twin = Block(bias=True, hold=ruleset == "conservative").double()
    twin.twin = True
    leaf = torch.tensor(x).double().requires_grad_()
    (true,) = torch.autograd.grad((twin(leaf) * torch.tensor(seed)).sum(), leaf)
    assert np.abs(got - true.numpy()).max() <= CLOSE * np.abs(true.numpy()).max()


@pytest.mark.parametrize("opset", [14, 17, 20])
def test_conservative_relevance_adds_up_to_the_score(opset: int) -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(BATCH, TOKENS, WIDTH)).astype(np.float32)
    seed = np.eye(CLASSES, dtype=np.float32)[[0, 2, 3]]
    model = exported(Block(bias=False), opset)
    for ruleset, adds_up in (("conservative", True), ("gradient", False)):
        y, got = gradient(model, ruleset, x, seed)
        score, relevance = (y * seed).sum(1), (x * got).sum((1, 2))
        assert np.allclose(score, relevance, rtol=1e-4, atol=1e-4) is adds_up, ruleset


# BatchNormalization has stored statistics: it is linear as it is. Pow may be a root.
NORMS = of_kind(Kind.NORMALISES | Kind.SPREAD) - {"BatchNormalization"} - of_kind(Kind.FUSED) | {"Pow"}
# A power or a sum of squares is a product of x with a function of x; Mul and Div find the gates among their inputs.
GATES = of_kind(Kind.GATE | Kind.SELF_GATED) | {"Mul", "Div", "Pow", "ReduceSumSquare"}
PRODUCTS = {"MatMul", "Gemm", "Einsum", "MatMulInteger"}
CONVOLUTIONS = {"Conv", "ConvInteger"}
CHANGED = {
    "conservative": {"Softmax"} | NORMS | GATES,
    "ah+ln": {"Softmax"} | NORMS,
    "attnlrp": NORMS | GATES | PRODUCTS | CONVOLUTIONS,
    "attnlrp-vit": {"Softmax"} | NORMS | GATES | PRODUCTS | CONVOLUTIONS,
    "pe-lrp": {"Softmax"} | NORMS | GATES | PRODUCTS | CONVOLUTIONS,
}


@pytest.mark.parametrize("ruleset", sorted(set(RULESETS) - {"gradient", "chefer1"}))
def test_an_overlay_changes_nothing_else(ruleset: str) -> None:
    table = RULESETS[ruleset]()
    assert set(table) == set(GRADIENT)
    assert {op for op, rule in table.items() if GRADIENT[op] is not rule} == CHANGED[ruleset]


def test_the_table_of_relevance_has_no_rule_by_accident() -> None:
    """A gradient rule is right for relevance only where values are moved."""
    moved = {op for op, rule in RULESETS["chefer1"]().items() if GRADIENT[op] is rule}
    assert moved <= {
        *("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Tile", "DepthToSpace"),
        *("SpaceToDepth", "Concat", "Split", "Slice", "Pad", "Gather", "GatherElements", "GatherND", "Cast"),
        *("CastLike", "Dropout", "Where", "MaxPool", "GlobalMaxPool", "Trilu"),
    }


def test_what_cannot_be_held_is_refused() -> None:
    x = np.ones((2, 3), np.float32)
    for op in ("Tanh", "Sigmoid", "Erf"):
        model = one_node(op, [x], [False], 1, {}, 18)
        model.graph.node[0].input[0], model.graph.node[0].output[0] = "x", "y"
        model.graph.input[0].name, model.graph.output[0].name = "x", "y"
        with pytest.raises(MissingRuleError, match="gates nothing"):
            gradient(model, "conservative", x, x)


def test_a_gate_is_held_though_it_is_rounded() -> None:
    """x sigmoid(1.7 x), the gate on a grid of 256 steps as in quantised CLIP towers: the slope is the gate."""
    rng = np.random.default_rng(0)
    x, seed = (rng.normal(size=(2, 3)).astype(np.float32) for _ in range(2))
    nodes = [
        onnx.helper.make_node("Mul", ["x", "factor"], ["scaled"]),
        onnx.helper.make_node("Sigmoid", ["scaled"], ["gate"]),
        onnx.helper.make_node("QuantizeLinear", ["gate", "step", "zero"], ["whole"]),
        onnx.helper.make_node("DequantizeLinear", ["whole", "step", "zero"], ["rounded"]),
        onnx.helper.make_node("Mul", ["x", "rounded"], ["y"]),
    ]
    stored = {"factor": np.float32(1.7), "step": np.float32(1 / 255), "zero": np.uint8(0)}
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["b", 3]) for name in ("x", "y")]
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()]
    graph = onnx.helper.make_graph(nodes, "quick", ends[:1], ends[1:], tensors)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    _, got = gradient(model, "conservative", x, seed)
    gate = np.rint(255 / (1 + np.exp(-1.7 * x.astype(np.float64)))) / 255
    np.testing.assert_allclose(got, seed * gate, rtol=CLOSE)


def test_a_gate_is_held_though_an_integer_kernel_makes_it() -> None:
    """x (1 + erf(x)) where 1 is added by QLinearAdd: its rewrite corrects the sum by a step, which is no signal."""
    rng = np.random.default_rng(0)
    x, seed = (rng.normal(size=(2, 3)).astype(np.float32) for _ in range(2))
    grid = ["step", "zero"]
    nodes = [
        onnx.helper.make_node("Erf", ["x"], ["erf"], name="erf"),
        onnx.helper.make_node("QuantizeLinear", ["erf", *grid], ["whole"], name="q"),
        onnx.helper.make_node(
            "QLinearAdd", ["whole", *grid, "one", *grid, *grid], ["sum"], name="add", domain="com.microsoft"
        ),
        onnx.helper.make_node("DequantizeLinear", ["sum", *grid], ["gate"], name="dq"),
        onnx.helper.make_node("Mul", ["x", "gate"], ["y"], name="mul"),
    ]
    stored = {"step": np.float32(1 / 64), "zero": np.uint8(64), "one": np.uint8(128)}
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["b", 3]) for name in ("x", "y")]
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()]
    graph = onnx.helper.make_graph(nodes, "gate", ends[:1], ends[1:], tensors)
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("com.microsoft", 1)]
    fused = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    model = gs.export_onnx(lower(gs.import_onnx(fused), seen(fused, "x", x, x[:1]), 18).graph, do_type_check=False)
    model.ir_version = 8
    gate = run(fused, ["y"], {"x": x})["y"] / x
    for ruleset in ("conservative", "attnlrp", "attnlrp-vit", "pe-lrp"):
        _, got = gradient(model, ruleset, x, seed)
        np.testing.assert_allclose(got, seed * gate, rtol=CLOSE)


def test_the_weights_of_the_export_are_not_copied() -> None:
    model = exported(Block(bias=True), 17)
    x = np.zeros((BATCH, TOKENS, WIDTH), np.float32)
    derived, _ = differentiate(model, seen(model, "x", x, x[:2]), ["y"], ["x"])
    before = sum(numpy_helper.to_array(w).size for w in model.graph.initializer)
    added = sum(numpy_helper.to_array(w).size for w in derived.graph.initializer if w.name.startswith("gradskip/"))
    assert added < before / 10
