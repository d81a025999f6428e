"""The table of methods: a name, what it needs of a pass, its options, and one pure function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..types import Architecture, Needs, Relevance, Trace


@dataclass(frozen=True, slots=True)
class Method:
    """One row: `run(trace, architecture, options)` turns a pass into token scores.

    `options` is a frozen dataclass whose fields are the named options, each with `metadata={"help": ...}`;
    `needs(options)` says what the pass must expose.
    """

    name: str
    summary: str
    options: type[Any]
    needs: Callable[[Any], Needs]
    run: Callable[[Trace, Architecture, Any], Relevance]
    ruleset: str = "gradient"


METHODS: dict[str, Method] = {}


def method(row: Method) -> Method:
    """Add a row to the table; a name can be taken once."""
    if row.name in METHODS:
        raise ValueError(f"method {row.name!r} is registered twice")
    METHODS[row.name] = row
    return row


from . import gradskip as gradskip  # noqa: E402  the rows are added when their files are read
