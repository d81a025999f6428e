"""Installed packages that bring rows, made of two files each: metadata with entry points, and a module."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

METHOD = """
from dataclasses import dataclass
import numpy as np
from gradskip_onnx.plugins import Cost, Method, Needs, Relevance, option

@dataclass(frozen=True)
class Options:
    level: float = option(1.0, "the value of the first patch", low=0.0)

def run(trace, architecture, options, passes):
    scores = np.zeros(architecture.grid)
    scores[0, 0] = options.level
    return Relevance(scores)

ROW = Method({name!r}, "a corner", "a test", Options, lambda options, model: Needs(), run, lambda options: Cost(1))
"""


def install(
    folder: Path, package: str, groups: Mapping[str, Mapping[str, str]], code: str, version: str = "1.0"
) -> None:
    """Lay a package into `folder`, which must be on the path; `groups` maps groups of entry points to NAME: ROW.

    The module is called as the package, with underscores; `ROW` is the name of an attribute of it.
    """
    module = package.replace("-", "_")
    (folder / f"{module}.py").write_text(code, encoding="utf-8")
    home = folder / f"{module}-{version}.dist-info"
    home.mkdir(parents=True)
    (home / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n", encoding="utf-8")
    lines = [
        text
        for group, rows in groups.items()
        for text in (f"[gradskip_onnx.{group}]", *(f"{name} = {module}:{row}" for name, row in rows.items()))
    ]
    (home / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def install_method(folder: Path, package: str, name: str, code: str | None = None) -> None:
    """A package that brings one method of this name; by default it marks the upper left corner."""
    install(folder, package, {"methods": {name: "ROW"}}, METHOD.format(name=name) if code is None else code)
