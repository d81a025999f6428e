"""The wheel ships one top-level name, every folder that holds code, and the public face the README shows."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import gradskip_onnx

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PROJECT["tool"]["setuptools"]


def test_every_folder_with_code_ships():
    """The package list is explicit, so a new folder would be missing from the wheel and nowhere else."""
    homes = {"gradskip_onnx": "gradskip_onnx"} | {path: name for name, path in SETUPTOOLS["package-dir"].items()}
    expected = set()
    for folder, name in homes.items():
        for path in {file.parent for file in (ROOT / folder).rglob("*.py")}:
            expected.add(".".join([name, *path.relative_to(ROOT / folder).parts]))

    assert set(SETUPTOOLS["packages"]) == expected


def test_one_top_level_name():
    """`import cli` or `import exporters` must not find us on a user's machine."""
    assert {name.split(".")[0] for name in SETUPTOOLS["packages"]} == {"gradskip_onnx"}


def test_public_names_exist_and_are_documented():
    """`__all__`, the module and the README agree."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme.split("## Python", 1)[1].split("\n## ", 1)[0]
    shown = set(re.findall(r"^\| `(?:gradskip_onnx\.)?(\w+)", table, flags=re.MULTILINE))

    assert all(hasattr(gradskip_onnx, name) for name in gradskip_onnx.__all__)
    assert shown == set(gradskip_onnx.__all__)


def test_extras():
    """The core runs without a framework; a runtime is chosen by extra."""
    core = {re.split(r"[<>=]", entry)[0] for entry in PROJECT["project"]["dependencies"]}
    extras = PROJECT["project"]["optional-dependencies"]

    assert core == {"numpy", "onnx", "onnx-graphsurgeon", "click", "rich", "Pillow", "platformdirs"}
    assert [entry.split(">")[0] for entry in extras["cpu"]] == ["onnxruntime"]
    assert [entry.split(">")[0] for entry in extras["gpu"]] == ["onnxruntime-gpu"]
    assert {entry.split(">")[0] for entry in extras["export"]} >= {"torch", "timm", "transformers", "onnxscript"}
