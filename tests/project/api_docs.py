"""Prints docs/api.md from the public names and their docstrings: `python -m tests.project.api_docs > docs/api.md`."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import indent
from types import FunctionType

import gradskip_onnx

WIDTH = 110  # of a signature on one line
INTRODUCTION = """# The public names

This page is generated from signatures and docstrings: `python -m tests.project.api_docs > docs/api.md`.

What `gradskip_onnx.__all__` names is what other code may rely on; everything else can move. Arrays are NumPy's. A type
that is named below and not described is found in the module given with each heading.
"""


def page() -> str:
    """The whole page."""
    public = {name: getattr(gradskip_onnx, name) for name in gradskip_onnx.__all__}
    functions = [name for name, value in public.items() if isinstance(value, FunctionType)]
    classes = [name for name, value in public.items() if inspect.isclass(value)]
    plain = [name for name in public if name not in {*functions, *classes}]
    lines = [INTRODUCTION, "## Functions", ""]
    for name in functions:
        lines += described_function(name, public[name])
    lines += ["## Classes", ""]
    for name in classes:
        lines += described_class(name, public[name])
    lines += ["## Values", "", *(f"- `gradskip_onnx.{name}`: a `{type(public[name]).__name__}`." for name in plain)]
    return "\n".join(lines) + "\n"


def described_function(name: str, function: FunctionType) -> list[str]:
    tree = ast.parse(source_file(function).read_text(encoding="utf-8"))
    return [*heading(name, function), *calls(tree.body, name, function.__globals__), "", prose(function), ""]


def described_class(name: str, kind: type) -> list[str]:
    lines = source_file(kind).read_text(encoding="utf-8").splitlines()
    (tree,) = [n for n in ast.parse("\n".join(lines)).body if isinstance(n, ast.ClassDef) and n.name == name]
    found = [*heading(name, kind), prose(kind), ""]
    rows = [*fields(tree, lines), *properties(tree, kind)]
    if rows:
        found += ["| field | type | meaning |", "|---|---|---|", *rows, ""]
    for method in dict.fromkeys(node.name for node in public_functions(tree) if not is_property(node)):
        found += [f"#### `{name}.{method}`", "", *calls(tree.body, method, vars(sys.modules[kind.__module__])), ""]
        found += [text, ""] if (text := prose(getattr(kind, method))) else []
    return found


def heading(name: str, value: type | FunctionType) -> list[str]:
    return [f"### `gradskip_onnx.{name}`", "", f"In `{value.__module__}`.", ""]


def source_file(value: type | FunctionType) -> Path:
    return Path(inspect.getfile(value))


def prose(value: object) -> str:
    return inspect.cleandoc(inspect.getdoc(value) or "")


def public_functions(tree: ast.ClassDef) -> list[ast.FunctionDef]:
    return [node for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]


def is_property(node: ast.FunctionDef) -> bool:
    return "property" in map(ast.unparse, node.decorator_list)


def calls(body: list[ast.stmt], name: str, names: Mapping[str, object]) -> list[str]:
    """How a function is called: its overloads, or the one signature it has."""
    found = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == name]
    overloads = [node for node in found if "overload" in map(ast.unparse, node.decorator_list)]
    return ["```python", *(signature(node, names) for node in overloads or found), "```"]


def signature(node: ast.FunctionDef, names: Mapping[str, object]) -> str:
    """On one line where it fits; `self` is left out, a default that is a constant by name is shown by its value."""
    given = node.args
    given.args = [argument for argument in given.args if argument.arg not in ("self", "cls")]
    for defaults in (given.defaults, given.kw_defaults):
        for default in defaults:
            if isinstance(default, ast.Name):
                default.id = repr(names[default.id])
    parts = [re.sub(r"(: [^=]+)=", r"\1 = ", part.strip()) for part in split_arguments(ast.unparse(given))]
    result = ast.unparse(node.returns) if node.returns else "None"
    line = f"{node.name}({', '.join(parts)}) -> {result}"
    if len(line) > WIDTH:
        line = "\n".join([f"{node.name}(", indent(",\n".join(parts) + ",", "    "), f") -> {result}"])
    return line.replace("'", '"')


def split_arguments(text: str) -> Iterator[str]:
    """At the commas that are in no bracket."""
    depth, start = 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            yield text[start:at]
            start = at + 1
    yield text[start:]


def fields(tree: ast.ClassDef, lines: list[str]) -> Iterator[str]:
    """A row for each field; its meaning is the comment beside it."""
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            comment = re.search(r"\s# (.*)$", lines[(node.end_lineno or 1) - 1])
            yield row(node.target.id, ast.unparse(node.annotation), comment[1] if comment else "")
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield row(node.targets[0].id, "", f"`{ast.unparse(node.value)}`")


def properties(tree: ast.ClassDef, kind: type) -> Iterator[str]:
    for node in public_functions(tree):
        if is_property(node) and node.returns:
            yield row(node.name, ast.unparse(node.returns), prose(getattr(kind, node.name)))


def row(name: str, kind: str, meaning: str) -> str:
    shown = "`" + kind.replace("|", "\\|").replace("'", '"') + "`" if kind else ""
    return f"| `{name}` | {shown} | {meaning} |".replace("  ", " ")


if __name__ == "__main__":
    print(page(), end="")
