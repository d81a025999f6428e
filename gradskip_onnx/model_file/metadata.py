"""Our own entry in a model's metadata: preprocessing, labels and which outputs are the model's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.preprocess import Preprocess
from gradskip_onnx.types import Source

KEY = "gradskip_onnx"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Built:
    """What `build` wrote into a file: the method, and the names of inputs and outputs that were added."""

    method: str
    options: Mapping[str, str | bool | int | float]
    score: str
    source: str  # name of the model file it was built from
    source_sha256: str
    top: int  # classes explained in one run; 0: one, without an axis of its own
    map: str  # image or grid
    smoothed: bool
    normalised: bool
    precision: str
    preprocessing: str  # outside or inside
    inputs: Mapping[str, str | None]
    outputs: Mapping[str, str]
    large: bool = False  # whether the file computes large attentions again: it is for one image at a time


@dataclass(frozen=True, slots=True)
class Metadata:
    """Content of the entry; every field may be missing from a file."""

    preprocess: Preprocess | None = None
    labels: tuple[str, ...] = ()
    forward_outputs: tuple[str, ...] | None = None  # the model's own outputs, not those of a bundle; None: all
    warnings: tuple[str, ...] = ()
    built: Built | None = None  # None: nothing was built into the file


def read_description(source: Source) -> dict[str, Any] | None:
    """The JSON document under our key as it stands, None if there is none; ValueError if it is not ours."""
    text = next((entry.value for entry in source.model.metadata_props if entry.key == KEY), None)
    if text is None:
        return None
    document = json.loads(text)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"format {FORMAT} is expected; written by another version?")
    return document


def read_metadata(source: Source) -> Metadata:
    """Read the description; the file is untrusted, so one that cannot be used becomes a warning."""
    try:
        document = read_description(source)
        if document is None:
            return Metadata()
        stored = document.get("preprocess")
        preprocess = None if stored is None else Preprocess.from_dict(stored)
        labels = tuple(str(label) for label in document.get("labels") or ())
        outputs = document.get("forward_outputs")
        forward = None if outputs is None else tuple(str(name) for name in outputs)
    except (ValueError, TypeError, RecursionError, InputError) as broken:
        return Metadata(warnings=(f"metadata {KEY!r} of {source.name} was ignored: {broken}",))
    try:
        return Metadata(preprocess, labels, forward, built=_built(document))
    except (ValueError, TypeError, AttributeError) as broken:
        return Metadata(preprocess, labels, forward, (f"what was built into {source.name} was ignored: {broken}",))


def _built(document: dict[str, Any]) -> Built | None:
    """What was built into a file; ValueError where the entry is not as `build` writes it."""
    entry = document.get("built")
    if entry is None:
        return None
    found = {field.name: entry.get(field.name, field.default) for field in fields(Built)}
    texts = ("method", "score", "source", "source_sha256", "map", "precision", "preprocessing")
    names = {**dict(found["inputs"]), **dict(found["outputs"])}
    kinds: list[tuple[type, Any]] = [(str, found[name]) for name in texts] + [
        (bool, found[name]) for name in ("smoothed", "normalised", "large")
    ]
    kinds += [(int, found["top"]), *((str, name) for name in names.values() if name is not None)]
    options = dict(found["options"])
    wrong = [value for kind, value in kinds if not isinstance(value, kind)]
    wrong += [value for value in options.values() if not isinstance(value, str | bool | int | float)]
    if wrong or not {"image", "target", "logits", "relevance", "explained"} <= names.keys():
        raise ValueError(f"what was built in is not described as it should be (found {wrong!r:.80})")
    return Built(**found)


def as_before_building(source: Source) -> Source:
    """A built file with the nodes of the model in it as they were; any other file as it is."""
    if read_metadata(source).forward_outputs is None:
        return source
    from .original_nodes import put_back  # needs onnx, which reading the cache does without

    found, kept = taking_prepared_images(source), (read_description(source) or {}).get("original_nodes")
    return found if kept is None else replace(found, model=put_back(found.model, kept, source.name))


def taking_prepared_images(source: Source) -> Source:
    """A built file without the nodes that prepare images; any other file as it is."""
    port = (read_description(source) or {}).get("original_input")
    if port is None:
        return source
    from .original_nodes import own_input

    return replace(source, model=own_input(source.model, port, source.name))
