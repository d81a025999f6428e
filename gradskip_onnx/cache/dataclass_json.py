"""Writes frozen dataclasses as JSON and reads them back by the types of their fields; values of other types raise.

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
    """A record of dataclasses, tuples, mappings and dtypes as plain dicts, lists, numbers and strings."""
    if is_dataclass(record):
        return {field.name: as_plain(getattr(record, field.name)) for field in fields(record)}
    if isinstance(record, tuple | list):
        return [as_plain(entry) for entry in record]
    if isinstance(record, Mapping):
        return {key: as_plain(value) for key, value in record.items()}
    if isinstance(record, np.dtype):
        return record.str if np.dtype(record.str) == record else record.name  # bfloat16's `str` is "<V2", raw bytes
    return record


def encode(record: Any) -> bytes:
    """`as_plain` as JSON bytes; raises TypeError for a dataclass that `from_plain` could not read back."""
    for part in record if isinstance(record, tuple) else (record,):
        if is_dataclass(part):
            _readers(type(part))
    return json.dumps(as_plain(record), separators=(",", ":")).encode()


def from_plain(kind: type[T], document: Any) -> T:
    """The inverse of `as_plain`.

    Raises ValueError for a value that does not have the type of its field, and TypeError for a field type that cannot
    be read back, whatever the document.
    """
    found: T = _record(kind)(document)
    return found


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads a value whose type in JSON is one of `accepted`."""

    accepted: frozenset[type]
    read: Callable[[Any], Any]

    def __call__(self, value: Any) -> Any:
        if type(value) not in self.accepted:
            names = " or ".join(sorted(kind.__name__ for kind in self.accepted))
            raise ValueError(f"{names} is expected, got {value!r:.80}")
        return self.read(value)


_READERS: dict[type, dict[str, _Reader]] = {}


def _readers(kind: type) -> dict[str, _Reader]:
    """A reader per field of a dataclass, built on first use; raises TypeError for a type that cannot be read back."""
    if kind in _READERS:
        return _READERS[kind]
    before = dict(_READERS)
    readers = _READERS[kind] = {}  # registered before it is filled: a class may contain itself
    try:
        hints = get_type_hints(kind)
        names = [field.name for field in fields(kind)]
        readers |= {name: _reader(hints[name], f"{kind.__qualname__}.{name}") for name in names}
    except (NameError, TypeError) as failure:
        _READERS.clear()  # forgets this class and those that contain it
        _READERS.update(before)
        if isinstance(failure, NameError):
            raise TypeError(f"{kind.__qualname__}: a type is not known at run time: {failure}") from failure
        raise
    return readers


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
    if hint is float:  # a float may be written as 1
        return _Reader(frozenset({float, int}), float)
    if hint in PLAIN:
        return _Reader(frozenset({hint}), lambda value: value)
    raise TypeError(f"{where}: values of type {hint} cannot be read back from JSON")


def _union(hint: Any, where: str) -> _Reader:
    """A reader that picks the member by the JSON type of the value, so each type may belong to one member only."""
    members = get_args(hint)
    by_type: dict[type, _Reader] = {}
    for member in members:
        reader = _reader(member, where)
        accepted = reader.accepted - {int} if member is float and int in members else reader.accepted
        if not accepted.isdisjoint(by_type):
            raise TypeError(f"{where}: two members of {hint} look alike in JSON, so it cannot be read back")
        by_type |= dict.fromkeys(accepted, reader)
    return _Reader(frozenset(by_type), lambda value: by_type[type(value)](value))


def _tuple(parts: tuple[Any, ...], where: str) -> _Reader:
    if parts[-1] is Ellipsis:
        reader = _reader(parts[0], where)
        return _Reader(frozenset({list}), lambda value: tuple(reader(entry) for entry in value))
    readers = [_reader(part, where) for part in parts]

    def read(value: list[Any]) -> tuple[Any, ...]:
        if len(value) != len(readers):
            raise ValueError(f"{len(readers)} entries are expected, got {value!r:.80}")
        return tuple(reader(entry) for reader, entry in zip(readers, value, strict=True))

    return _Reader(frozenset({list}), read)


def _named_tuple(kind: Any, where: str) -> _Reader:
    """A reader of a named tuple, which JSON has as a list."""
    hints = get_type_hints(kind)
    entries = _tuple(tuple(hints[name] for name in kind._fields), where)
    return _Reader(entries.accepted, lambda value: kind(*entries(value)))


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
