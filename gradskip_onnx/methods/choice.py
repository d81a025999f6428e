"""A method chosen by name, with checked options, ready to run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.imports.plugins import PluginRows
from gradskip_onnx.instrument.pass_request import PassRequest
from gradskip_onnx.types import Architecture, Relevance, Trace

from .options import label, settle
from .passes import Passes
from .table import METHODS, Cost, Method


def _try_out(row: Method) -> None:
    """Raise what a listing would stumble over: options that are no dataclass or lack defaults, a cost that fails."""
    fields(row.options)
    row.cost(row.options())


PLUGINS: PluginRows[Method] = PluginRows("method", "gradskip_onnx.methods", Method, _try_out)


@dataclass(frozen=True, slots=True)
class MethodChoice:
    """A row of the table with its options; `options` is an instance of `row.options`."""

    row: Method
    options: Any
    given: frozenset[str] = field(default=frozenset(), compare=False)  # options that were named, not left to defaults
    source: str = field(default="", compare=False)  # where the others come from, if not from the method
    asked: bool = field(default=True, compare=False)  # whether the user named the method, or took what comes

    @property
    def label(self) -> str:
        """The name and all options that differ from their defaults: `gradskip[gamma=0.1]`."""
        return label(self.row.name, self.options)

    @property
    def settings(self) -> dict[str, Any]:
        return asdict(self.options)

    @property
    def package(self) -> str:
        """The installed package that brings the method, with its version; empty for a method of our own."""
        return PLUGINS.package(self.row.name, METHODS)

    @property
    def note(self) -> str:
        """Where options come from that nobody named; empty for the defaults of the method."""
        return f"options from {self.source}" if self.source else ""

    @property
    def cost(self) -> Cost:
        return self.row.cost(self.options)

    @property
    def own_score(self) -> bool:
        """Whether the method fixes the score that is differentiated; the user's choice of a score is then ignored."""
        return self.row.seed(self.options) is not None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its name and options: the row of the table holds functions that no other process could find."""
        return _chosen_again, (self.row.name, self.settings, self.given, self.source)

    def refuses(self, architecture: Architecture) -> str:
        """Why the method cannot explain this model; empty if it can."""
        with PLUGINS.blame(self.row.name, METHODS):
            return self.row.refuses(architecture)

    def check(self, architecture: Architecture) -> None:
        """Raise UnsupportedModelError if the method cannot explain this model."""
        if reason := self.refuses(architecture):
            what = f"method {self.row.name} cannot explain this model"
            raise UnsupportedModelError("not-for-method", f"{what}: {reason}")

    def request(self, architecture: Architecture, score: str) -> PassRequest:
        """The first pass that the method needs; `score` is the user's, used unless the method has its own."""
        row, options = self.row, self.options
        with PLUGINS.blame(row.name, METHODS):
            return PassRequest(row.needs(options, architecture), row.seed(options) or score, row.rules(options))

    def run(self, trace: Trace, architecture: Architecture, passes: Passes) -> Relevance:
        """Run the method on the trace of that pass; the result carries the method's name, options and package."""
        with PLUGINS.blame(self.row.name, METHODS):
            found = self.row.run(trace, architecture, self.options, passes)
            if self.package:
                _check(found)
        notes = (*found.notes, *filter(None, (self.note, self.package and f"method of the package {self.package}")))
        return replace(found, method=self.row.name, options=self.settings, notes=notes)


def _check(found: Relevance) -> None:
    """Raise ValueError unless a package's method gave what ours are tested to give."""
    if not isinstance(found, Relevance):
        raise ValueError(f"it returned a {type(found).__name__}, expected a Relevance")
    if np.ndim(found.scores) != 2 or not np.isfinite(found.scores).all():
        raise ValueError(f"scores must be finite numbers (rows, columns), got an array of {np.shape(found.scores)}")


def find_method(name: str) -> Method:
    """The method of this name, ours or of an installed package; an unknown name raises InputError."""
    return PLUGINS.find(name, METHODS)


def every_method() -> list[Method]:
    """Every method, ours and of installed packages, by name."""
    rows = PLUGINS.every(METHODS)
    return [rows[name] for name in sorted(rows)]


def choose_method(name: str, **options: Any) -> MethodChoice:
    """Look up a method and check its options; unknown names, options and values raise InputError."""
    row = find_method(name)
    with PLUGINS.blame(name, METHODS):
        return MethodChoice(row, settle(f"method {name}", row.options, options), frozenset(options))


def _chosen_again(name: str, settings: dict[str, Any], given: frozenset[str], source: str) -> MethodChoice:
    return replace(choose_method(name, **settings), given=given, source=source)
