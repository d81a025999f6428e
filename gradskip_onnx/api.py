"""The public calls: load a model once and explain images with it, or both in one; look into a file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

from gradskip_onnx.cache.folder import default_cache
from gradskip_onnx.images.model_configs import beside
from gradskip_onnx.images.preprocess import Preprocess, resolve
from gradskip_onnx.model_file.metadata import read_metadata
from gradskip_onnx.model_file.opening import ModelFile, open_model_file
from gradskip_onnx.passes.opened_model import SessionSettings, Sizes, open_model
from gradskip_onnx.pipeline.explainer import Explainer
from gradskip_onnx.pipeline.inputs import ImageLike
from gradskip_onnx.pipeline.question import Target

from .explanation import Explanation
from .types import Architecture, Array, Size

__all__ = ["Explainer", "Explanation", "explain", "inspect", "load"]


def load(
    model: str | os.PathLike[str] | bytes | ModelFile,
    device: str = "auto",
    *,
    require_device: bool = False,
    threads: int | None = None,
    preprocess: Preprocess | Mapping[str, Any] | None = None,
    labels: Sequence[str] | None = None,
    size: Size | None = None,
    low_memory: bool = False,
    cache: bool = True,
) -> Explainer:
    """Read a model from a path or bytes; `preprocess` replaces what the file says, in whole or (a mapping) in part.

    `low_memory` saves memory and time at the start, for few images. With `cache` what was found in a file is kept for
    the next time; the environment variable GRADSKIP_CACHE names the folder, or is `off`.
    """
    flags = {} if preprocess is None or isinstance(preprocess, Preprocess) else dict(preprocess)
    told = preprocess if isinstance(preprocess, Preprocess) else None
    file = model if isinstance(model, ModelFile) else open_model_file(model)
    near = beside(file.unresolved_path)
    sizes = Sizes(size or flags.get("size") or getattr(told, "size", None), getattr(near.preprocess, "size", None))
    how = SessionSettings(device, require_device, threads, low_memory)
    opened = open_model(file, sizes, default_cache() if cache else None, how)
    said, read = opened.facts.metadata, opened.architecture
    chosen, assumed = resolve(
        flags=flags, metadata=told or said.preprocess, sidecar=near.preprocess, input_size=read.input_dims.size
    )
    names = tuple(labels if labels is not None else said.labels or near.labels)
    warnings = [*said.warnings, *near.warnings, *assumed]
    if names and len(names) != read.classes:
        warnings.append(f"{len(names)} labels for {read.classes} classes: some have no name, or a wrong one")
    return Explainer(opened, chosen, names, tuple(warnings))


@overload
def explain(
    model: str | os.PathLike[str] | bytes, image: ImageLike, target: Target = None, **options: Any
) -> Explanation: ...


@overload
def explain(
    model: str | os.PathLike[str] | bytes, image: list[Any] | tuple[Any, ...], target: Any = None, **options: Any
) -> list[Explanation]: ...


@overload
def explain(
    model: str | os.PathLike[str] | bytes, image: Iterator[Any], target: Any = None, **options: Any
) -> Iterator[Explanation]: ...


@overload
def explain(model: str | os.PathLike[str] | bytes, image: Array, target: Any = None, **options: Any) -> Any: ...


def explain(model: str | os.PathLike[str] | bytes, image: Any, target: Any = None, **options: Any) -> Any:
    """One call: load a model and explain an image, a list of images or an iterator; see `Explainer.explain`."""
    return load(model).explain(image, target, **options)


def inspect(model: str | os.PathLike[str] | bytes, *, size: Size | None = None) -> Architecture:
    """What the graph of a model turns out to be, every claim proven on a probe input."""
    from gradskip_onnx.graph.architecture import read
    from gradskip_onnx.graph.read.load import load as load_source

    source = load_source(model)
    return read(source, size=size, outputs=read_metadata(source).forward_outputs).architecture
