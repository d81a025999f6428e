"""What an exported file holds, at which precision and opset, and which requests are refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import pytest

pytest.importorskip("torch")
pytest.importorskip("timm")
pytest.importorskip("transformers")

import torch
from gradskip_onnx.exporters import load, trace
from gradskip_onnx.exporters.request import ExportRequest

from gradskip_onnx.errors import InputError
from gradskip_onnx.runtime.session import open_session
from tests.support.command_line import run

from .small_models import EXACT, SIZE, VIT

pytestmark = pytest.mark.torch


def test_misspelled_timm_name_suggests_one():
    with pytest.raises(InputError, match=r"did you mean .*vit_tiny_patch16_224"):
        load(ExportRequest("vit_tinny_patch16_224", random_weights=True))


def test_file_is_sound_and_uses_standard_operators_only(whole):
    model = onnx.load(whole[0])
    onnx.checker.check_model(model, full_check=True)

    assert {entry.domain for entry in model.opset_import} <= {"", "ai.onnx"}
    assert {entry.version for entry in model.opset_import} == {17}
    assert not model.functions


def test_file_holds_outputs_inputs_and_description(whole):
    model = onnx.load(whole[0])
    outputs = {output.name for output in model.graph.output}
    notes = json.loads({p.key: p.value for p in model.metadata_props}["gradskip_onnx"])

    assert {"pixel_values", "target", "explain"} <= {entry.name for entry in model.graph.input}
    assert {"logits", "gradskip/target", "gradskip/block00/input"} <= outputs
    assert {f"gradskip/block{i:02d}/{w}" for i in range(12) for w in ("attention", "output", "gradient")} <= outputs
    assert notes["format"] == 1
    assert notes["preprocess"]["size"] == list(SIZE)
    assert notes["preprocess"]["mean"] == [0.5, 0.5, 0.5]  # timm's settings of this model
    assert len(notes["labels"]) == 1000
    assert notes["labels"][1].startswith("goldfish")


def test_batch_is_dynamic_and_images_do_not_mix(whole):
    model = onnx.load(whole[0])
    session = open_session(model, None, "cpu")
    images = np.random.default_rng(0).standard_normal((4, 3, *SIZE)).astype(np.float32)
    names = [output.name for output in model.graph.output]
    together = session.run(names, {"pixel_values": images})
    for index in range(4):
        alone = session.run(names, {"pixel_values": images[index : index + 1]})
        for name in names:
            assert together[name].shape[0] == 4
            scale = np.abs(alone[name]).max()
            assert np.abs(together[name][index] - alone[name][0]).max() <= EXACT * scale, name


def test_switch_leaves_the_gradients_out(whole):
    session = open_session(onnx.load(whole[0]), None, "cpu")
    feeds = {"pixel_values": np.zeros((2, 3, *SIZE), np.float32), "explain": np.array(False)}
    found = session.run(["logits", "gradskip/block00/gradient"], feeds)

    assert found["logits"].shape == (2, 1000)
    assert found["gradskip/block00/gradient"].size == 0


def test_target_is_the_class_differentiated(whole):
    session = open_session(onnx.load(whole[0]), None, "cpu")
    images = np.random.default_rng(0).standard_normal((3, 3, *SIZE)).astype(np.float32)
    names = ["logits", "gradskip/target", "gradskip/block11/gradient"]
    found = session.run(names, {"pixel_values": images, "target": np.array([-1, 7, 7])})
    other = session.run(names, {"pixel_values": images, "target": np.array([-1, 7, 8])})

    assert found["gradskip/target"].tolist() == [int(found["logits"][0].argmax()), 7, 7]
    assert np.array_equal(found[names[2]][1], other[names[2]][1])
    assert not np.allclose(found[names[2]][2], other[names[2]][2])


def test_plain_file_is_the_forward_graph_with_its_description(folder, whole):
    path = folder / "plain.onnx"
    result = run("export", VIT, "-o", path, "--random-weights", "--size", "64x96", "--plain", "--opset", 17)
    model = onnx.load(path)
    images = {"pixel_values": np.ones((2, 3, *SIZE), np.float32)}
    logits = [open_session(onnx.load(p), None, "cpu").run(["logits"], images)["logits"] for p in (path, whole[0])]

    assert result.exit_code == 0, result.output
    assert [entry.name for entry in model.graph.input] == ["pixel_values"]
    assert [entry.name for entry in model.graph.output] == ["logits"]
    assert len(json.loads({p.key: p.value for p in model.metadata_props}["gradskip_onnx"])["labels"]) == 1000
    assert np.abs(logits[0] - logits[1]).max() <= EXACT * np.abs(logits[1]).max()


@pytest.mark.slow
def test_float16_file_is_half_as_large_and_takes_float32(folder, whole):
    path = folder / "half.onnx"
    result = run("export", VIT, "-o", path, "--random-weights", "--size", "64x96", "--dtype", "float16")
    large = [t for t in onnx.load(path).graph.initializer if np.prod(t.dims) > 10_000]

    assert result.exit_code == 0, result.output
    assert {t.data_type for t in large} == {onnx.TensorProto.FLOAT16}
    assert path.stat().st_size < 0.6 * whole[0].stat().st_size
    session = open_session(onnx.load(path), None, "cpu")
    found = session.run(["logits"], {"pixel_values": np.zeros((1, 3, *SIZE), np.float32)})
    assert found["logits"].dtype == np.float32


def test_classes_and_distilled_heads(folder):
    path = folder / "distilled.onnx"
    name = "deit_tiny_distilled_patch16_224"
    result = run("export", name, "-o", path, "--random-weights", "--size", 32, "--classes", 5, "--plain")
    exportable = load(ExportRequest(name, size=(32, 32), classes=5, random_weights=True))
    module: Any = exportable.module
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    tokens = module.forward_features(images)
    average = (module.head(tokens[:, 0]) + module.head_dist(tokens[:, 1])) / 2
    found = open_session(onnx.load(path), None, "cpu").run(["logits"], {"pixel_values": images.numpy()})

    assert result.exit_code == 0, result.output
    assert np.abs(found["logits"] - average.detach().numpy()).max() <= EXACT * float(average.detach().abs().max())
    assert exportable.labels == ()


@pytest.mark.slow
@pytest.mark.parametrize("opset", [13, 20, 21])
def test_opset_is_the_one_asked_for(small_vit, opset):
    model = trace.trace(small_vit.module, torch.zeros(1, 3, *SIZE), opset=opset)

    assert [entry.version for entry in model.opset_import] == [opset]
    assert not {"Identity", "Constant"} & {node.op_type for node in model.graph.node}


@pytest.mark.parametrize("opset", [12, 99])
def test_opset_out_of_range_is_refused(tmp_path, opset):
    result = run("export", VIT, "-o", tmp_path / "m.onnx", "--random-weights", "--size", 32, "--opset", opset)

    assert result.exit_code == 2
    assert "choose 13 to 23" in result.output


def test_tracing_says_nothing_on_the_terminal(small_vit, capfd):
    trace.trace(small_vit.module, torch.zeros(1, 3, *SIZE), opset=13)

    assert capfd.readouterr() == ("", "")


def test_operator_torch_cannot_write_is_one_error(capfd):
    class Odd(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.eigvals(x)

    with pytest.raises(InputError, match="torch cannot write this model at opset 17"):
        trace.trace(Odd(), torch.zeros(1, 3, 4, 4), opset=17)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "message"), [(VIT, "is no multiple of the patches of 16x16"), ("segformer_b0", "is no multiple of 32")]
)
def test_size_that_loses_pixels_is_refused(name, message):
    with pytest.raises(InputError, match=message):
        load(ExportRequest(name, size=(64, 100), random_weights=True))


def test_by_default_the_file_gives_the_map(tmp_path):
    """Its tensors were compared with torch, and the map with that of the method in NumPy on these tensors."""
    path = tmp_path / "map.onnx"
    result = run("export", VIT, "-o", path, "--random-weights", "--size", 32, "--opset", 17)
    assert result.exit_code == 0, result.output
    onnx.checker.check_model(str(path), full_check=True)
    session = open_session(onnx.load(path), None, "cpu")
    notes = json.loads({p.key: p.value for p in onnx.load(path).metadata_props}["gradskip_onnx"])

    assert session.outputs == {"logits", "relevance", "explained"}
    assert notes["built"]["method"] == "gradskip+"
    for quantity in ("gradient", "map", "class explained"):
        assert quantity in result.stdout
    assert [entry.name for entry in tmp_path.iterdir()] == ["map.onnx"]
