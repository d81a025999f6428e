"""The exporters: names, what a file holds, and what happens when it is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest

pytest.importorskip("torch")
pytest.importorskip("timm")
pytest.importorskip("transformers")

import torch
from click.testing import CliRunner, Result
from gradskip_onnx.cli.main import cli
from gradskip_onnx.exporters import EXPORTERS, find, load, pipeline, trace, verify
from gradskip_onnx.exporters.oracle import seed
from gradskip_onnx.exporters.request import ExportRequest

from gradskip_onnx.errors import InputError, VerificationError
from gradskip_onnx.runtime.session import open_session

VIT = "vit_tiny_patch16_224"
SIZE = (64, 96)  # 4 x 6 patches: quick, and no square by chance
EXACT = 1e-5  # float32 sums in another order; relative to the largest value


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["export", *map(str, arguments)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("exported")


@pytest.fixture(scope="module")
def whole(folder):
    """A file with its gradient graph, and the command's report."""
    path = folder / "whole.onnx"
    result = run(VIT, "-o", path, "--random-weights", "--size", "64x96", "--opset", 17)
    assert result.exit_code == 0, result.output
    return path, result


@pytest.fixture(scope="module")
def small_vit():
    return load(ExportRequest(VIT, size=SIZE, random_weights=True))


# ---- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("vit_base_patch16_224", ".timm"),
        ("timm/vit_base_patch16_224.augreg_in21k", ".timm"),
        ("deit_tiny_distilled_patch16_224", ".timm"),
        ("deit3_small_patch16_224", ".timm"),
        ("segformer_b5", ".hf"),
        ("segformer-b0", ".hf"),
        ("nvidia/segformer-b0-finetuned-ade-512-512", ".hf"),
        ("nvidia/mit-b0", ".hf"),
    ],
)
def test_name_finds_its_source(name, module):
    assert find(name).module == module


def test_folder_is_taken_before_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vit_base_patch16_224").mkdir()

    assert find("vit_base_patch16_224").module == ".hf"


@pytest.mark.parametrize("name", ["resnet50", "segformer_b6", "vit", "../../etc/passwd", ""])
def test_unknown_name_lists_what_is_known(name):
    with pytest.raises(InputError, match=r"no exporter takes .* segformer_b0"):
        find(name)


def test_misspelled_timm_name_suggests_one():
    with pytest.raises(InputError, match=r"did you mean .*vit_tiny_patch16_224"):
        load(ExportRequest("vit_tinny_patch16_224", random_weights=True))


def test_importing_the_exporters_and_help_need_no_torch():
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('torch', 'timm', 'transformers')))\n"
        "import gradskip_onnx.exporters.pipeline\n"
        "from gradskip_onnx.cli.main import cli\n"
        "cli(sys.argv[1:])"
    )
    call = [sys.executable, "-P", "-c", code, "export"]
    shown = subprocess.run([*call, "--help"], capture_output=True, text=True, check=False)
    refused = subprocess.run(
        [*call, VIT, "--random-weights", "-o", "never.onnx"], capture_output=True, text=True, check=False
    )

    assert shown.returncode == 0
    assert "Examples:" in shown.stdout
    assert refused.returncode == 2
    assert "pip install 'gradskip-onnx[export]'" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_every_row_has_an_example_a_user_can_type():
    for row in EXPORTERS[1:]:
        assert row.takes(row.example.split(" ")[0].rstrip(","))


# ---- what a file holds ----------------------------------------------------------------------------------------------


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
    result = run(VIT, "-o", path, "--random-weights", "--size", "64x96", "--plain", "--opset", 17)
    model = onnx.load(path)
    images = {"pixel_values": np.ones((2, 3, *SIZE), np.float32)}
    logits = [open_session(onnx.load(p), None, "cpu").run(["logits"], images)["logits"] for p in (path, whole[0])]

    assert result.exit_code == 0, result.output
    assert [entry.name for entry in model.graph.input] == ["pixel_values"]
    assert [entry.name for entry in model.graph.output] == ["logits"]
    assert len(json.loads({p.key: p.value for p in model.metadata_props}["gradskip_onnx"])["labels"]) == 1000
    assert np.abs(logits[0] - logits[1]).max() <= EXACT * np.abs(logits[1]).max()


def test_float16_file_is_half_as_large_and_takes_float32(folder, whole):
    path = folder / "half.onnx"
    result = run(VIT, "-o", path, "--random-weights", "--size", "64x96", "--dtype", "float16")
    large = [t for t in onnx.load(path).graph.initializer if np.prod(t.dims) > 10_000]

    assert result.exit_code == 0, result.output
    assert {t.data_type for t in large} == {onnx.TensorProto.FLOAT16}
    assert path.stat().st_size < 0.6 * whole[0].stat().st_size
    session = open_session(onnx.load(path), None, "cpu")
    found = session.run(["logits"], {"pixel_values": np.zeros((1, 3, *SIZE), np.float32)})
    assert found["logits"].dtype == np.float32


def test_the_torch_model_is_left_as_it_was(folder):
    """Also by an export in half precision and the check in double, which are done on copies."""
    exportable = load(ExportRequest(VIT, size=(32, 32), random_weights=True, dtype="float16"))
    before = {name: value.clone() for name, value in exportable.module.state_dict().items()}
    onnx.save(pipeline._traced(exportable, 17), folder / "untouched.onnx")
    differences = verify.verify(folder / "untouched.onnx", exportable)
    after = exportable.module.state_dict()

    assert all(difference.passes for difference in differences)
    assert after.keys() == before.keys()
    assert [n for n in before if after[n].dtype != before[n].dtype or not torch.equal(after[n], before[n])] == []
    assert all(parameter.grad is None for parameter in exportable.module.parameters())


def test_classes_and_distilled_heads(folder):
    path = folder / "distilled.onnx"
    name = "deit_tiny_distilled_patch16_224"
    result = run(name, "-o", path, "--random-weights", "--size", 32, "--classes", 5, "--plain")
    exportable = load(ExportRequest(name, size=(32, 32), classes=5, random_weights=True))
    module: Any = exportable.module
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    tokens = module.forward_features(images)
    average = (module.head(tokens[:, 0]) + module.head_dist(tokens[:, 1])) / 2
    found = open_session(onnx.load(path), None, "cpu").run(["logits"], {"pixel_values": images.numpy()})

    assert result.exit_code == 0, result.output
    assert np.abs(found["logits"] - average.detach().numpy()).max() <= EXACT * float(average.detach().abs().max())
    assert exportable.labels == ()


@pytest.mark.parametrize("opset", [13, 20, 21])
def test_opset_is_the_one_asked_for(small_vit, opset):
    model = trace.trace(small_vit.module, torch.zeros(1, 3, *SIZE), opset=opset)

    assert [entry.version for entry in model.opset_import] == [opset]
    assert not {"Identity", "Constant"} & {node.op_type for node in model.graph.node}


@pytest.mark.parametrize("opset", [12, 99])
def test_opset_out_of_range_is_refused(tmp_path, opset):
    result = run(VIT, "-o", tmp_path / "m.onnx", "--random-weights", "--size", 32, "--opset", opset)

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


# ---- output and verification ----------------------------------------------------------------------------------------


def test_existing_output_needs_force(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(b"mine")
    result = run(VIT, "-o", path, "--random-weights")

    assert result.exit_code == 2
    assert "--force" in result.output
    assert path.read_bytes() == b"mine"


def test_report_shows_the_largest_differences(whole):
    for word in ("logits", "attention", "output", "gradient", "1e-04", "ok"):
        assert word in whole[1].stdout
    assert "FAILED" not in whole[1].stdout


def test_failed_check_exits_with_5_and_keeps_the_file(tmp_path, monkeypatch):
    """The torch model is changed between tracing and verifying; the file is then wrong for it."""
    honest = verify.verify

    def disturbed(path, exportable):
        with torch.no_grad():
            exportable.module.blocks[5].mlp.fc1.weight *= 1.5
        return honest(path, exportable)

    monkeypatch.setattr(pipeline, "verify", disturbed)
    path = tmp_path / "m.onnx"
    result = run(VIT, "-o", path, "--random-weights", "--size", 32, "--opset", 17)

    assert result.exit_code == 5
    assert "does not agree with the torch model" in result.output
    assert "FAILED" in result.output
    onnx.checker.check_model(onnx.load(path))


def test_wrong_gradient_alone_is_noticed(whole, small_vit, tmp_path):
    """A file whose values are right and whose gradient at one block is off by a thousandth."""
    model = onnx.load(whole[0])
    (switch,) = [node for node in model.graph.node if node.op_type == "If"]
    then = next(a.g for a in switch.attribute if a.name == "then_branch")
    position = list(switch.output).index("gradskip/block04/gradient")
    inner = then.output[position].name
    then.node.append(onnx.helper.make_node("Mul", [inner, "test/scale"], ["test/scaled"]))
    then.initializer.append(onnx.numpy_helper.from_array(np.array(1.001, np.float32), "test/scale"))
    then.output[position].name = "test/scaled"
    onnx.save(model, tmp_path / "off.onnx")
    failed = [d for d in verify.verify(tmp_path / "off.onnx", small_vit) if not d.passes]

    assert [(d.quantity, d.where) for d in failed] == [("gradient", "block 4")]
    assert failed[0].relative == pytest.approx(1e-3, rel=0.05)


def test_difference_never_passes_on_nan_or_shape():
    good = np.ones((2, 3))
    table = [
        (np.full((2, 3), np.nan), good, False),
        (np.ones((3, 2)), good, False),
        (good * (1 + 2e-4), good, False),
        (good * (1 + 5e-5), good, True),
        (np.zeros(2), np.zeros(2), True),
        (np.ones(2), np.zeros(2), False),
    ]
    for ours, theirs, passes in table:
        assert verify.difference("logits", "", ours, theirs, 1e-4).passes is passes


def test_report_raises_for_the_worst_failure(tmp_path):
    fine = verify.Difference("logits", "", 1e-7, 1e-7, 1e-4)
    bad = replace(fine, quantity="gradient", where="block 3", relative=0.5)
    report = pipeline.Report("m", (tmp_path / "m.onnx",), 17, SIZE, 0, (fine, bad))
    with pytest.raises(VerificationError, match=r"gradient block 3 differs by 5.0e-01"):
        report.require_sound()


def test_segmentation_score_is_a_mean_over_the_pixels_of_the_class():
    logits = np.zeros((2, 3, 1, 4), np.float32)
    logits[0, 1, 0, :2] = 5  # two pixels of class 1; class 2 has none
    weights = seed(logits, np.array([1, 2]))

    assert weights[0, 1].ravel().tolist() == [0.5, 0.5, 0, 0]
    assert weights[1, 2].ravel().tolist() == [0.25] * 4
    assert weights.sum() == 2
