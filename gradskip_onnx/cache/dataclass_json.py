"""Frozen dataclasses to JSON and back, by the types of their fields; what does not fit them is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

T = TypeVar("T")


def as_plain(record: Any) -> Any:
    """Objects, lists, numbers, words."""
    if is_dataclass(record):
        return {field.name: as_plain(getattr(record, field.name)) for field in fields(record)}
    if isinstance(record, tuple | list):
        return [as_plain(entry) for entry in record]
    if isinstance(record, Mapping):
        return {key: as_plain(value) for key, value in record.items()}
    return record.str if isinstance(record, np.dtype) else record


def from_plain(kind: type[T], document: Any) -> T:
    """The inverse of `as_plain`; raises ValueError where a value is not of the type of its field."""
    found: T = _read(kind, document)
    return found


def encode(record: Any) -> bytes:
    return json.dumps(as_plain(record), separators=(",", ":")).encode()


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind)


def _read(hint: Any, value: Any) -> Any:
    origin, parts = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        if not isinstance(value, dict):
            raise ValueError(f"an object is expected, got {type(value).__name__}")
        hints = _hints(hint)  # type: ignore[arg-type]
        return hint(**{key: _read(hints[key], entry) for key, entry in value.items()})  # type: ignore[operator]
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):  # a NamedTuple
        named = _hints(hint)
        return hint(*(_read(named[name], entry) for name, entry in zip(hint._fields, value, strict=True)))
    if origin in (Union, UnionType):
        (inner,) = (part for part in parts if part is not NoneType)
        return None if value is None else _read(inner, value)
    if origin is tuple:
        kinds = parts[:1] * len(value) if parts[-1] is Ellipsis else parts
        return tuple(_read(part, entry) for part, entry in zip(kinds, value, strict=True))
    if origin is Literal:
        if value not in parts:
            raise ValueError(f"{value!r} is none of {parts}")
        return value
    if origin is not None and issubclass(origin, Mapping):
        return {key: _read(parts[1], entry) for key, entry in value.items()}
    if origin is np.dtype or hint is np.dtype:
        return np.dtype(value)
    if hint is float and isinstance(value, int):
        return float(value)
    if not isinstance(value, hint):
        raise ValueError(f"{hint.__name__} is expected, got {value!r:.80}")
    return value
