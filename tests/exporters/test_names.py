"""Which exporter takes a name; what the exporters do where torch is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest
from gradskip_onnx.exporters import EXPORTERS, find

from gradskip_onnx.errors import InputError

from .small_models import VIT


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
