"""Every module of a package imported, so that the rows they hold are in its table."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pkgutil import walk_packages


def import_modules(path: Iterable[str], package: str) -> None:
    """The modules under `path`, in the order of their names; a new row is then one new file."""
    for module in walk_packages(path, f"{package}."):
        import_module(module.name)
