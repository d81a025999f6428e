"""Checks what an audit was made from: the files of the model, and the images of the data."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any

from gradskip_onnx.audit.facts import list_hash
from gradskip_onnx.audit.parts import part_path, read_part
from gradskip_onnx.audit.place import Place
from gradskip_onnx.audit.private import recorded
from gradskip_onnx.audit.subject import picture_of, pixel_hash, truth_hash
from gradskip_onnx.datasets import Dataset, Entry, load_source
from gradskip_onnx.datasets.entry import DatasetSource
from gradskip_onnx.errors import GradskipError
from gradskip_onnx.model_file.opening import digest_of

from .check import Check, holds
from .hashes import sha256_if_there

MOST = 20  # images that are named one by one
ON_DEMAND = "planted"  # a layout whose images are drawn, so that its address is enough


def check_model(model: Path | None, recorded: Mapping[str, Any]) -> Iterator[Check]:
    """Each file of the model: the one given, whatever its name is now, and the weight files beside it."""
    for name, digest in recorded["files"].items():
        what = f"model {name}"
        if model is None:
            yield Check(what, "not checked", "give --model")
            continue
        path = model if name == recorded["file"] else model.resolve().parent / name
        try:
            yield holds(what, digest_of(path).hex(), digest)
        except (OSError, ValueError) as error:
            yield Check(what, "failed", f"cannot be read ({getattr(error, 'strerror', None) or error})")


def check_images(
    place: Place, facts: Mapping[str, Any], data: str | None, manifest: Mapping[str, Any], step: Callable[[str], None]
) -> Iterator[Check]:
    """Every image of the data by its hash, in the order of the rows, with its boxes and masks."""
    if data is None and not (facts["data"]["layout"] == ON_DEMAND or os.path.exists(facts["data"]["address"])):
        yield Check("images", "not checked", "give --data")
        return
    try:
        dataset = load_data(facts, data)
        yield holds("labels", list_hash(dataset), facts["data"]["list_sha256"], "names and labels of the images")
        intact = [part for part in manifest["parts"] if _is_intact(place, part)]
        rows = chain.from_iterable(_rows(place, part["number"]) for part in intact)
        wrong, unread = [], 0
        for row in rows:
            wrong += [found for found in (_image(row, dataset, facts, step),) if found is not None]
            unread += row["image_sha256"] is None
    except GradskipError as error:
        yield Check("images", "failed", str(error))
        return
    count = manifest["images"]["count"]
    lost = count - sum(part["images"] for part in intact)
    if count != len(dataset.entries):
        yield Check("images", "failed", f"the data has {len(dataset.entries)}, the audit {count}")
    yield from wrong[:MOST]
    if len(wrong) > MOST:
        yield Check("images", "failed", f"{len(wrong) - MOST} more differ")
    for number, reason in ((lost, "are of parts that were changed"), (unread, "could not be read then")):
        if number:
            yield Check("images", "not checked", f"{number} {reason}, so their hashes are not known")
    if not wrong:
        yield Check("images", "ok", f"{count - lost - unread} of {count}")


def _is_intact(place: Place, part: Mapping[str, Any]) -> bool:
    return sha256_if_there(place, part_path(part["number"])) == str(part["sha256"])


def load_data(facts: Mapping[str, Any], data: str | None) -> Dataset:
    """The images of an audit, at the address given or else at the one recorded, selected as they were then."""
    recorded = facts["data"]
    named = {field.name for field in fields(DatasetSource)} - {"where", "layout"}
    chosen: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in recorded.items() if name in named
    }
    return load_source(DatasetSource(data or recorded["address"], recorded["layout"], **chosen))


def image_hash(entry: Entry) -> str:
    """The hash that the rows have for an image: of its file, or of its pixels if it has none."""
    if entry.sha256 is not None:
        return entry.sha256()
    picture = picture_of(entry)
    return picture.sha256 or pixel_hash(picture)


def _rows(place: Place, number: int) -> list[dict[str, Any]]:
    columns = ["position", "image", "image_sha256", "truth_sha256"]
    rows: list[dict[str, Any]] = read_part(place, number, columns).to_pylist()
    return rows


def _image(
    row: Mapping[str, Any], dataset: Dataset, facts: Mapping[str, Any], step: Callable[[str], None]
) -> Check | None:
    """What is wrong with an image; None if it has the hashes of its row."""
    what = f"image {row['image']}"
    step(row["image"])
    if row["position"] >= len(dataset.entries):
        return Check(what, "failed", "not in the data")
    entry = dataset.entries[row["position"]]
    name = recorded(entry.id, privacy=facts["privacy"])
    if name != row["image"]:
        return Check(what, "failed", f"the data has {name} in its place")
    if row["image_sha256"] is None:
        return None
    try:
        check = holds(what, image_hash(entry), row["image_sha256"])
        if check.state == "ok" and row["truth_sha256"] is not None:
            check = holds(f"boxes or masks of {what}", truth_hash(entry), row["truth_sha256"])
    except (GradskipError, OSError) as error:
        return Check(what, "failed", f"cannot be read ({error})")
    return check if check.state == "failed" else None
