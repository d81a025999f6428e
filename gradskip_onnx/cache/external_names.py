"""Finds the files that a serialised graph names for its weights, without parsing it.

A kept graph is opened without onnx, which takes longer to import than the rest of the call. In a tensor, an external
file is a field 13 that holds the texts "location" and a name, so each name stands behind the bytes of that word.
"""

from __future__ import annotations

import re

# Field 13 and its length, then field 1 with the eight letters, then field 2 with the name; lengths in groups of 7 bits.
ENTRY = re.compile(rb"\x6a([\x80-\xff]{0,4}[\x00-\x7f])(\x0a\x08location\x12([\x80-\xff]{0,4}[\x00-\x7f]))", re.DOTALL)
WORD = b"location"


def external_names(model: bytes) -> frozenset[str]:
    """Every file named in a model; where the word stands in any other way, what follows it counts as a name, too."""
    found: set[str] = set()
    ends = {match.start(2) + 2: match for match in ENTRY.finditer(model)}
    at = model.find(WORD)
    while at >= 0:
        match = ends.get(at)
        size = 0 if match is None else _number(match[3])
        name = model[match.end() : match.end() + size] if match else model[at : at + 80]
        whole = match is not None and len(match[2]) + size == _number(match[1])  # nothing behind the name replaces it
        found.add(name.decode("utf-8", "replace") if whole else f"?{name!r}")
        at = model.find(WORD, at + 1)
    return frozenset(found)


def _number(groups: bytes) -> int:
    return sum((group & 127) << (7 * place) for place, group in enumerate(groups))
