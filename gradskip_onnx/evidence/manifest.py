"""Writes manifest.json: the hash of every file of an audit, a chain over its parts, and what was asked of what.

The file guards itself: `sha256` in it is the hash of everything else in it, and its bytes are those that this program
writes, so that no byte can be changed unseen. It names no host, no user and no folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gradskip_onnx.addresses import without_place
from gradskip_onnx.audit.parts import finished_parts, part_path
from gradskip_onnx.audit.place import Place
from gradskip_onnx.audit.reading import read_facts, read_object
from gradskip_onnx.errors import InputError
from gradskip_onnx.explanation.document import versions
from gradskip_onnx.output.json_text import encode_json

from .hashes import START, next_link, sha256_of, sha256_of_json
from .parts import content_of
from .signing import signature_of

FORMAT = 1
MANIFEST, SIGNATURE = "manifest.json", "manifest.sig"
VIOLATIONS = "violations.json"


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest as it lies in a folder: its content and the hash of its bytes."""

    document: Mapping[str, Any]
    sha256: str


def write_manifest(place: Place, key: Path | None = None) -> Manifest:
    """Hash everything in the folder of an audit and write its manifest; with `key`, a signature of it beside it."""
    content = sealed(describe(place))
    place.remove(SIGNATURE)  # it was made for an earlier manifest
    place.write(MANIFEST, content)
    if key is not None:
        place.write(SIGNATURE, signature_of(content, key))
    return Manifest(json.loads(content), hashlib.sha256(content).hexdigest())


def describe(place: Place) -> dict[str, Any]:
    """The manifest of a folder, without its seal."""
    parts = [*_parts(place)]
    return {
        "format": FORMAT,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "made_with": versions(),
        "audit": short_facts(read_facts(place)),
        "policy": _policy(place),
        "files": {name: sha256_of(place, name) for name in other_files(place)},
        "parts": parts,
        "chain": parts[-1]["link"] if parts else START,
        "images": {"count": sum(part["images"] for part in parts), "failed": sum(part["failed"] for part in parts)},
        "logits": {"largest_difference": max((part["logits_difference"] for part in parts), default=0.0)},
    }


def short_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What audit.json says, without paths of a machine, and with the hash of the class names, which may be many."""
    labels, data = facts["labels"], facts["data"]
    paths = {name: without_place(data[name]) for name in ("address", "synsets") if data.get(name)}
    return {**facts, "data": {**data, **paths}, "labels": {"count": len(labels), "sha256": sha256_of_json(labels)}}


def _parts(place: Place) -> Iterator[dict[str, Any]]:
    """Each part with its hash, that of the list of its images, and its link of the chain."""
    link = START
    for number in finished_parts(place):
        digest = sha256_of(place, part_path(number))
        link = next_link(link, digest)
        yield {"number": number, "sha256": digest, "link": link, **content_of(place, number)}


def _policy(place: Place) -> dict[str, Any] | None:
    """The policy that the audit was held against, if there was one, and how often it was broken."""
    if not place.exists(VIOLATIONS):
        return None
    found = read_object(place, VIOLATIONS)
    return {"sha256": found.get("policy_sha256"), "violations": len(found["violations"])}


def other_files(place: Place) -> list[str]:
    """The names of all other files; what begins with a dot is a lock or a leftover and is no part of the audit."""
    return [name for name in place.files() if name not in (MANIFEST, SIGNATURE) and place.exists(name)]


def sealed(document: Mapping[str, Any]) -> bytes:
    """The bytes of a manifest: the document with the hash of itself."""
    found = {key: value for key, value in document.items() if key != "sha256"}
    return encode_json({**found, "sha256": sha256_of_json(found)})


def read_manifest(place: Place) -> Manifest:
    """The manifest of a folder; raises InputError if there is none, or it is not as this program writes it."""
    if not place.exists(MANIFEST):
        raise InputError(f"{place.name}: no {MANIFEST} here, which `gradskip-onnx audit` writes at its end")
    with place.open(MANIFEST) as stream:
        content = stream.read()
    try:
        document = json.loads(content)
        intact = isinstance(document, dict) and sealed(document) == content
    except (ValueError, RecursionError):
        intact = False
    if not intact:
        raise InputError(f"{MANIFEST}: it was changed: its content does not have the hash that it states")
    if document.get("format") != FORMAT:
        raise InputError(f"{MANIFEST}: format {document.get('format')!r:.40}; this version reads format {FORMAT}")
    return Manifest(document, hashlib.sha256(content).hexdigest())
