"""Files as people have them: fixed batches, optimised by ONNX Runtime, old opsets, open batches that are not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import version_converter
from PIL import Image

import gradskip_onnx
from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.graph.rewrite.lower import HARDWARE
from gradskip_onnx.types import Array
from tests.support.command_line import fails, run
from tests.support.models import Vit, segmenter, vit
from tests.support.optimised_files import optimised

FIXTURES = Path(__file__).parent.parent / "fixtures"
LEVELS = ("BASIC", "EXTENDED", "ALL")
READERS = ("Add", "LayerNormalization")  # of the residual stream
ROUNDING = 1e-4


def explain(model: onnx.ModelProto, **options: Any) -> Array:
    """The relevance of class 1 for a fixed image, by the method of the paper."""
    explainer = gradskip_onnx.load(model.SerializeToString(), cache=False, **options)
    images = np.random.default_rng(4).standard_normal((1, *explainer.architecture.input_dims)).astype(np.float32)
    (result,) = explainer.explain(images, 1, method="gradskip")
    scores: Array = result.relevance.scores
    return scores


def assert_same(found: Array, expected: Array) -> None:
    np.testing.assert_allclose(found, expected, rtol=ROUNDING, atol=ROUNDING * float(expected.max()))


# --- fixed batches, optimised by ONNX Runtime -------------------------------------------------------------------------


def with_batch(model: onnx.ModelProto, batch: int) -> onnx.ModelProto:
    """The model as torch writes it by default: for a fixed number of images."""
    for port in (*model.graph.input, *model.graph.output):
        port.type.tensor_type.shape.dim[0].dim_value = batch
    return model


def fixture(name: str) -> onnx.ModelProto:
    return onnx.load(FIXTURES / f"{name}.onnx")


FIXED = {
    "vit": lambda: vit(Vit(batch=1)),
    "vit of two images": lambda: vit(Vit(batch=2)),
    "vit that pools": lambda: vit(Vit(batch=1, pooled=True, decomposed_norm=True)),
    "distilled DeiT": lambda: with_batch(fixture("deit_distilled"), 1),
    "SegFormer": lambda: with_batch(fixture("segformer"), 1),
}


@cache
def unoptimised(name: str) -> Array:
    return explain(FIXED[name]())


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", FIXED)
def test_a_fixed_batch_is_explained_at_every_level_of_optimisation(name: str, level: str, tmp_path: Path):
    model = optimised(FIXED[name](), level, tmp_path)
    if any(node.domain in HARDWARE for node in model.graph.node):  # this machine has layouts of its own
        assert level == "ALL"
        with pytest.raises(UnsupportedModelError, match="hardware-specific"):
            explain(model)
    else:
        assert_same(explain(model), unoptimised(name))


# --- opsets below 13 --------------------------------------------------------------------------------------------------

# What opset 7 can say: no Expand for a class token (8), no Erf (9).
PLAIN = Vit(special=0, decomposed_norm=True, tanh_gelu=True, opset=13)
WITH_CLASS_TOKEN = Vit(decomposed_norm=True, opset=13)


def as_torch_writes(model: onnx.ModelProto) -> onnx.ModelProto:
    """Shapes computed from the batch, so that onnx's converter knows no ranks; the axis of Softmax as a number."""
    inserted: list[onnx.NodeProto] = [
        onnx.helper.make_node("Shape", ["image"], ["image_shape"], name="image_shape"),
        onnx.helper.make_node("Gather", ["image_shape", "zero"], ["images"], name="images"),
    ]
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0], np.int64), "zero"))
    shapes = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Softmax":
            node.attribute[0].i = 3
        if node.op_type == "Reshape" and shapes[node.input[1]][0] in (-1, 0):
            rest = f"{node.name}_rest"
            model.graph.initializer.append(onnx.numpy_helper.from_array(shapes[node.input[1]][1:], rest))
            joined = [f"{node.name}_shape"]
            inserted.append(onnx.helper.make_node("Concat", ["images", rest], joined, name=joined[0], axis=0))
            node.input[1] = joined[0]
    nodes = [*inserted, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    del model.graph.value_info[:]
    onnx.checker.check_model(model)
    return model


@pytest.mark.parametrize(
    ("opset", "shape"),
    [*((opset, PLAIN) for opset in range(7, 13)), *((opset, WITH_CLASS_TOKEN) for opset in range(9, 13))],
)
def test_files_of_old_opsets_are_explained_as_newer_ones(opset: int, shape: Vit):
    model = as_torch_writes(vit(replace(shape, opset=opset)))
    converted = version_converter.convert_version(model, 13)
    claims = [proof.claim for proof in gradskip_onnx.inspect(model.SerializeToString()).proofs]

    assert sum(node.op_type == "Flatten" for node in converted.graph.node) == shape.depth  # else this tests nothing
    assert claims.count("a softmax over the last axis gives what the flattened one gave") == shape.depth
    assert_same(explain(model), explain(vit(shape)))
    assert_same(explain(converted), explain(vit(shape)))


def test_a_softmax_over_several_axes_is_not_taken_for_attention():
    """With axis 2 a row of Softmax is all queries and keys of a head: not the attention of a token."""
    model = as_torch_writes(vit(replace(PLAIN, opset=12)))
    for node in model.graph.node:
        if node.op_type == "Softmax":
            node.attribute[0].i = 2
    with pytest.raises(UnsupportedModelError) as refusal:
        gradskip_onnx.inspect(model.SerializeToString())
    assert refusal.value.code == "attention-layout"


# --- a batch that is declared open and is not -------------------------------------------------------------------------


def bound_to_one_image() -> onnx.ModelProto:
    """A vision transformer whose shapes were traced with one image and whose input says otherwise."""
    model = vit(Vit())
    targets = {node.input[1] for node in model.graph.node if node.op_type == "Reshape"}
    for tensor in model.graph.initializer:
        if tensor.name in targets:
            sizes = onnx.numpy_helper.to_array(tensor).copy()
            sizes[0] = 1
            tensor.CopyFrom(onnx.numpy_helper.from_array(sizes, tensor.name))
    return model


def test_an_open_batch_that_takes_one_image_is_explained_image_by_image():
    model = bound_to_one_image()
    explainer = gradskip_onnx.load(model.SerializeToString(), cache=False)
    images = np.random.default_rng(4).standard_normal((3, *explainer.architecture.input_dims)).astype(np.float32)
    free = gradskip_onnx.load(vit(Vit()).SerializeToString(), cache=False)
    (note,) = explainer.architecture.assumptions

    assert "one at a time" in note
    assert "Reshape" in note
    assert explainer.model.image.dims[0] == 1
    for found, expected in zip(explainer.explain(images), free.explain(images), strict=True):
        assert_same(found.relevance.scores, expected.relevance.scores)
    shared, alone = (each.explain(images[0], [0, 1, 2]) for each in (explainer, free))
    for found, expected in zip(shared, alone, strict=True):
        assert_same(found.relevance.scores, expected.relevance.scores)


# --- what an output holds ---------------------------------------------------------------------------------------------


def rename_output(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    model.graph.output[0].name = name
    model.graph.node[-1].output[0] = name
    return model


def behind(model: onnx.ModelProto, *ops: tuple[str, dict[str, Any]]) -> onnx.ModelProto:
    """The output of a model passed through further operators."""
    name = model.graph.output[0].name
    for number, (op, attrs) in enumerate(ops):
        before, after = f"{name}{number or ''}", f"{name}{number + 1}"
        model.graph.node.append(onnx.helper.make_node(op, [before], [after], name=f"behind_{number}", **attrs))
    model.graph.output[0].name = f"{name}{len(ops)}"
    return model


def features() -> onnx.ModelProto:
    """Rank 4, three channels, and nothing says what they are."""
    return rename_output(segmenter(), "image_embeddings")


def with_argmax() -> onnx.ModelProto:
    model = features()
    model.graph.node.append(onnx.helper.make_node("ArgMax", ["image_embeddings"], ["best"], name="best", axis=1))
    best = onnx.helper.make_tensor_value_info("best", onnx.TensorProto.INT64, ["batch", 1, 4, 4])
    model.graph.output.append(best)
    return model


ESTABLISHED: dict[str, tuple[Callable[[], onnx.ModelProto], dict[str, Any]]] = {
    "name": (segmenter, {}),
    "name in a scope": (lambda: rename_output(segmenter(), "/decode_head/logits"), {}),
    "softmax": (lambda: behind(features(), ("Softmax", {"axis": 1})), {}),
    "softmax counted from the end": (lambda: behind(features(), ("Softmax", {"axis": -3})), {}),
    "argmax": (with_argmax, {}),
    "labels": (features, {"labels": ["cat", "dog", "sky"]}),
    "option": (features, {"task": "segmentation"}),
}


@pytest.mark.parametrize(("build", "options"), ESTABLISHED.values(), ids=ESTABLISHED)
def test_a_segmentation_that_something_establishes_is_explained(build: Callable[[], Any], options: dict[str, Any]):
    assert_same(explain(build(), **options), explain(segmenter()))


NOT_ESTABLISHED: dict[str, tuple[Callable[[], onnx.ModelProto], dict[str, Any], str]] = {
    "features": (features, {}, "task-unknown"),
    "softmax along a side": (lambda: behind(features(), ("Softmax", {"axis": 3})), {}, "task-unknown"),
    "labels of another number": (features, {"labels": ["cat", "dog"]}, "task-unknown"),
    "the other task": (features, {"task": "classification"}, "no-class-scores"),
    "a classifier told to be a segmentation": (vit, {"task": "segmentation"}, "no-class-scores"),
}


@pytest.mark.parametrize(("build", "options", "code"), NOT_ESTABLISHED.values(), ids=NOT_ESTABLISHED)
def test_a_task_is_never_guessed(build: Callable[[], Any], options: dict[str, Any], code: str):
    with pytest.raises(UnsupportedModelError) as refusal:
        explain(build(), **options)
    assert refusal.value.code == code
    if code == "task-unknown":
        assert "--task segmentation" in str(refusal.value)


def test_both_commands_take_the_task(tmp_path: Path):
    onnx.save(features(), tmp_path / "model.onnx")
    Image.new("RGB", (32, 32), "red").save(tmp_path / "picture.png")
    inspecting = ["inspect", tmp_path / "model.onnx"]
    explaining = ["explain", tmp_path / "model.onnx", tmp_path / "picture.png", "-o", tmp_path / "out"]

    for words in (inspecting, explaining):
        fails(run(*words), 3, "[task-unknown]")
        assert "segmentation" in run(*words, "--task", "segmentation").stdout


def test_class_names_beside_the_file_establish_a_segmentation(tmp_path: Path):
    onnx.save(features(), tmp_path / "model.onnx")
    (tmp_path / "config.json").write_text('{"id2label": {"0": "cat", "1": "dog", "2": "sky"}}')

    assert gradskip_onnx.load(tmp_path / "model.onnx", cache=False).architecture.task == "segmentation"
    assert gradskip_onnx.inspect(tmp_path / "model.onnx").task == "segmentation"


def test_scores_without_evidence_are_noted_and_scores_with_evidence_go_first():
    unnamed = gradskip_onnx.inspect(rename_output(vit(), "pooled").SerializeToString())
    named = gradskip_onnx.inspect(vit().SerializeToString())
    with_features = features()
    with_features.graph.node.append(
        onnx.helper.make_node("GlobalAveragePool", ["image_embeddings"], ["mean"], name="mean")
    )
    with_features.graph.node.append(onnx.helper.make_node("Flatten", ["mean"], ["pooled"], name="flat"))
    with_features.graph.output.append(
        onnx.helper.make_tensor_value_info("pooled", onnx.TensorProto.FLOAT, ["batch", 3])
    )

    assert "'pooled'" in unnamed.assumptions[0]
    assert named.assumptions == ()
    assert gradskip_onnx.inspect(with_features.SerializeToString()).task == "classification"


# --- quantised files --------------------------------------------------------------------------------------------------

LARGEST = 0.5  # on the grid of each attention, about what the tiny model gives
CLAIM, SATURATED = "attention reaches the values unchanged", "few entries of the attention saturate"


def rounded_attention(largest: float = LARGEST, factor: float = 1.0) -> onnx.ModelProto:
    """A vision transformer whose attention is multiplied by `factor` and rounded to 8 bits on its way to the values."""
    model = vit(Vit())
    for name, value in {"scale": np.float32(largest / 255), "zero": np.uint8(0), "factor": np.float32(factor)}.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), name))
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        nodes.append(node)
        if node.op_type == "Softmax":
            whole, node.output[0] = node.output[0], f"{node.output[0]}_exact"
            chain = [
                ("Mul", [node.output[0], "factor"], f"{whole}_scaled"),
                ("QuantizeLinear", [f"{whole}_scaled", "scale", "zero"], f"{whole}_rounded"),
                ("DequantizeLinear", [f"{whole}_rounded", "scale", "zero"], whole),
            ]
            nodes += [onnx.helper.make_node(op, given, [out], name=out) for op, given, out in chain]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


@pytest.mark.parametrize("largest", [LARGEST, 1.0, 8.0])
def test_a_rounded_attention_is_judged_by_the_steps_of_its_own_grid(largest: float):
    """The probe reaches a small part of a wide grid, whose steps are large against it."""
    proofs = gradskip_onnx.inspect(rounded_attention(largest).SerializeToString()).proofs
    steps = [proof.measured for proof in proofs if proof.claim == CLAIM]

    assert len(steps) == Vit().depth
    assert all(0.3 < step <= 0.5001 for step in steps)


def test_saturation_is_counted():
    proofs = gradskip_onnx.inspect(rounded_attention(0.4).SerializeToString()).proofs
    shares = [proof.measured for proof in proofs if proof.claim == SATURATED]

    assert 0 < max(shares) < 0.05


@pytest.mark.parametrize(
    ("largest", "factor", "claim", "remedy"),
    [
        (LARGEST, 0.97, CLAIM, "take the one from before"),
        (1.0, 1.02, CLAIM, "take the one from before"),
        (0.03, 1.0, SATURATED, "calibration images"),
    ],
)
def test_faults_of_a_rounded_attention_are_caught(largest: float, factor: float, claim: str, remedy: str):
    with pytest.raises(UnsupportedModelError, match=claim) as refusal:
        gradskip_onnx.inspect(rounded_attention(largest, factor).SerializeToString())
    assert refusal.value.code == "proof-failed"
    assert remedy in str(refusal.value)


# --- transposes that an optimiser moved -------------------------------------------------------------------------------


def test_a_skip_that_is_transposed_for_the_add_alone_is_still_the_skip():
    """ONNX Runtime lets a norm read the stream as it lies in memory and transposes it for the residual add."""
    model = vit(Vit(batch=1))
    blocks = gradskip_onnx.inspect(model.SerializeToString()).blocks
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        node.input[:] = [
            f"{name}_{node.op_type}" if name in {block.tokens_in for block in blocks} else name for name in node.input
        ]
        nodes.append(node)
        for block in blocks:
            if block.tokens_in in node.output:
                lying = f"{block.tokens_in}_lying"
                ends = [(block.tokens_in, lying), *((lying, f"{block.tokens_in}_{op}") for op in READERS)]
                nodes += [onnx.helper.make_node("Transpose", [a], [b], name=b, perm=[0, 2, 1]) for a, b in ends]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    found = gradskip_onnx.inspect(model.SerializeToString()).blocks

    assert [block.tokens_in for block in found] == [f"{block.tokens_in}_lying" for block in blocks]
    assert {block.tokens_layout for block in found} == {"bdn"}
    assert {block.stage for block in found} == {0}
    assert_same(explain(model), explain(vit(Vit(batch=1))))
