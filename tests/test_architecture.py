"""Imports point one way: each layer may use only the layers below it, and heavy packages stay where they belong."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = {"gradskip_onnx": "gradskip_onnx", "exporters": "gradskip_onnx.exporters", "cli": "gradskip_onnx.cli"}

# From the top down; the modules of one layer may use each other unless APART says otherwise.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("cli",),
    ("exporters",),
    ("studies",),
    ("evaluation",),
    ("metrics", "datasets"),
    ("api",),
    ("explainer",),
    ("sharing", "model"),
    ("kept",),
    ("outputs", "render", "colours", "bundle", "regions", "sidecar"),
    ("notes",),
    ("heatmap", "preprocess", "classes", "labels", "images"),
    ("methods",),
    ("repeats",),
    ("runtime",),
    ("plan",),
    ("autodiff", "graph"),
    ("session",),
    ("given",),
    ("mapped",),
    ("demo", "types", "errors", "extras", "version", "lazy", "cache", "records"),
)
APART = {("autodiff", "graph"), ("graph", "autodiff"), ("metrics", "datasets"), ("metrics", "api")}
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}

TRAINING_FRAMEWORKS = {"torch", "torchvision", "timm", "transformers", "safetensors", "onnxscript"}


def shipped_modules() -> dict[str, Path]:
    """Every module of the project by the name it ships under."""
    found = {}
    for folder, name in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = [name, *path.relative_to(ROOT / folder).with_suffix("").parts]
            found[".".join(part for part in parts if part != "__init__")] = path
    return found


def imports_of(module: str, path: Path) -> set[str]:
    """The modules a file imports, anywhere in it, by full name."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1]) if node.level else ""
            stem = ".".join(part for part in (base, node.module or "") if part)
            found |= {stem} | {f"{stem}.{alias.name}" for alias in node.names}
    return found


def part_of(module: str) -> str | None:
    """The layer name of one of our modules; None for the package itself and for others' modules."""
    pieces = module.split(".")
    return pieces[1] if pieces[0] == "gradskip_onnx" and len(pieces) > 1 and pieces[1] in LEVEL else None


def upward(module: str, imported: set[str]) -> list[str]:
    """The imports of a module that point up or sideways where they must not."""
    mine = part_of(module)
    if mine is None:
        return []
    wrong = []
    for name in imported:
        other = part_of(name)
        if other is not None and other != mine and (LEVEL[other] < LEVEL[mine] or (mine, other) in APART):
            wrong.append(f"{module} imports {name}")
    return wrong


MODULES = shipped_modules()


def test_every_module_has_a_layer():
    """A new module must be given its place in LAYERS."""
    homeless = [m for m in MODULES if m != "gradskip_onnx" and part_of(m) is None]

    assert homeless == []


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_down(module: str):
    """No module imports from a layer above it."""
    assert upward(module, imports_of(module, MODULES[module])) == []


@pytest.mark.parametrize("module", [m for m in MODULES if part_of(m) != "exporters"])
def test_run_time_needs_no_training_framework(module: str):
    """torch and its friends are used by the exporters alone."""
    roots = {name.split(".")[0] for name in imports_of(module, MODULES[module])}

    assert roots.isdisjoint(TRAINING_FRAMEWORKS)


@pytest.mark.parametrize("module", [m for m in MODULES if part_of(m) == "exporters"])
def test_exporters_import_torch_when_called(module: str):
    """Importing an exporter must work where torch is missing."""
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    top = {a.name.split(".")[0] for n in tree.body if isinstance(n, ast.Import) for a in n.names}
    top |= {(n.module or "").split(".")[0] for n in tree.body if isinstance(n, ast.ImportFrom) and not n.level}

    assert top.isdisjoint(TRAINING_FRAMEWORKS)


PLANTED = {
    "from gradskip_onnx.api import load": "gradskip_onnx.graph.load",
    "from ..runtime import run": "gradskip_onnx.autodiff.engine",
    "from ..graph.index import index": "gradskip_onnx.autodiff.engine",
    "def f():\n    import gradskip_onnx.cli.main": "gradskip_onnx.api",
    "from . import heatmap": "gradskip_onnx.types",
}


@pytest.mark.parametrize(("code", "module"), PLANTED.items())
def test_the_guard_sees_violations(code: str, module: str, tmp_path: Path):
    """The check itself must be able to fail."""
    planted = tmp_path / "planted.py"
    planted.write_text(code)

    assert upward(module, imports_of(module, planted))
