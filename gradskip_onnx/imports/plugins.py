"""Rows that other installed packages add to our tables, found by their entry points and imported when asked for.

A package names its rows in the metadata of its installation (`[project.entry-points."gradskip_onnx.methods"]`), so that
nothing of it is imported before a row is used: names of our own never look for packages at all.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from gradskip_onnx.errors import GradskipError, InputError

R = TypeVar("R")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]*")  # can be typed in a list of names, and be part of a file name
RESERVED = {"all"}  # in lists of names it stands for every other


class PluginWarning(UserWarning):
    """A row of an installed package that cannot be used; everything else works without it."""


class PluginError(GradskipError):
    """A row of an installed package that was asked for and does not work; the message names the package."""


@dataclass(frozen=True, slots=True)
class PluginRows(Generic[R]):
    """The rows that packages add to one table.

    `what` names a row in messages ("method"), `group` is the group of entry points, a row is an instance of `kind`, and
    `check` raises if one cannot be used. The table of our own rows is given with each question; a package cannot
    replace one of them.
    """

    what: str
    group: str
    kind: type[R]
    check: Callable[[R], object] = lambda _: None

    def find(self, name: str, own: Mapping[str, R]) -> R:
        """The row of this name; an unknown name raises InputError, a package that fails PluginError."""
        if name in own:
            return own[name]
        named = _by_name(self.group)
        if name not in named:
            raise InputError(f"unknown {self.what} {name!r}; known: {', '.join(sorted({*own, *named}))}")
        return self._load(name, own)

    def every(self, own: Mapping[str, R]) -> dict[str, R]:
        """Our own rows, then those of packages; one that cannot be used is left out with a PluginWarning."""
        rows = dict(own)
        for name in _by_name(self.group):
            try:
                rows[name] = self._load(name, own)
            except PluginError as error:
                warnings.warn(f"{error}; it is left out", PluginWarning, stacklevel=2)
        return rows

    def package(self, name: str, own: Mapping[str, R]) -> str:
        """The package that brings a row, with its version; empty for a row of our own."""
        found = () if name in own else _by_name(self.group).get(name, ())
        return _package(found[0]) if found else ""

    @contextmanager
    def blame(self, name: str, own: Mapping[str, R]) -> Iterator[None]:
        """Turn what the code of a package raises into a PluginError that names it; our own errors pass."""
        try:
            yield
        except GradskipError:
            raise
        except Exception as error:
            package = self.package(name, own)
            if not package:
                raise
            raise PluginError(f"{self.what} {name} of the package {package} failed: {_text(error)}") from error

    def _load(self, name: str, own: Mapping[str, R]) -> R:
        found = _by_name(self.group)[name]
        owner = f"{self.what} {name!r} of the package {_package(found[0])}"
        if name in own:
            raise PluginError(f"{owner}: we have one of this name; rename the entry point")
        if len(found) > 1:
            others = " and ".join(_package(entry) for entry in found)
            raise PluginError(f"{self.what} {name!r} is brought by {others}; uninstall all but one")
        if NAME.fullmatch(name) is None or name in RESERVED:
            raise PluginError(f"{owner}: a name has letters, digits and + . _ -, and is not {', '.join(RESERVED)}")
        with _whatever_it_raises(f"{owner} cannot be loaded"):
            row = found[0].load()
        if not isinstance(row, self.kind):
            raise PluginError(f"{owner}: {found[0].value} is a {type(row).__name__}, expected a {self.kind.__name__}")
        if getattr(row, "name", None) != name:
            raise PluginError(f"{owner}: the row calls itself {getattr(row, 'name', None)!r}; both must be the same")
        with _whatever_it_raises(f"{owner} cannot be used"):
            self.check(row)
        return row


@contextmanager
def _whatever_it_raises(what: str) -> Iterator[None]:
    """Turn whatever code of strangers raises into a PluginError that begins with `what`."""
    try:
        yield
    except (Exception, SystemExit) as error:
        raise PluginError(f"{what}: {_text(error)}") from error


@cache
def _by_name(group: str) -> Mapping[str, tuple[EntryPoint, ...]]:
    """The entry points of a group by name; the metadata of installed packages is read once per process."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in _distinct(entry_points(group=group)):
        found[entry.name] = (*found.get(entry.name, ()), entry)
    return dict(sorted(found.items()))


def _distinct(entries: Iterable[EntryPoint]) -> Iterator[EntryPoint]:
    """Each entry point once: a package that lies twice on the path is listed twice."""
    yield from {(entry.name, entry.value, _package(entry)): entry for entry in entries}.values()


def _package(entry: EntryPoint) -> str:
    return "(unknown)" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def _text(error: BaseException) -> str:
    """An error of somebody else on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
