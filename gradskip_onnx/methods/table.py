"""The table of methods: a name, what it needs of a pass, its options, and one pure function."""

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
    """Passes through the model for one image: forward ones, and backward ones on top of them."""

    forwards: int
    backwards: int = 0
    note: str = ""  # where the numbers depend on the image, or a pass is shorter than a whole one
    at_once: int = 1  # backward passes that the method's own graph holds


@dataclass(frozen=True, slots=True)
class Method:
    """One row: `run(trace, architecture, options, passes)` turns a pass, and further ones it asks for, into scores.

    `options` is a frozen dataclass whose fields are the named options, each with `metadata={"help": ...}`. Everything
    else is a function of them: what the pass must expose of which blocks, by which rules it is differentiated, what is
    differentiated (None: the score the user chose) and what it costs. `refuses` says why a model cannot be explained
    in this way.
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
    """Add a row to the table; a name can be taken once."""
    if row.name in METHODS:
        raise ValueError(f"method {row.name!r} is registered twice")
    METHODS[row.name] = row
    return row


def one_pass(run: Callable[[Trace, Architecture, Any], Relevance]) -> Run:
    """The function of a method that asks for no further passes."""
    return lambda trace, architecture, options, _passes: run(trace, architecture, options)


def one_backward(_options: Any) -> Cost:
    """One forward and one backward pass."""
    return Cost(1, 1)
