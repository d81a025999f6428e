"""Encodes results, NumPy values included, as strict JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite

import numpy as np

UNCHANGED = (str, int, bool, type(None))


def encode_json(value: object, indent: int | None = 2) -> bytes:
    """Strict JSON in ASCII with sorted keys; a number that is not finite becomes null."""
    return (json.dumps(plain(value), indent=indent, sort_keys=True, allow_nan=False) + "\n").encode()


def plain(value: object) -> object:
    """The value with NumPy arrays, tuples and other types replaced by those of JSON."""
    if type(value) in UNCHANGED:  # most are: a comparison of types is quicker than `isinstance`
        return value
    if isinstance(value, float):
        return float(value) if isfinite(value) else None
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, dict | Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    return value if isinstance(value, str | int) else str(value)
