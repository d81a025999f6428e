"""docs/architecture.md is true to the code: its drawing names the packages, their levels and real imports."""

from __future__ import annotations

import re
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from .test_layers import LEVEL, LEVELS, MODULES, imports_of, package_of

PAGE = (Path(__file__).parent.parent.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
DRAWING = PAGE.split("```mermaid\n")[1].split("```")[0]
NAME = r'(\w+)(?:\s*\["(\w+)"\])?'  # an identifier, or one with a label: `graph` alone is a word of mermaid's own


def drawn() -> tuple[dict[str, tuple[str, ...]], list[tuple[str, str]]]:
    """The packages of each level, from the top down, and the arrows between packages."""
    levels: dict[str, tuple[str, ...]] = {}
    labels: dict[str, str] = {}
    arrows = []
    for line in DRAWING.splitlines()[1:]:
        if found := re.fullmatch(rf"\s*subgraph {NAME}", line):
            levels[found[2] or found[1]] = ()
        elif found := re.fullmatch(r"\s*(\w+) --> (\w+)", line):
            arrows.append((labels[found[1]], labels[found[2]]))
        elif line.strip() != "end":
            found = re.fullmatch(rf"\s*{NAME}", line)
            assert found, f"not understood: {line!r}"
            labels[found[1]] = found[2] or found[1]
            levels[list(levels)[-1]] += (labels[found[1]],)
    return levels, arrows


def imports_between_packages() -> set[tuple[str, str]]:
    pairs = {(package_of(m), package_of(name)) for m, path in MODULES.items() for name in imports_of(m, path)}
    return {(mine, other) for mine, other in pairs if mine and other and mine != other}


def test_every_package_is_drawn_on_its_level():
    levels, _ = drawn()

    assert list(levels) == list(LEVELS)  # from the top down
    assert {name: set(packages) for name, packages in levels.items()} == {n: set(p) for n, p in LEVELS.items()}


def test_every_arrow_is_an_import_and_none_points_up():
    (_, arrows), real = drawn(), imports_between_packages()

    assert [arrow for arrow in arrows if arrow not in real] == []
    assert [(mine, other) for mine, other in arrows if LEVEL[mine] > LEVEL[other]] == []
    assert len(arrows) == len(set(arrows))


def test_every_package_has_a_paragraph():
    described = {name for line in re.findall(r"^\*\*.*? —", PAGE, re.MULTILINE) for name in re.findall(r"\w+", line)}

    assert described == set(LEVEL)


REFERENCES = sorted(set(re.findall(rf"`((?:{'|'.join(LEVEL)})(?:\.\w+)+)`", PAGE)))


@pytest.mark.parametrize("reference", REFERENCES)
def test_names_in_the_page_exist(reference: str):
    """`package.module.function` leads somewhere."""
    parts = reference.split(".")
    module: Any = None
    for count in range(1, len(parts) + 1):
        try:
            module = import_module(".".join(["gradskip_onnx", *parts[:count]]))
        except ModuleNotFoundError:
            reduce(getattr, parts[count - 1 :], module)
            return


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:[\w]+/)+\w+\.py)`", PAGE))))
def test_files_in_the_page_exist(path: str):
    root = Path(__file__).parent.parent.parent

    assert (root / path).is_file() or (root / "gradskip_onnx" / path).is_file()
