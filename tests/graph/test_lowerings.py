"""Each row of the lowering table on its own: the fused operator and what replaces it, side by side in ONNX Runtime."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest
from onnx import TensorProto, helper

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.graph.rewrite.lower import lower, needs_lowering, refuse_hardware
from gradskip_onnx.graph.rewrite.lowerings import LOWERINGS
from gradskip_onnx.runtime.session import open_session
from gradskip_onnx.types import TensorFact

MS = "com.microsoft"
# Fused kernels may approximate erf and tanh and sum in another order.
ROUNDING: dict[str, Any] = {"rtol": 1e-4, "atol": 2e-5}
ONE_STEP = 1  # integer kernels may round to the neighbouring step
KEPT = {"QLinearAdd", "QLinearMatMul"}  # for their integers, beside the plain operators


def floats(*shape: int, seed: int = 0, scale: float = 1.0) -> Any:
    return (scale * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def ints(kind: Any, *shape: int, seed: int = 0) -> Any:
    """int8 stays within 7 bits: products of full-range uint8 and int8 saturate on processors without VNNI."""
    low, high = (-64, 63) if kind == np.int8 else (np.iinfo(kind).min, np.iinfo(kind).max)
    return np.random.default_rng(seed).integers(low, high, shape, endpoint=True).astype(kind)


U8, I8 = np.uint8, np.int8
f32 = np.float32
A, B, C = (U8, ints(U8, 2, 5, 8)), (I8, ints(I8, 8, 6, seed=1)), (U8, ints(U8, 2, 5, 8, seed=2))


@dataclass(frozen=True)
class Case:
    """A fused node: `feeds` are graph inputs, `fixed` constants; an input "" is left out."""

    op: str
    inputs: tuple[str, ...]
    feeds: dict[str, Any]
    fixed: dict[str, Any] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    domain: str = MS
    outputs: tuple[str, ...] = ("y",)
    opset: int = 21


X, HEADS = floats(2, 5, 8), {"num_heads": 2}
SCALES = {"s": f32(0.03), "z": U8(120), "t": f32(0.02), "i": I8(3), "u": f32(0.05), "o": U8(131)}
QKV = {"q": floats(2, 2, 5, 4), "k": floats(2, 2, 7, 4, seed=1), "v": floats(2, 2, 7, 4, seed=2)}
FLAT = {"q": floats(2, 5, 8), "k": floats(2, 7, 8, seed=1), "v": floats(2, 7, 8, seed=2)}
PICTURE, KERNEL = floats(1, 3, 8, 8), floats(4, 3, 3, 3, seed=3, scale=0.3)
PADS = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}

CASES = {
    "Gelu": Case("Gelu", ("x",), {"x": X}),
    "BiasGelu": Case("BiasGelu", ("x", "b"), {"x": X}, {"b": floats(8, seed=5)}),
    "FastGelu": Case("FastGelu", ("x", "b"), {"x": X}, {"b": floats(8, seed=5)}),
    "FastGelu without bias": Case("FastGelu", ("x",), {"x": X}),
    "QuickGelu": Case("QuickGelu", ("x",), {"x": X}, attrs={"alpha": 1.702}),
    "FusedMatMul": Case(
        "FusedMatMul", ("a", "b"), {"a": floats(2, 8, 5), "b": floats(2, 6, 8, seed=1)},
        attrs={"alpha": 0.3, "transA": 1, "transB": 1},
    ),
    "FusedMatMul with weights": Case("FusedMatMul", ("x", "w"), {"x": X}, {"w": floats(8, 6)}),
    "FusedGemm": Case(
        "FusedGemm", ("a", "b", "c"), {"a": floats(5, 8)}, {"b": floats(6, 8), "c": floats(6)},
        {"transB": 1, "alpha": 0.5, "activation": "LeakyRelu", "activation_alpha": 0.2},
    ),
    "FusedConv": Case(
        "FusedConv", ("x", "w", "b"), {"x": PICTURE}, {"w": KERNEL, "b": floats(4)}, {**PADS, "activation": "Relu"}
    ),
    "FusedConv with sum": Case(
        "FusedConv", ("x", "w", "b", "z"), {"x": PICTURE, "z": floats(1, 4, 8, 8, seed=4)},
        {"w": KERNEL, "b": floats(4)}, PADS,
    ),
    "FusedConv clipped": Case(
        "FusedConv", ("x", "w"), {"x": PICTURE}, {"w": KERNEL},
        {**PADS, "activation": "Clip", "activation_params": [-0.5, 0.5]},
    ),
    "SkipLayerNormalization": Case(
        "SkipLayerNormalization", ("x", "s", "g", "b", "e"), {"x": X, "s": floats(2, 5, 8, seed=1)},
        {"g": floats(8), "b": floats(8, seed=2), "e": floats(8, seed=3)}, {"epsilon": 1e-6},
        outputs=("y", "", "", "sum"),
    ),
    "SkipLayerNormalization, short": Case(
        "SkipLayerNormalization", ("x", "s", "g"), {"x": X, "s": floats(2, 5, 8, seed=1)}, {"g": floats(8)}
    ),
    "SkipSimplifiedLayerNormalization": Case(
        "SkipSimplifiedLayerNormalization", ("x", "s", "g"), {"x": X, "s": floats(2, 5, 8, seed=1)}, {"g": floats(8)},
        outputs=("y", "", "", "sum"),
    ),
    "SimplifiedLayerNormalization": Case(
        "SimplifiedLayerNormalization", ("x", "g"), {"x": X}, {"g": floats(8)}, {"axis": -1, "epsilon": 1e-5}, domain=""
    ),
    "SimplifiedLayerNormalization, opset 17": Case(
        "SimplifiedLayerNormalization", ("x", "g"), {"x": X}, {"g": floats(8)}, {"axis": -1, "epsilon": 1e-5},
        domain="", opset=17,
    ),
    "Attention": Case("Attention", ("x", "w", "b"), {"x": X}, {"w": floats(8, 24), "b": floats(24, seed=1)}, HEADS),
    "Attention with bias on scores": Case(
        "Attention", ("x", "w", "b", "", "", "m"), {"x": X, "m": floats(1, 2, 5, 5)},
        {"w": floats(8, 24), "b": floats(24, seed=1)}, {**HEADS, "scale": 0.7},
    ),
    "MultiHeadAttention": Case("MultiHeadAttention", ("q", "k", "v", "b"), FLAT, {"b": floats(24)}, HEADS),
    "MultiHeadAttention, rank 4": Case("MultiHeadAttention", ("q", "k", "v"), {**QKV, "q": FLAT["q"]}, {}, HEADS),
    "native Attention": Case("Attention", ("q", "k", "v"), QKV, domain="", opset=23),
    "native Attention, flat": Case(
        "Attention", ("q", "k", "v"), FLAT, {}, {"q_num_heads": 2, "kv_num_heads": 2, "scale": 0.4}, "", ("y",), 23
    ),
    "native Attention, float mask": Case(
        "Attention", ("q", "k", "v", "m"), QKV, {"m": floats(5, 7)}, domain="", opset=23
    ),
    "native Attention, bool mask": Case(
        "Attention", ("q", "k", "v", "m"), QKV, {"m": np.tril(np.ones((5, 7), bool), 3)}, domain="", opset=23
    ),
    "QLinearMatMul": Case(
        "QLinearMatMul", ("a", "s", "z", "b", "t", "i", "u", "o"), {"a": A[1]}, {**SCALES, "b": B[1]}, domain=""
    ),
    "QLinearConv": Case(
        "QLinearConv", ("x", "s", "z", "w", "t", "i", "u", "o", "b"), {"x": ints(U8, 1, 3, 8, 8)},
        {**SCALES, "w": ints(I8, 4, 3, 3, 3), "t": np.array([0.02, 0.01, 0.03, 0.02], f32), "i": np.zeros(4, I8),
         "b": np.array([100, -50, 3, 9], np.int32)}, PADS, "",
    ),
    "QGemm": Case(
        "QGemm", ("a", "s", "z", "b", "t", "i", "c", "u", "o"), {"a": ints(U8, 5, 8)},
        {**SCALES, "b": ints(I8, 6, 8), "c": np.arange(6, dtype=np.int32)}, {"transB": 1},
    ),
    "QGemm with a scale for each column": Case(
        "QGemm", ("a", "s", "z", "b", "t", "i", "c", "u", "o"), {"a": ints(U8, 5, 8)},
        {**SCALES, "b": ints(I8, 6, 8), "t": np.linspace(0.01, 0.03, 6, dtype=f32), "i": np.zeros(6, I8),
         "c": np.arange(6, dtype=np.int32)}, {"transB": 1},
    ),
    "QGemm to float": Case(
        "QGemm", ("a", "s", "z", "b", "t", "i"), {"a": ints(U8, 5, 8)}, {**SCALES, "b": ints(I8, 6, 8)}, {"transB": 1}
    ),
    "QLinearAdd": Case("QLinearAdd", ("a", "s", "z", "c", "t", "z", "u", "o"), {"a": A[1], "c": C[1]}, SCALES),
    "QLinearMul": Case("QLinearMul", ("a", "s", "z", "c", "t", "z", "u", "o"), {"a": A[1], "c": C[1]}, SCALES),
    "QLinearSigmoid": Case("QLinearSigmoid", ("a", "s", "z", "t", "z"), {"a": A[1]}, SCALES),
    "QLinearLeakyRelu": Case("QLinearLeakyRelu", ("a", "s", "z", "t", "z"), {"a": A[1]}, SCALES, {"alpha": 0.1}),
    "QLinearAveragePool": Case(
        "QLinearAveragePool", ("x", "s", "z", "t", "o"), {"x": ints(U8, 1, 3, 8, 8)}, SCALES,
        {"kernel_shape": [2, 2], "strides": [2, 2]},
    ),
    "QLinearGlobalAveragePool": Case(
        "QLinearGlobalAveragePool", ("x", "s", "z", "t", "o"), {"x": ints(U8, 1, 3, 8, 8)}, SCALES, {"channels_last": 0}
    ),
    "QLinearSoftmax": Case(
        "QLinearSoftmax", ("a", "s", "z", "p", "n"), {"a": A[1]}, {**SCALES, "p": f32(1 / 256), "n": U8(0)},
        {"axis": -1, "opset": 13},
    ),
    "QLinearConcat": Case(
        "QLinearConcat", ("u", "o", "a", "s", "z", "c", "t", "z"), {"a": A[1], "c": C[1]}, SCALES, {"axis": 1}
    ),
    "DequantizeLinear": Case("DequantizeLinear", ("a", "s", "z"), {"a": A[1]}, SCALES),
    "QuantizeLinear": Case("QuantizeLinear", ("x", "s", "z"), {"x": X}, SCALES),
    "MatMulIntegerToFloat": Case(
        "MatMulIntegerToFloat", ("a", "b", "s", "t", "z", "i", "c"), {"a": A[1]}, {**SCALES, "b": B[1], "c": floats(6)}
    ),
    "DynamicQuantizeMatMul": Case(
        "DynamicQuantizeMatMul", ("x", "b", "t", "i", "c"), {"x": X}, {**SCALES, "b": B[1], "c": floats(6)}
    ),
    "QAttention": Case(
        "QAttention", ("x", "w", "b", "s", "t", "", "z", "i"), {"x": ints(U8, 2, 5, 8)},
        {**SCALES, "w": ints(I8, 8, 24), "b": floats(24), "t": f32(0.002)}, HEADS,
    ),
    "MatMulNBits": Case(
        "MatMulNBits", ("x", "w", "s"), {"x": floats(2, 32)}, {"w": ints(U8, 6, 2, 8), "s": floats(12, scale=0.1)},
        {"K": 32, "N": 6, "bits": 4, "block_size": 16},
    ),
    "MatMulNBits with zero points": Case(
        "MatMulNBits", ("x", "w", "s", "z"), {"x": floats(2, 40)},
        {"w": ints(U8, 6, 3, 8), "s": floats(18, scale=0.1), "z": ints(U8, 12)},
        {"K": 40, "N": 6, "bits": 4, "block_size": 16},
    ),
}  # fmt: skip
# ONNX Runtime has no CPU kernel for these; on a GPU the proof inside `read` still compares them.
NO_KERNEL = {(MS, "QLinearReduceMean"), (MS, "TransposeMatMul"), (MS, "BiasSoftmax")}


def graph_of(case: Case) -> gs.Graph:
    kinds = {name: helper.np_dtype_to_tensor_dtype(np.asarray(value).dtype) for name, value in case.feeds.items()}
    node = helper.make_node(case.op, case.inputs, case.outputs, name="fused", domain=case.domain, **case.attrs)
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info(name, kinds[name], value.shape) for name, value in case.feeds.items()],
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in case.outputs if name],
        [
            onnx.numpy_helper.from_array(np.asarray(case.fixed[n]), n)
            for n in dict.fromkeys(case.inputs)
            if n in case.fixed
        ],
    )
    opsets = [helper.make_opsetid("", case.opset), helper.make_opsetid(MS, 1)]
    return gs.import_onnx(helper.make_model(graph, opset_imports=opsets, ir_version=10))


def run(graph: gs.Graph, feeds: dict[str, Any], optimise: bool = False) -> dict[str, Any]:
    model = gs.export_onnx(graph, do_type_check=False)
    names = [output.name for output in model.graph.output]
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return open_session(model, device="cpu", optimise=optimise).run(names, feeds)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_row_equals_the_fused_operator(case: Case):
    graph = graph_of(case)
    facts = {name: TensorFact(value.shape, value.dtype) for name, value in case.feeds.items()}
    assert needs_lowering(graph)
    lowered = lower(graph, facts, case.opset)
    fused, plain = run(graph, case.feeds), run(lowered.graph, case.feeds)

    assert not {node.domain for node in lowered.graph.nodes if node.op not in KEPT} - {None, "", "ai.onnx"}
    assert case.op not in {node.op for node in lowered.graph.nodes} - KEPT or case.domain == MS
    allowed = 0 if case.op in KEPT else ONE_STEP
    for name in fused:
        if fused[name].dtype.kind in "iu":
            assert np.abs(fused[name].astype(int) - plain[name].astype(int)).max() <= allowed
            assert np.ptp(fused[name]) > 5 * ONE_STEP  # a saturated output would agree with anything
        else:
            np.testing.assert_allclose(plain[name], fused[name], **ROUNDING)


@pytest.mark.parametrize("swapped", [False, True])
def test_the_bias_of_a_skip_belongs_to_the_branch(swapped: bool):
    """The sum that a fused norm shows must be the residual add itself: stream + (branch + bias)."""
    stream, branch, total, normed = (gs.Variable(name, np.float32, (2, 5, 8)) for name in ("x", "f", "sum", "y"))
    bias, gain = gs.Constant("e", floats(8)), gs.Constant("g", floats(8))
    none = gs.Variable.empty()
    order = [stream, branch] if swapped else [branch, stream]
    graph = gs.Graph(
        nodes=[
            gs.Node("Erf", "f", inputs=[stream], outputs=[branch]),
            gs.Node(
                "SkipLayerNormalization", "fused", {"epsilon": 1e-6}, [*order, gain, none, bias],
                [normed, none, none, total], domain=MS,
            ),
        ],
        inputs=[stream],
        outputs=[normed, total],
        opset=17,
    )  # fmt: skip
    facts = {name: TensorFact((2, 5, 8), np.dtype(np.float32)) for name in ("x", "f")}
    (maker,) = lower(graph, facts, 17).graph.tensors()["sum"].inputs

    assert "x" in {tensor.name for tensor in maker.inputs}


def test_every_row_is_tested():
    tested = {(case.domain, case.op) for case in CASES.values()}

    assert set(LOWERINGS) - tested == NO_KERNEL


UNSUPPORTED = {
    "causal": Case("Attention", ("q", "k", "v"), QKV, {}, {"is_causal": 1}, "", ("y",), 23),
    "soft cap": Case("Attention", ("q", "k", "v"), QKV, {}, {"softcap": 3.0}, "", ("y",), 23),
    "activation": Case("FusedGemm", ("a", "b"), {"a": floats(5, 8)}, {"b": floats(8, 6)}, {"activation": "Selu"}),
}


def test_sums_of_quantised_tensors_keep_the_integers_of_the_kernel():
    """With steps of 1, 1 and 2 every second sum is a tie; all pairs of bytes are summed.

    ONNX Runtime runs what the sum is rewritten to by the kernel of the file.
    """
    pairs = {"a": np.arange(256, dtype=U8).repeat(256), "c": np.tile(np.arange(256, dtype=U8), 256)}
    grids = {"s": f32(0.07), "z": U8(101), "u": f32(0.14), "o": U8(55)}
    case = Case("QLinearAdd", ("a", "s", "z", "c", "s", "z", "u", "o"), pairs, grids)
    graph = graph_of(case)
    lowered = lower(graph, {name: TensorFact(value.shape, value.dtype) for name, value in pairs.items()}, case.opset)

    np.testing.assert_array_equal(run(lowered.graph, pairs, optimise=True)["y"], run(graph, pairs)["y"])


@pytest.mark.parametrize("case", UNSUPPORTED.values(), ids=UNSUPPORTED.keys())
def test_forms_without_a_rule_are_refused(case: Case):
    facts = {name: TensorFact(value.shape, value.dtype) for name, value in case.feeds.items()}
    with pytest.raises(UnsupportedModelError) as refusal:
        lower(graph_of(case), facts, case.opset)
    assert refusal.value.code == "fused-form"


def test_hardware_specific_files_are_refused():
    graph = gs.Graph(nodes=[gs.Node("Conv", "blocked", domain="com.microsoft.nchwc")])
    with pytest.raises(UnsupportedModelError) as refusal:
        refuse_hardware(graph)
    assert refusal.value.code == "hardware-specific"
