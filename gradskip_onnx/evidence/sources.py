"""Checks what an audit was made from: the files of the model, and the images of the data."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any

from gradskip_onnx.audit.facts import list_hash
from gradskip_onnx.audit.parts import read_part
from gradskip_onnx.audit.place import Place
from gradskip_onnx.audit.private import hidden
from gradskip_onnx.audit.subject import picture_of, pixel_hash
from gradskip_onnx.datasets import Dataset, Entry, load_source
from gradskip_onnx.datasets.entry import DatasetSource
from gradskip_onnx.errors import GradskipError, InputError
from gradskip_onnx.model_file.opening import digest_of

from .check import Check, holds

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
    """Every image of the data by its hash, in the order of the rows; one that failed need not be readable now."""
    if data is None and not (facts["data"]["layout"] == ON_DEMAND or os.path.exists(facts["data"]["address"])):
        yield Check("images", "not checked", "give --data")
        return
    try:
        dataset = load_data(facts, data)
        rows = chain.from_iterable(_rows(place, part["number"]) for part in manifest["parts"])
        wrong = [check for row in rows if (check := _image(row, dataset, facts, step)) is not None]
    except GradskipError as error:
        yield Check("images", "failed", str(error))
        return
    yield holds("labels", list_hash(dataset), facts["data"]["list_sha256"], "names and labels of the images")
    count = manifest["images"]["count"]
    if count != len(dataset.entries):
        yield Check("images", "failed", f"the data has {len(dataset.entries)}, the audit {count}")
    yield from wrong[:MOST]
    if len(wrong) > MOST:
        yield Check("images", "failed", f"{len(wrong) - MOST} more differ")
    if not wrong:
        yield Check("images", "ok", f"{count - manifest['images']['failed']} images")


def load_data(facts: Mapping[str, Any], data: str | None) -> Dataset:
    """The images of an audit, at the address given or else at the one recorded, selected as they were then."""
    recorded = facts["data"]
    named = {field.name for field in fields(DatasetSource)} - {"where", "layout"}
    chosen: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in recorded.items() if name in named
    }
    return load_source(DatasetSource(data or recorded["address"], recorded["layout"], **chosen))


def name_of(entry: Entry, facts: Mapping[str, Any]) -> str:
    """The id that the rows have for an image."""
    return hidden(entry.id) if facts["privacy"] else entry.id


def image_hash(entry: Entry) -> str:
    """The hash that the rows have for an image: of its file, or of its pixels if it has none."""
    picture = picture_of(entry)
    return picture.sha256 or pixel_hash(picture)


def _rows(place: Place, number: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_part(place, number, ["position", "image", "image_sha256"]).to_pylist()
    return rows


def _image(
    row: Mapping[str, Any], dataset: Dataset, facts: Mapping[str, Any], step: Callable[[str], None]
) -> Check | None:
    """What is wrong with an image; None if it has the hash of its row."""
    what = f"image {row['image']}"
    step(row["image"])
    if row["position"] >= len(dataset.entries):
        return Check(what, "failed", "not in the data")
    entry = dataset.entries[row["position"]]
    if name_of(entry, facts) != row["image"]:
        return Check(what, "failed", f"the data has {name_of(entry, facts)} in its place")
    if row["image_sha256"] is None:
        return None
    try:
        check = holds(what, image_hash(entry), row["image_sha256"])
    except (InputError, OSError) as error:
        return Check(what, "failed", f"cannot be read ({error})")
    return check if check.state == "failed" else None
