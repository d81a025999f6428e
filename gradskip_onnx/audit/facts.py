"""What an audit is: the content of audit.json, written before anything is computed and never changed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gradskip_onnx.api import Explainer
from gradskip_onnx.datasets import Dataset
from gradskip_onnx.errors import InputError
from gradskip_onnx.explanation.document import versions
from gradskip_onnx.output.json_text import encode_json, plain

from .parts import FOLDER
from .place import Place
from .private import hidden
from .reading import FACTS, FORMAT, read_facts
from .settings import AuditSettings

MOST_IMAGES = 256  # of a part, up to a million images; then there are about MOST_PARTS parts
MOST_PARTS = 4096
LEAST_PARTS = 32  # so that little is lost when a run is killed, and several workers find something to do
PART_BYTES = 64 << 20  # of maps in a part, which is held while it is written
FREE = ("data.address", "part_size")  # may differ when a run goes on: data that moved, parts as they were begun


def audit_facts(explainer: Explainer, dataset: Dataset, settings: AuditSettings) -> dict[str, Any]:
    """The content of audit.json, in the types of JSON."""
    architecture, method = explainer.architecture, explainer.settled(settings.method)
    source = {} if dataset.source is None else dataset.source.facts()
    address = dataset.where
    if settings.privacy:
        address, source = hidden(address), source | {"synsets": None}
    found = plain({
        "format": FORMAT,
        "model": {"file": explainer.name, "sha256": explainer.sha256, "files": explainer.model.file_hashes()},
        "task": architecture.task,
        "classes": architecture.classes,
        "labels": explainer.labels,
        "grid": architecture.grid,
        "image_size": architecture.input_dims.size,
        "method": method.row.name,
        "options": method.settings,
        "score": settings.score,
        "target": settings.target,
        "data": {**source, "address": address, "layout": dataset.layout, "count": len(dataset.entries),
                 "list_sha256": list_hash(dataset)},
        "preprocess": explainer.preprocess.as_dict(),
        "regions": [region.facts() for region in settings.regions],
        "check": asdict(settings.check),
        "seed": settings.seed,
        "batch_size": settings.batch_size,
        "part_size": settings.part_size or part_size(explainer, len(dataset.entries), settings.batch_size),
        "privacy": settings.privacy,
        "versions": versions(),
        "provider": explainer.provider,
    })  # fmt: skip
    assert isinstance(found, dict)
    return found


def list_hash(dataset: Dataset) -> str:
    """SHA-256 of the ids and labels of all images, in order."""
    total = hashlib.sha256()
    for entry in dataset.entries:
        total.update(f"{entry.id}\0{'' if entry.label is None else entry.label}\n".encode("utf-8", "backslashreplace"))
    return total.hexdigest()


def part_size(explainer: Explainer, count: int, batch: int) -> int:
    """Images of a part: a multiple of the batch, so that a run that goes on makes the same batches."""
    height, width = explainer.architecture.input_dims.size
    wanted = max(MOST_IMAGES, -(-count // MOST_PARTS))
    most = min(wanted, PART_BYTES // (4 * height * width), -(-count // LEAST_PARTS))
    return max(1, most // batch) * batch


def claim(place: Place, ours: Mapping[str, Any]) -> dict[str, Any]:
    """Write the facts, or find the same there; raises InputError if the place holds something else."""
    if not place.exists(FACTS):
        if place.files(FOLDER):
            raise InputError(f"output {place.name}: it holds parts of an audit without {FACTS}; name another --output")
        place.write(FACTS, encode_json(ours))
        return dict(ours)
    theirs = read_facts(place)
    different = difference(theirs, ours)
    if different:
        raise InputError(f"output {place.name} holds another audit: {different}; name another --output")
    return theirs


def difference(theirs: Mapping[str, Any], ours: Mapping[str, Any], inside: str = "") -> str:
    """The first fact that differs, with both values; empty if two audits are the same."""
    for name in sorted({*theirs, *ours}):
        path, one, other = f"{inside}{name}", theirs.get(name), ours.get(name)
        if path in FREE or one == other:
            continue
        if isinstance(one, dict) and isinstance(other, dict):
            if found := difference(one, other, f"{path}."):
                return found
            continue
        return f"{path} is {_short(one)} there and {_short(other)} here"
    return ""


def _short(value: object) -> str:
    text = value if isinstance(value, str) else encode_json(value, indent=None).decode().strip()
    return text if len(text) <= 60 else f"{text[:60]}..."
