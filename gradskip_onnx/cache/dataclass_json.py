"""Frozen dataclasses to JSON and back, by the types of their fields; what does not fit them is refused.

Own code: msgspec takes 13 ms to import and writes an infinite float as null, which it then refuses to read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

T = TypeVar("T")
PLAIN = (NoneType, bool, int, float, str)


def as_plain(record: Any) -> Any:
    """Objects, lists, numbers, words."""
    if is_dataclass(record):
        return {field.name: as_plain(getattr(record, field.name)) for field in fields(record)}
    if isinstance(record, tuple | list):
        return [as_plain(entry) for entry in record]
    if isinstance(record, Mapping):
        return {key: as_plain(value) for key, value in record.items()}
    if isinstance(record, np.dtype):
        return record.str if np.dtype(record.str) == record else record.name  # by `str` bfloat16 is just two bytes
    return record


def encode(record: Any) -> bytes:
    """`as_plain` as bytes; refuses dataclasses that `from_plain` could not read, before one is written in vain."""
    for part in record if isinstance(record, tuple) else (record,):
        if is_dataclass(part):
            _readers(type(part))
    return json.dumps(as_plain(record), separators=(",", ":")).encode()


def from_plain(kind: type[T], document: Any) -> T:
    """The inverse of `as_plain`.

    Raises ValueError where a value is not of the type of its field, and TypeError, whatever the document, where a
    field has a type that is not read.
    """
    found: T = _record(kind)(document)
    return found


@dataclass(frozen=True, slots=True)
class _Reader:
    """How a value is read that JSON gives as one of the types named."""

    given: frozenset[type]
    read: Callable[[Any], Any]

    def __call__(self, value: Any) -> Any:
        if type(value) not in self.given:
            names = " or ".join(sorted(kind.__name__ for kind in self.given))
            raise ValueError(f"{names} is expected, got {value!r:.80}")
        return self.read(value)


_KNOWN: dict[type, dict[str, _Reader]] = {}


def _readers(kind: type) -> dict[str, _Reader]:
    """A reader for each field of a dataclass; made when the class is first used, and refused then or never."""
    if kind in _KNOWN:
        return _KNOWN[kind]
    before = dict(_KNOWN)
    made = _KNOWN[kind] = {}  # filled below: a class may hold others of its kind
    try:
        hints = get_type_hints(kind)
        made |= {name: _reader(hints[name], f"{kind.__qualname__}.{name}") for name in (f.name for f in fields(kind))}
    except (NameError, TypeError) as failure:
        _KNOWN.clear()  # also classes that hold this one
        _KNOWN.update(before)
        if isinstance(failure, NameError):
            raise TypeError(f"{kind.__qualname__}: a type is not known at run time: {failure}") from failure
        raise
    return made


def _record(kind: type) -> _Reader:
    readers = _readers(kind)

    def read(value: Any) -> Any:
        if value.keys() != readers.keys():
            raise ValueError(f"{kind.__qualname__} has the fields {', '.join(readers)}, got {', '.join(value)}")
        return kind(**{name: reader(value[name]) for name, reader in readers.items()})

    return _Reader(frozenset({dict}), read)


def _reader(hint: Any, where: str) -> _Reader:
    origin, parts = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return _record(hint)
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
        return _named_tuple(hint, where)
    if origin in (Union, UnionType):
        return _union(hint, where)
    if origin is tuple and parts:
        return _tuple(parts, where)
    if origin is Literal and all(type(part) in PLAIN for part in parts):
        return _Reader(frozenset(map(type, parts)), lambda value: _one_of(parts, value))
    if isinstance(origin, type) and issubclass(origin, Mapping) and parts[0] is str:
        inner = _reader(parts[1], where)
        return _Reader(frozenset({dict}), lambda value: {key: inner(entry) for key, entry in value.items()})
    if origin is np.dtype or hint is np.dtype:
        return _Reader(frozenset({str}), _dtype)
    if hint is float:  # 1.0 may have been given as 1
        return _Reader(frozenset({float, int}), float)
    if hint in PLAIN:
        return _Reader(frozenset({hint}), lambda value: value)
    raise TypeError(f"{where}: values of type {hint} cannot be read back from JSON")


def _union(hint: Any, where: str) -> _Reader:
    """The member that takes a value is told by the type JSON gives it, so no two may take the same one."""
    members = get_args(hint)
    chosen: dict[type, _Reader] = {}
    for member in members:
        reader = _reader(member, where)
        given = reader.given - {int} if member is float and int in members else reader.given
        if not given.isdisjoint(chosen):
            raise TypeError(f"{where}: two members of {hint} look alike in JSON, so it cannot be read back")
        chosen |= dict.fromkeys(given, reader)
    return _Reader(frozenset(chosen), lambda value: chosen[type(value)](value))


def _tuple(parts: tuple[Any, ...], where: str) -> _Reader:
    if parts[-1] is Ellipsis:
        each = _reader(parts[0], where)
        return _Reader(frozenset({list}), lambda value: tuple(each(entry) for entry in value))
    inner = [_reader(part, where) for part in parts]

    def read(value: list[Any]) -> tuple[Any, ...]:
        if len(value) != len(inner):
            raise ValueError(f"{len(inner)} entries are expected, got {value!r:.80}")
        return tuple(reader(entry) for reader, entry in zip(inner, value, strict=True))

    return _Reader(frozenset({list}), read)


def _named_tuple(kind: Any, where: str) -> _Reader:
    """Written as a list, like any tuple."""
    hints = get_type_hints(kind)
    entries = _tuple(tuple(hints[name] for name in kind._fields), where)
    return _Reader(entries.given, lambda value: kind(*entries(value)))


def _one_of(parts: tuple[Any, ...], value: Any) -> Any:
    for part in parts:
        if type(part) is type(value) and part == value:
            return value
    raise ValueError(f"{value!r:.80} is none of {parts}")


def _dtype(value: str) -> np.dtype[Any]:
    try:
        return np.dtype(value)
    except TypeError as unknown:
        raise ValueError(f"{value!r:.80} is no element type") from unknown
