"""Our own entry in a model's metadata: preprocessing, labels and which outputs are the model's."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.preprocess import Preprocess
from gradskip_onnx.types import Source

from .original_nodes import put_back

KEY = "gradskip_onnx"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Metadata:
    """Content of the entry; every field may be missing from a file."""

    preprocess: Preprocess | None = None
    labels: tuple[str, ...] = ()
    forward_outputs: tuple[str, ...] | None = None  # the model's own outputs, not those of a bundle; None: all
    warnings: tuple[str, ...] = ()


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
    return Metadata(preprocess, labels, forward)


def as_before_building(source: Source) -> Source:
    """A built file with the nodes of the model in it as they were; any other file as it is."""
    try:
        kept = (read_description(source) or {}).get("original_nodes")
    except (ValueError, RecursionError):  # `read_metadata` warns of it
        kept = None
    return source if kept is None else replace(source, model=put_back(source.model, kept, source.name))
