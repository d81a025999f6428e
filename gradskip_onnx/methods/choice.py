"""A method chosen by name, with checked options, ready to run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from gradskip_onnx.errors import InputError, UnsupportedModelError
from gradskip_onnx.instrument.pass_request import PassRequest
from gradskip_onnx.types import Architecture, Relevance, Trace

from .options import label, settle
from .passes import Passes
from .table import METHODS, Cost, Method


@dataclass(frozen=True, slots=True)
class MethodChoice:
    """A row of the table with its options; `options` is an instance of `row.options`."""

    row: Method
    options: Any
    given: frozenset[str] = field(default=frozenset(), compare=False)  # options that were named, not left to defaults
    source: str = field(default="", compare=False)  # where the others come from, if not from the method

    @property
    def label(self) -> str:
        """The name and all options that differ from their defaults: `gradskip[gamma=0.1]`."""
        return label(self.row.name, self.options)

    @property
    def settings(self) -> dict[str, Any]:
        return asdict(self.options)

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

    def check(self, architecture: Architecture) -> None:
        """Raise UnsupportedModelError if the method cannot explain this model."""
        if reason := self.row.refuses(architecture):
            what = f"method {self.row.name} cannot explain this model"
            raise UnsupportedModelError("not-for-method", f"{what}: {reason}")

    def request(self, architecture: Architecture, score: str) -> PassRequest:
        """The first pass that the method needs; `score` is the user's, used unless the method has its own."""
        row, options = self.row, self.options
        return PassRequest(row.needs(options, architecture), row.seed(options) or score, row.rules(options))

    def run(self, trace: Trace, architecture: Architecture, passes: Passes) -> Relevance:
        """Run the method on the trace of that pass; the result carries the method's name and options."""
        found = self.row.run(trace, architecture, self.options, passes)
        notes = (*found.notes, *filter(None, (self.note,)))
        return replace(found, method=self.row.name, options=self.settings, notes=notes)


def find_method(name: str) -> Method:
    """The row of the table with this name; an unknown name raises InputError."""
    if name not in METHODS:
        raise InputError(f"unknown method {name!r}; known: {', '.join(sorted(METHODS))}")
    return METHODS[name]


def choose_method(name: str, **options: Any) -> MethodChoice:
    """Look up a method and check its options; unknown names, options and values raise InputError."""
    row = find_method(name)
    return MethodChoice(row, settle(f"method {name}", row.options, options), frozenset(options))
