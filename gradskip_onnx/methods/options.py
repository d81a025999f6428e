"""Checks the values of a method's options against what their fields allow."""

from __future__ import annotations

import math
from dataclasses import Field, field, fields
from typing import Any

from gradskip_onnx.errors import InputError


def option(default: Any, help: str, **limits: Any) -> Any:
    """A dataclass field that documents itself: `choices` for names, `low` and `high` (inclusive) for numbers."""
    return field(default=default, metadata={"help": help, **limits})


def check(method: str, options: Any) -> None:
    """Raise InputError at the first field of the dataclass `options` whose value is not allowed."""
    for each in fields(options):
        value = getattr(options, each.name)
        if not _allowed(each, value):
            raise InputError(f"{method} option {each.name}: got {value!r}, allowed: {_describe(each)}")


def _allowed(each: Field[Any], value: Any) -> bool:
    limits = each.metadata
    if "choices" in limits:
        return isinstance(value, str) and value in limits["choices"]
    if isinstance(each.default, bool):
        return isinstance(value, bool)
    kinds = int if isinstance(each.default, int) else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds):
        return False
    return bool(limits.get("low", -math.inf) <= value <= limits.get("high", math.inf))  # false for NaN


def _describe(each: Field[Any]) -> str:
    limits = each.metadata
    if "choices" in limits:
        return ", ".join(limits["choices"])
    if isinstance(each.default, bool):
        return "True, False"
    kind = "a whole number" if isinstance(each.default, int) else "a number"
    bounds = [f"{word} {limits[key]}" for key, word in (("low", "at least"), ("high", "at most")) if key in limits]
    return " ".join([kind, " and ".join(bounds)]).strip()
