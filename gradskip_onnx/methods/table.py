"""The table of methods; a row holds the name, the options, the tensors a pass must expose, and one pure function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gradskip_onnx.autodiff.rulesets.choice import TRUE_GRADIENT, Rules
from gradskip_onnx.autodiff.scores.seeds import Seed
from gradskip_onnx.types import Architecture, Needs, Relevance, Trace

from .passes import Passes

Run = Callable[[Trace, Architecture, Any, Passes], Relevance]


@dataclass(frozen=True, slots=True)
class Cost:
    """Number of forward and backward passes through the model for one image."""

    forwards: int
    backwards: int = 0
    note: str = ""  # says so if the numbers depend on the image, or if passes run only part of the model
    at_once: int = 1  # backward passes inside one instrumented graph: running it once costs them all


@dataclass(frozen=True, slots=True)
class Method:
    """One row: `run(trace, architecture, options, passes)` turns the trace of one pass into scores.

    `run` may ask `passes` for further passes. `options` is a frozen dataclass whose fields are made by `option`. The
    other functions take its instance: `needs` says what the pass exposes of which blocks, `rules` how it is
    differentiated, `seed` which score (None: the user's choice), `cost` how many passes run. `refuses` returns the
    reason why a model cannot be explained by this method, or "".
    """

    name: str
    summary: str
    reference: str
    options: type[Any]
    needs: Callable[[Any, Architecture], Needs]
    run: Run
    cost: Callable[[Any], Cost]
    rules: Callable[[Any], Rules] = lambda _: TRUE_GRADIENT
    seed: Callable[[Any], Seed | None] = lambda _: None
    refuses: Callable[[Architecture], str] = lambda _: ""


METHODS: dict[str, Method] = {}
DEFAULT = "gradskip+"  # the evidence is in docs/gradskip_plus.md


def method(row: Method) -> Method:
    """Add a row to the table; a second row of the same name raises ValueError."""
    if row.name in METHODS:
        raise ValueError(f"method {row.name!r} is registered twice")
    METHODS[row.name] = row
    return row


def one_pass(run: Callable[[Trace, Architecture, Any], Relevance]) -> Run:
    """Turn a function without the argument `passes` into the `run` of a row."""
    return lambda trace, architecture, options, _passes: run(trace, architecture, options)


def one_backward(_options: Any) -> Cost:
    """The cost of one forward and one backward pass."""
    return Cost(1, 1)
