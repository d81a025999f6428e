"""A method as it is used: looked up by its name, its options settled."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from gradskip_onnx.errors import InputError, UnsupportedModelError
from gradskip_onnx.instrument.pass_request import PassRequest
from gradskip_onnx.types import Architecture, Relevance, Trace

from .options import label, settle
from .passes import Passes
from .table import METHODS, Cost, Method


@dataclass(frozen=True, slots=True)
class MethodChoice:
    """A method with its options settled."""

    row: Method
    options: Any

    @property
    def label(self) -> str:
        """The name and whatever differs from the defaults: `gradskip[gamma=0.1]`."""
        return label(self.row.name, self.options)

    @property
    def settings(self) -> dict[str, Any]:
        return asdict(self.options)

    @property
    def cost(self) -> Cost:
        return self.row.cost(self.options)

    @property
    def own_score(self) -> bool:
        """Whether it differentiates a score of its own, whatever the user asks for."""
        return self.row.seed(self.options) is not None

    def check(self, architecture: Architecture) -> None:
        """Refuse a model that it cannot explain."""
        if reason := self.row.refuses(architecture):
            what = f"method {self.row.name} cannot explain this model"
            raise UnsupportedModelError("not-for-method", f"{what}: {reason}")

    def request(self, architecture: Architecture, score: str) -> PassRequest:
        """The pass it asks for first; `score` is the user's, for methods that have none of their own."""
        row, options = self.row, self.options
        return PassRequest(row.needs(options, architecture), row.seed(options) or score, row.rules(options))

    def run(self, trace: Trace, architecture: Architecture, passes: Passes) -> Relevance:
        """Its scores for a pass, with its name and options."""
        found = self.row.run(trace, architecture, self.options, passes)
        return replace(found, method=self.row.name, options=self.settings)


def find_method(name: str) -> Method:
    """A row of the table."""
    if name not in METHODS:
        raise InputError(f"unknown method {name!r}; known: {', '.join(sorted(METHODS))}")
    return METHODS[name]


def choose_method(name: str, **options: Any) -> MethodChoice:
    """A method by its name; unknown names, options and values are refused."""
    row = find_method(name)
    return MethodChoice(row, settle(f"method {name}", row.options, options))
