"""SHA-256 of files, of lists, and of a chain in which each link depends on all parts before it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from gradskip_onnx.audit.place import Place
from gradskip_onnx.errors import InputError
from gradskip_onnx.output.json_text import encode_json

CHUNK = 1 << 20
START = "0" * 64  # the link before the first part


def sha256_of(place: Place, file: str) -> str:
    """The hash of a file of a place, read in pieces."""
    total = hashlib.sha256()
    with place.open(file) as stream:
        while data := stream.read(CHUNK):
            total.update(data)
    return total.hexdigest()


def sha256_if_there(place: Place, file: str) -> str | None:
    """The hash of a file of a place; None if it cannot be read."""
    try:
        return sha256_of(place, file)
    except InputError:
        return None


def sha256_of_json(value: object) -> str:
    """The hash of a value as compact JSON with sorted keys."""
    return hashlib.sha256(encode_json(value, indent=None)).hexdigest()


def sha256_of_list(texts: Iterable[str]) -> str:
    """The hash of texts in their order, a line each."""
    total = hashlib.sha256()
    for text in texts:
        total.update(f"{text}\n".encode("utf-8", "backslashreplace"))
    return total.hexdigest()


def next_link(link: str, part: str) -> str:
    """The link of a part: the hash of the link before it followed by the hash of the part."""
    return hashlib.sha256(bytes.fromhex(link) + bytes.fromhex(part)).hexdigest()
