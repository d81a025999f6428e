"""Options of methods and metrics: fields that document themselves, settled from names and values, and their label."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import Field, field, fields
from typing import Any

from gradskip_onnx.errors import InputError


def option(default: Any, help: str, **limits: Any) -> Any:
    """A dataclass field that documents itself: `choices` for names, `low` and `high` (inclusive) for numbers."""
    return field(default=default, metadata={"help": help, **limits})


def settle(what: str, kind: type[Any], given: Mapping[str, Any]) -> Any:
    """The options of `what` ("method rise"), an instance of `kind`; unknown names and values are refused."""
    known = [each.name for each in fields(kind)]
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise InputError(f"{what} has no option {unknown[0]!r}; known: {', '.join(known) or '(none)'}")
    options = kind(**given)
    for each in fields(options):
        value = getattr(options, each.name)
        if not _allowed(each, value):
            raise InputError(f"{what} option {each.name}: got {value!r}, allowed: {_describe(each)}")
    return options


def label(name: str, options: Any) -> str:
    """The name and whatever differs from the defaults: `gradskip[gamma=0.1]`."""
    told = [each.name for each in fields(options) if getattr(options, each.name) != each.default]
    listing = ",".join(f"{each}={getattr(options, each)}" for each in told)
    return f"{name}[{listing}]" if told else name


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
