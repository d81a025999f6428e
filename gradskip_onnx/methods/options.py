"""Options of methods and metrics: dataclass fields with help and limits, their checking and their label."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import Field, field, fields
from typing import Any

from gradskip_onnx.errors import InputError


def option(default: Any, help: str, **limits: Any) -> Any:
    """A dataclass field with a help text and limits: `choices` for names, `low` and `high` (inclusive) for numbers."""
    return field(default=default, metadata={"help": help, **limits})


def settle(owner: str, kind: type[Any], values: Mapping[str, Any]) -> Any:
    """An instance of the options dataclass `kind`; unknown names and values raise InputError.

    `owner` names the method or metric in messages: "method rise".
    """
    names = [entry.name for entry in fields(kind)]
    unknown = sorted(set(values) - set(names))
    if unknown:
        raise InputError(f"{owner} has no option {unknown[0]!r}; known: {', '.join(names) or '(none)'}")
    options = kind(**values)
    for entry in fields(options):
        value = getattr(options, entry.name)
        if not _allowed(entry, value):
            raise InputError(f"{owner} option {entry.name}: got {value!r}, allowed: {_describe(entry)}")
    return options


def label(name: str, options: Any) -> str:
    """The name and all options that differ from their defaults: `gradskip[gamma=0.1]`."""
    changed = [entry.name for entry in fields(options) if getattr(options, entry.name) != entry.default]
    listing = ",".join(f"{option_name}={getattr(options, option_name)}" for option_name in changed)
    return f"{name}[{listing}]" if changed else name


def _allowed(entry: Field[Any], value: Any) -> bool:
    limits = entry.metadata
    if "choices" in limits:
        return isinstance(value, str) and value in limits["choices"]
    if isinstance(entry.default, bool):
        return isinstance(value, bool)
    kinds = int if isinstance(entry.default, int) else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds):
        return False
    return bool(limits.get("low", -math.inf) <= value <= limits.get("high", math.inf))  # false for NaN


def _describe(entry: Field[Any]) -> str:
    limits = entry.metadata
    if "choices" in limits:
        return ", ".join(limits["choices"])
    if isinstance(entry.default, bool):
        return "True, False"
    kind = "a whole number" if isinstance(entry.default, int) else "a number"
    bounds = [f"{word} {limits[key]}" for key, word in (("low", "at least"), ("high", "at most")) if key in limits]
    return " ".join([kind, " and ".join(bounds)]).strip()
