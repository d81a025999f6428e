"""Encodes results, NumPy values included, as strict JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np


def encode_json(value: object, indent: int | None = 2) -> bytes:
    """Strict JSON in ASCII with sorted keys; a number that is not finite becomes null."""
    return (json.dumps(plain(value), indent=indent, sort_keys=True, allow_nan=False) + "\n").encode()


def plain(value: object) -> object:
    """The value with NumPy arrays, tuples and other types replaced by those of JSON."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value if value is None or isinstance(value, str | int | bool) else str(value)
