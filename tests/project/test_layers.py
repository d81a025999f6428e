"""Imports point one way: packages lie in levels, none imports from above, and heavy packages stay where they belong."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
FOLDERS = {"gradskip_onnx": "gradskip_onnx", "exporters": "gradskip_onnx.exporters", "cli": "gradskip_onnx.cli"}

# From the top down; docs/architecture.md says what each level is for. Packages of one level may use each other, but
# never in a circle.
LEVELS: dict[str, tuple[str, ...]] = {
    "commands": ("cli", "exporters", "web"),
    "studies": (
        "adapters",
        "plugins",
        "evidence",
        "report",
        "comparison",
        "findings",
        "audit",
        "evaluation",
        "metrics",
        "datasets",
    ),
    "explanations": ("api", "pipeline", "selfcontained", "ingraph", "output", "drawing", "explanation"),
    "passes": ("passes", "cache", "instrument", "methods"),
    "graphs": ("graph", "autodiff", "surgeon", "runtime", "model_file"),
    "ground": (
        "images",
        "imports",
        "demo",
        "operators",
        "tasks",
        "types",
        "limits",
        "untrusted_files",
        "machine",
        "addresses",
        "errors",
        "version",
    ),
}
APART = {("autodiff", "graph"), ("graph", "autodiff"), ("metrics", "datasets"), ("metrics", "api")}
LEVEL = {name: number for number, names in enumerate(LEVELS.values()) for name in names}

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


def package_of(module: str) -> str | None:
    """The package (or root module) that one of our modules belongs to; None for the root and for others' modules."""
    pieces = module.split(".")
    return pieces[1] if pieces[0] == "gradskip_onnx" and len(pieces) > 1 and pieces[1] in LEVEL else None


def upward(module: str, imported: set[str]) -> list[str]:
    """The imports of a module that point up, or sideways where they must not."""
    mine = package_of(module)
    if mine is None:
        return []
    wrong = []
    for name in imported:
        other = package_of(name)
        if other is not None and other != mine and (LEVEL[other] < LEVEL[mine] or (mine, other) in APART):
            wrong.append(f"{module} imports {name}")
    return wrong


MODULES = shipped_modules()


def test_every_module_has_a_level():
    """A new package must be given its place in LEVELS, and none is listed that is gone."""
    homeless = [module for module in MODULES if module != "gradskip_onnx" and package_of(module) is None]

    assert homeless == []
    assert set(LEVEL) == {package_of(module) for module in MODULES} - {None}


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_down(module: str):
    """No module imports from a level above it."""
    assert upward(module, imports_of(module, MODULES[module])) == []


def test_packages_form_no_circle():
    """Also within a level one comes before the other; what errors.py imports for its types does not count."""
    uses: dict[str, set[str]] = {name: set() for name in LEVEL}
    for module, path in MODULES.items():
        mine = package_of(module)
        if mine is not None and mine != "errors":
            uses[mine] |= {other for name in imports_of(module, path) if (other := package_of(name))} - {mine}

    TopologicalSorter(uses).prepare()  # raises CycleError, which names the circle


BRIDGES = {"exporters", "adapters"}  # between torch and us


@pytest.mark.parametrize("module", [m for m in MODULES if package_of(m) not in BRIDGES])
def test_run_time_needs_no_training_framework(module: str):
    """torch and its friends are used by the exporters and by bridges to packages built on them."""
    roots = {name.split(".")[0] for name in imports_of(module, MODULES[module])}

    assert roots.isdisjoint(TRAINING_FRAMEWORKS)


@pytest.mark.parametrize("module", [m for m in MODULES if package_of(m) in BRIDGES])
def test_bridges_import_torch_when_called(module: str):
    """Importing an exporter or an adapter must work where torch is missing."""
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    top = {a.name.split(".")[0] for n in tree.body if isinstance(n, ast.Import) for a in n.names}
    top |= {(n.module or "").split(".")[0] for n in tree.body if isinstance(n, ast.ImportFrom) and not n.level}

    assert top.isdisjoint(TRAINING_FRAMEWORKS)


PLANTED = {
    "from gradskip_onnx.api import load": "gradskip_onnx.graph.read.load",
    "from gradskip_onnx.passes.run_plan import run_plan": "gradskip_onnx.autodiff.engine",
    "from ..graph.index import index": "gradskip_onnx.autodiff.engine",
    "def f():\n    import gradskip_onnx.cli.main": "gradskip_onnx.api",
    "from . import api": "gradskip_onnx.types",
}


@pytest.mark.parametrize(("code", "module"), PLANTED.items())
def test_the_guard_sees_violations(code: str, module: str, tmp_path: Path):
    """The check itself must be able to fail."""
    planted = tmp_path / "planted.py"
    planted.write_text(code)

    assert upward(module, imports_of(module, planted))
