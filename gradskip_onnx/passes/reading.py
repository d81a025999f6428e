"""Reads a model file: what may be known besides it, the graph with the transformer in it, and the facts to keep."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gradskip_onnx.cache.model_cache import ModelFacts
from gradskip_onnx.model_file.mapped_weights import weight_bytes
from gradskip_onnx.model_file.metadata import as_before_building, read_metadata
from gradskip_onnx.model_file.opening import ModelFile
from gradskip_onnx.types import Size, Source, TaskName

if TYPE_CHECKING:
    from gradskip_onnx.graph.architecture import Reading


@dataclass(frozen=True, slots=True)
class Hints:
    """What is known besides the model file, by which the file is read.

    Sizes count for a file that leaves its image size open. Priority: user, metadata of the file, config.json.
    """

    user_size: Size | None = None
    config_size: Size | None = None
    task: TaskName | None = None
    class_counts: tuple[int, ...] = ()  # how many classes the user and the files beside the model name or state


def read_model(model: str | os.PathLike[str] | bytes | ModelFile, hints: Hints) -> tuple[Source, Reading]:
    """Load a model and find the transformer in it."""
    from gradskip_onnx.graph.architecture import read
    from gradskip_onnx.graph.find.head import Told
    from gradskip_onnx.graph.read.load import load

    source = as_before_building(load(model))
    metadata = read_metadata(source)
    size = hints.user_size or getattr(metadata.preprocess, "size", None) or hints.config_size
    told = Told(hints.task, (*hints.class_counts, len(metadata.labels)))
    return source, read(source, size=size, outputs=metadata.forward_outputs, told=told)


def facts_of(source: Source, reading: Reading) -> ModelFacts:
    """What is kept of a model that was read."""
    architecture, facts = reading.architecture, reading.facts
    return ModelFacts(
        sha256=source.sha256,
        architecture=architecture,
        image=facts[architecture.input],
        scores=facts[architecture.logits],
        metadata=read_metadata(source),
        weight_bytes=weight_bytes(source.model),
        others=tuple(path.relative_to(source.folder or Path()).as_posix() for path in source.others),
    )
