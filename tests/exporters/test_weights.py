"""Weights of the exporters: hubs, checkpoints, folders, and pickles that must not be run."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import onnx
import pytest

pytest.importorskip("torch")
pytest.importorskip("timm")
pytest.importorskip("transformers")

import torch
from gradskip_onnx.exporters import checkpoints, load
from gradskip_onnx.exporters.request import ExportRequest

from gradskip_onnx.errors import InputError
from gradskip_onnx.limits import TEXT_BYTES, UNPACKED_BYTES
from tests.support.command_line import run

from .small_models import SIZE, VIT

pytestmark = pytest.mark.torch


@pytest.mark.slow
@pytest.mark.parametrize("name", [VIT, "segformer_b0"])
def test_unreachable_hub_is_one_line_that_says_what_to_do(name, tmp_path):
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    call = [sys.executable, "-P", "-m", "gradskip_onnx.cli", "export", name, "-o", str(tmp_path / "m.onnx")]
    done = subprocess.run(call, capture_output=True, text=True, env=environment, check=False)
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error:")]

    assert done.returncode == 2
    assert "--checkpoint" in line
    assert "--random-weights" in line
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "m.onnx").exists()


def test_random_weights_are_seeded_and_leave_the_callers_dice_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = load(ExportRequest(VIT, size=SIZE, random_weights=True)).module.state_dict()

    assert torch.equal(torch.rand(3), expected)
    second = load(ExportRequest(VIT, size=SIZE, random_weights=True)).module.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


class Malice:
    """Pickles to a call that leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path(self.path),)


def test_malicious_pickle_is_refused_and_not_run(tmp_path):
    torch.save({"model": Malice(tmp_path / "owned")}, tmp_path / "evil.pth")
    result = run("export", VIT, "-o", tmp_path / "m.onnx", "--checkpoint", tmp_path / "evil.pth")

    assert result.exit_code == 2
    assert "was refused, because loading it could run code" in result.output
    assert not (tmp_path / "owned").exists()
    assert not (tmp_path / "m.onnx").exists()


def test_the_malice_above_would_have_worked(tmp_path):
    torch.save({"model": Malice(tmp_path / "owned")}, tmp_path / "evil.pth")
    torch.load(tmp_path / "evil.pth", weights_only=False)

    assert (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    "nest",
    [
        lambda state: state,
        lambda state: {"model": state, "epoch": 3},
        lambda state: {"state_dict": {f"module.{k}": v for k, v in state.items()}},
        lambda state: {"state_dict": {f"model._orig_mod.{k}": v for k, v in state.items()}, "lr": 0.1},
    ],
    ids=["bare", "model", "data-parallel", "lightning-compiled"],
)
def test_nested_and_prefixed_checkpoints(tmp_path, nest):
    state = {"head.weight": torch.ones(2, 3), "norm.bias": torch.zeros(3)}
    torch.save(nest(state), tmp_path / "c.pth")
    found = checkpoints.read(tmp_path / "c.pth")

    assert set(found) == set(state)
    assert torch.equal(found["head.weight"], state["head.weight"])


def test_safetensors_checkpoint_gives_the_same_model(tmp_path, small_vit):
    from safetensors.torch import save_file

    save_file({k: v + 0.01 for k, v in small_vit.module.state_dict().items()}, tmp_path / "c.safetensors")
    loaded = load(ExportRequest(VIT, size=SIZE, checkpoint=tmp_path / "c.safetensors")).module.state_dict()

    assert all(torch.equal(loaded[name], value + 0.01) for name, value in small_vit.module.state_dict().items())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read"),
        (b"PK\x03\x04 not a zip", "cannot be read|was refused"),
        (b"hello", "cannot be read|was refused"),
        (None, "does not exist"),
    ],
    ids=["empty", "broken-zip", "text", "missing"],
)
@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_broken_checkpoint_is_one_error(tmp_path, content, message, suffix):
    path = tmp_path / f"c{suffix}"
    if content is not None:
        path.write_bytes(content)
    expected = "is not a sound safetensors file" if content is not None and suffix == ".safetensors" else message
    with pytest.raises(InputError, match=expected):
        checkpoints.read(path)


def bomb(path: Path, megabytes: int, *, twins: bool = False) -> Path:
    """A checkpoint of zeros that is small on disk: compressed, or with many names for the same bytes."""
    torch.save({"head.weight": torch.zeros(megabytes << 18)}, path.with_suffix(".honest"))
    with zipfile.ZipFile(path.with_suffix(".honest")) as honest, zipfile.ZipFile(path, "w") as archive:
        for entry in honest.infolist():
            kind = zipfile.ZIP_STORED if twins else zipfile.ZIP_DEFLATED
            archive.writestr(entry.filename, honest.read(entry), compress_type=kind)
        if twins:
            largest = max(archive.filelist, key=lambda entry: entry.file_size)
            archive.filelist.extend([largest] * 100)
            archive._didModify = True  # type: ignore[attr-defined]
    return path


@pytest.mark.parametrize(("megabytes", "twins"), [(80, False), (1, True)], ids=["compressed", "overlapping"])
def test_zip_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch, megabytes, twins):
    path = bomb(tmp_path / "bomb.pth", megabytes, twins=twins)
    assert path.stat().st_size < 2_000_000
    with monkeypatch.context() as patch:
        patch.setattr(torch, "load", lambda *_, **__: pytest.fail("it was unpacked"))
        result = run("export", VIT, "-o", tmp_path / "m.onnx", "--checkpoint", path)
    assert result.exit_code == 2
    assert UNPACKED_BYTES.variable in result.output
    assert not (tmp_path / "m.onnx").exists()


def test_a_trusted_checkpoint_may_be_compressed(tmp_path, monkeypatch):
    path = bomb(tmp_path / "c.pth", 80)
    monkeypatch.setenv(UNPACKED_BYTES.variable, str(100 << 20))
    assert checkpoints.read(path)["head.weight"].numel() == 80 << 18
    assert checkpoints.read(bomb(tmp_path / "small.pth", 1))["head.weight"].numel() == 1 << 18


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors.index.json"])
def test_folder_with_a_bomb_is_refused(segformer_folder, tmp_path, name):
    (tmp_path / "config.json").write_bytes((segformer_folder / "config.json").read_bytes())
    if name.endswith(".bin"):
        bomb(tmp_path / name, 80)
    else:
        with (tmp_path / name).open("wb") as stream:
            stream.truncate(TEXT_BYTES.default + 1)
    with pytest.raises(InputError, match=r"GRADSKIP_MAX_(UNPACKED|TEXT)_BYTES"):
        load(ExportRequest(str(tmp_path)))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_checkpoint_that_is_a_pipe_is_not_waited_for(tmp_path, suffix):
    os.mkfifo(tmp_path / f"c{suffix}")
    with pytest.raises(InputError, match="named pipe"):
        checkpoints.read(tmp_path / f"c{suffix}")


@pytest.mark.parametrize(
    "words",
    [["x" * 5000, "-o", "m.onnx"], [VIT, "-o", "m.onnx", "--checkpoint", "x" * 5000], [VIT, "-o", "x" * 5000]],
    ids=["model", "checkpoint", "output"],
)
def test_names_that_no_file_can_have(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    result = run("export", *words, *(["--random-weights", "--size", 32] if "--checkpoint" not in words else []))
    assert result.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_checkpoint_without_tensors_is_refused(tmp_path):
    torch.save({"epoch": 3, "model": {"lr": 0.1}}, tmp_path / "c.pth")
    with pytest.raises(InputError, match="holds no state dict"):
        checkpoints.read(tmp_path / "c.pth")


def test_mismatch_names_the_first_keys_of_each_kind(tmp_path, small_vit):
    state = dict(small_vit.module.state_dict())
    del state["blocks.0.norm1.weight"]
    state["surplus.bias"] = torch.zeros(2)
    state["head.bias"] = torch.zeros(7)
    torch.save(state, tmp_path / "c.pth")
    with pytest.raises(InputError) as caught:
        load(ExportRequest(VIT, size=SIZE, checkpoint=tmp_path / "c.pth"))
    text = str(caught.value)

    assert "missing: blocks.0.norm1.weight;" in text
    assert "unexpected: surplus.bias;" in text
    assert "wrong shape: head.bias is (7,), expected (1000,)" in text
    assert "--classes" in text
    assert "\n" not in text


def test_position_embedding_follows_the_size_asked_for(tmp_path, small_vit):
    square = load(ExportRequest(VIT, size=(64, 64), random_weights=True)).module.state_dict()
    torch.save(square, tmp_path / "c.pth")
    wide = load(ExportRequest(VIT, size=SIZE, checkpoint=tmp_path / "c.pth"))

    assert wide.module.state_dict()["pos_embed"].shape == small_vit.module.state_dict()["pos_embed"].shape
    assert torch.equal(wide.module.state_dict()["pos_embed"][:, 0], square["pos_embed"][:, 0])  # the class token's own


def test_checkpoint_and_random_weights_exclude_each_other(tmp_path):
    result = run("export", VIT, "-o", tmp_path / "m.onnx", "--checkpoint", tmp_path / "c.pth", "--random-weights")

    assert result.exit_code == 2
    assert "exclude each other" in result.output


@pytest.fixture(scope="module")
def segformer_folder(tmp_path_factory):
    """A tiny SegFormer as transformers saves it, with labels and preprocessing."""
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    place = tmp_path_factory.mktemp("segformer")
    names = {0: "sky", 1: "sea", 2: "sand"}
    config = SegformerConfig(hidden_sizes=[8, 16, 20, 32], decoder_hidden_size=16, id2label=names)
    torch.manual_seed(0)
    SegformerForSemanticSegmentation(config).save_pretrained(place)
    settings: dict[str, Any] = {
        "size": {"height": 64, "width": 64},
        "image_mean": [0.1, 0.2, 0.3],
        "image_std": [0.4, 0.5, 0.6],
    }
    settings |= {"do_normalize": True, "do_resize": True, "resample": 2}
    (place / "preprocessor_config.json").write_text(json.dumps(settings))
    return place


def test_folder_of_transformers_is_exported_with_labels_and_preprocessing(segformer_folder, folder):
    path = folder / "segformer.onnx"
    result = run("export", segformer_folder, "-o", path)
    notes = json.loads({p.key: p.value for p in onnx.load(path).metadata_props}["gradskip_onnx"])

    assert result.exit_code == 0, result.output
    assert notes["labels"] == ["sky", "sea", "sand"]
    assert notes["preprocess"]["mean"] == [0.1, 0.2, 0.3]
    assert notes["preprocess"]["size"] == [64, 64]
    assert notes["anatomy"]["task"] == "segmentation"


def test_weights_of_a_folder_load_as_a_checkpoint_too(segformer_folder):
    """transformers stores older names than it uses; both ways must give the same model."""
    stored = load(ExportRequest(str(segformer_folder)))
    given = load(ExportRequest(str(segformer_folder), checkpoint=segformer_folder / "model.safetensors"))
    images = torch.randn(1, 3, 64, 64, generator=torch.Generator().manual_seed(0))

    assert torch.equal(stored.module(images), given.module(images))


def test_folder_with_another_architecture_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"architectures": ["BertModel"]}')
    with pytest.raises(InputError, match=r"BertModel cannot be exported; supported: Segformer"):
        load(ExportRequest(str(tmp_path)))


def test_folder_with_a_malicious_pickle_is_refused(segformer_folder, tmp_path):
    (tmp_path / "config.json").write_bytes((segformer_folder / "config.json").read_bytes())
    torch.save({"decode_head.classifier.bias": Malice(tmp_path / "owned")}, tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError):
        load(ExportRequest(str(tmp_path)))

    assert not (tmp_path / "owned").exists()


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint", [True, False])
def test_the_file_says_what_it_was_made_from(tmp_path, small_vit, checkpoint):
    """The checkpoint by its hash; weights that come from no file have only the name of the model."""
    weights, path = tmp_path / "c.pth", tmp_path / "m.onnx"
    torch.save(small_vit.module.state_dict(), weights)
    origin = ["--checkpoint", weights] if checkpoint else ["--random-weights"]
    result = run("export", VIT, "-o", path, *origin, "--size", "64x96")
    built = json.loads(onnx.load(path).metadata_props[0].value)["built"]
    expected = (weights.name, hashlib.sha256(weights.read_bytes()).hexdigest()) if checkpoint else (VIT, "")

    assert result.exit_code == 0, result.output
    assert (built["source"], built["source_sha256"]) == expected
    assert f"from {expected[0]}, sha256 {expected[1] or 'unknown'}" in run("inspect", path).output
