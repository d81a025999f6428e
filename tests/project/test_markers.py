"""Tests that need PyTorch are marked `torch`, and no others, so `-m "not torch"` neither breaks nor drops tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
FRAMEWORKS = {
    "torch", "torchvision", "timm", "transformers", "onnxscript", "captum", "pytorch_grad_cam", "lxt", "zennit",
}  # fmt: skip
MODULES = sorted((ROOT / "tests").rglob("test_*.py"))
MARK = "pytest.mark.torch"


def imported(node: ast.AST, package: str) -> Iterator[str]:
    """Full names an import statement or `pytest.importorskip` asks for; a name that is computed may be any."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        stem = f"{package}.{node.module or ''}".rstrip(".") if node.level else node.module or ""
        yield from (stem, *(f"{stem}.{alias.name}" for alias in node.names))
    elif isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.importorskip":
        yield str(node.args[0].value) if isinstance(node.args[0], ast.Constant) else "torch"


def functions(tree: ast.Module) -> list[ast.FunctionDef]:
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def at_import(tree: ast.Module) -> Iterator[ast.AST]:
    """Every node that is run when the module is imported, in order; imports for types alone are not."""
    for statement in tree.body:
        for_types = isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING"
        if not for_types and not isinstance(statement, ast.FunctionDef | ast.ClassDef):
            yield from ast.walk(statement)


def package_of(path: Path) -> str:
    return ".".join(path.parent.relative_to(ROOT).parts) if path.is_relative_to(ROOT) else "tests"


def source_of(name: str) -> Path | None:
    """The file of one of our modules that are not shipped: helpers of tests, and benchmarks."""
    if name.split(".")[0] not in ("tests", "benchmarks"):
        return None
    folder = ROOT.joinpath(*name.split("."))
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


def reaches_torch(path: Path, seen: set[Path]) -> bool:
    """Whether importing the file imports a framework, itself or through a helper."""
    if path in seen or not path.is_file():
        return False
    seen.add(path)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = [name for node in at_import(tree) for name in imported(node, package_of(path))]
    if any(name.split(".")[0] in FRAMEWORKS for name in names):
        return True
    return any(reaches_torch(source, seen) for name in names if (source := source_of(name)))


def skips_first(tree: ast.Module, package: str) -> bool:
    """`pytest.importorskip("torch")` stands before every import that would fail without torch."""
    for node in at_import(tree):
        names = list(imported(node, package))
        if isinstance(node, ast.Call) and names == ["torch"]:
            return True
        if any(n.split(".")[0] in FRAMEWORKS or ((s := source_of(n)) and reaches_torch(s, set())) for n in names):
            return False
    return False


def faults(path: Path) -> list[str]:
    """What is wrong with the marks of a test module: it needs torch as a whole, in single tests, or not at all."""
    tree, package = ast.parse(path.read_text(encoding="utf-8")), package_of(path)
    marks = [ast.unparse(n) for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n).startswith("pytestmark")]
    marked = any(MARK in text for text in marks)
    if reaches_torch(path, set()):
        wanted = {
            f"imports a framework: add `pytestmark = {MARK}`": marked,
            'put `pytest.importorskip("torch")` before its imports': skips_first(tree, package),
        }
        return [fault for fault, good in wanted.items() if not good]
    found = ["is marked, but imports no framework"] if marked else []
    return found + [fault for function in functions(tree) if (fault := fault_of(function, package, ast.unparse(tree)))]


def fault_of(function: ast.FunctionDef, package: str, module: str) -> str:
    """The same for a function of a module that can be imported without torch."""
    uses = any(n.split(".")[0] in FRAMEWORKS for node in ast.walk(function) for n in imported(node, package))
    marked = MARK in map(ast.unparse, function.decorator_list)
    if marked and not uses:
        return f"{function.name} is marked, but uses no framework"
    if not uses or marked:
        return ""
    if function.name.startswith("test_"):
        return f"{function.name} needs @{MARK}"
    return "" if f"marks={MARK}" in module else f"{function.name}: mark the rows that call it by `marks={MARK}`"


@pytest.mark.parametrize("path", MODULES, ids=[str(path.relative_to(ROOT)) for path in MODULES])
def test_what_needs_torch_says_so(path: Path):
    assert faults(path) == []


PLANTED = {
    "import torch": "pytestmark",
    "from tests.support.torch_vits import pair": "importorskip",
    "pytest.importorskip('torch')\nimport torch": "pytestmark",
    "import torch\npytest.importorskip('torch')\npytestmark = pytest.mark.torch": "before its imports",
    "pytestmark = pytest.mark.torch": "no framework",
    "def test_it():\n    import timm": "test_it needs",
    "def test_it():\n    pytest.importorskip('torchvision.transforms')": "test_it needs",
    "def helper():\n    import torch": "rows that call it",
    "@pytest.mark.torch\ndef test_it():\n    pass": "uses no framework",
}


@pytest.mark.parametrize(("code", "fault"), PLANTED.items())
def test_the_guard_sees_faults(code: str, fault: str, tmp_path: Path):
    """The check itself must be able to fail."""
    planted = tmp_path / "test_planted.py"
    planted.write_text(code)

    assert any(fault in message for message in faults(planted))
