"""What an output holds, class scores or features, is established by something, never guessed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from PIL import Image

import gradskip_onnx
from gradskip_onnx.errors import UnsupportedModelError
from tests.support.command_line import fails, run
from tests.support.models import encoder, segmenter, vit
from tests.support.relevance import assert_same, explain


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


STATED = {
    "names": '{"id2label": {"0": "cat", "1": "dog", "2": "sky"}}',
    "placeholders": '{"id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}}',
    "number": '{"num_labels": 3}',
    "number by timm": '{"architecture": "vit", "num_classes": 3, "pretrained_cfg": {}}',
    "number by timm, inside": '{"pretrained_cfg": {"num_classes": 3}}',
}


@pytest.mark.parametrize("config", STATED.values(), ids=STATED)
def test_classes_stated_beside_the_file_establish_a_segmentation(config: str, tmp_path: Path):
    onnx.save(features(), tmp_path / "model.onnx")
    (tmp_path / "config.json").write_text(config)

    assert gradskip_onnx.load(tmp_path / "model.onnx", cache=False).architecture.task == "segmentation"
    assert gradskip_onnx.inspect(tmp_path / "model.onnx").task == "segmentation"


@pytest.mark.parametrize("config", ['{"num_labels": 2}', '{"num_labels": "3"}', '{"num_labels": [3]}', "{}"])
def test_another_number_of_classes_establishes_nothing(config: str, tmp_path: Path):
    onnx.save(features(), tmp_path / "model.onnx")
    (tmp_path / "config.json").write_text(config)

    fails(run("inspect", tmp_path / "model.onnx"), 3, "[task-unknown]")


def test_an_encoder_like_that_of_mobile_sam_is_asked_about(tmp_path: Path):
    """256 channels of a grid are features; a config of their width says nothing about classes."""
    onnx.save(encoder(), tmp_path / "encoder.onnx")
    (tmp_path / "config.json").write_text('{"model_type": "sam", "vision_config": {"output_channels": 256}}')
    Image.new("RGB", (32, 32), "red").save(tmp_path / "picture.png")
    explaining = ["explain", tmp_path / "encoder.onnx", tmp_path / "picture.png", "-o", tmp_path / "out"]

    for words in (explaining, ["inspect", tmp_path / "encoder.onnx"]):
        fails(run(*words), 3, "'image_embeddings' of shape (None, 256, 4, 4)", "--task segmentation", "[task-unknown]")
    assert not list(tmp_path.glob("out/*"))
    assert run(*explaining, "--task", "segmentation").exit_code == 0


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
