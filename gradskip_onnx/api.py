"""The public functions: `load` a model, `explain` images in one call, `inspect` the architecture of a file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from gradskip_onnx.cache.folder import default_cache
from gradskip_onnx.images.model_configs import beside
from gradskip_onnx.images.preprocess import Preprocess, resolve
from gradskip_onnx.model_file.opening import ModelFile, open_model_file
from gradskip_onnx.passes.opened_model import Hints, SessionSettings, open_model, read_model
from gradskip_onnx.pipeline.explainer import Explainer
from gradskip_onnx.pipeline.fitted_options import read_fitted
from gradskip_onnx.pipeline.inputs import ImageLike
from gradskip_onnx.pipeline.question import Target

from .explanation import Explanation
from .types import Architecture, Array, Size, TaskName

if TYPE_CHECKING:
    from gradskip_onnx.graph.architecture import Reading

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
    task: TaskName | None = None,
    low_memory: bool = False,
    cache: bool = True,
    fitted: bool = True,
) -> Explainer:
    """Open a model from a path or bytes and return its Explainer.

    `preprocess` replaces the preprocessing stored with the model; a mapping replaces single fields. `task` says
    what the output holds, where the file does not: class scores of the image (classification) or of each pixel
    (segmentation). `low_memory` saves memory and start-up time, which pays for few images. With `cache`, the analysis
    of the file is stored on disk for later calls; the environment variable GRADSKIP_CACHE names the folder, or is
    `off`. With `fitted`, options that `gradskip-onnx study fit` kept beside the model stand in for the defaults.
    """
    flags = {} if preprocess is None or isinstance(preprocess, Preprocess) else dict(preprocess)
    explicit = preprocess if isinstance(preprocess, Preprocess) else None
    file = model if isinstance(model, ModelFile) else open_model_file(model)
    sidecar = beside(file.unresolved_path)
    hints = Hints(
        size or flags.get("size") or getattr(explicit, "size", None),
        getattr(sidecar.preprocess, "size", None),
        task,
        (len(labels or ()), *sidecar.class_counts),
    )
    settings = SessionSettings(device, require_device, threads, low_memory)
    entries = default_cache() if cache else None
    opened = open_model(file, hints, entries, settings)
    metadata, architecture = opened.facts.metadata, opened.architecture
    resolved, assumptions = resolve(
        flags=flags,
        metadata=explicit or metadata.preprocess,
        sidecar=sidecar.preprocess,
        input_size=architecture.input_dims.size,
    )
    names = tuple(labels if labels is not None else metadata.labels or sidecar.labels)
    path = file.unresolved_path if fitted else None
    options, ignored = read_fitted(path, opened.facts.sha256, architecture)
    warnings = [*metadata.warnings, *sidecar.warnings, *ignored, *assumptions]
    if entries is not None and (reason := entries.distrust()):
        warnings.append(reason)
    if names and len(names) != architecture.classes:
        warnings.append(f"{len(names)} labels for {architecture.classes} classes: some have no name, or a wrong one")
    return Explainer(opened, resolved, names, tuple(warnings), options)


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
    """Load a model and explain an image, a list of images or an iterator of images; see `Explainer.explain`."""
    return load(model).explain(image, target, **options)


def inspect(
    model: str | os.PathLike[str] | bytes, *, size: Size | None = None, task: TaskName | None = None
) -> Architecture:
    """The architecture found in the graph of a model; every claim about it is checked numerically on a probe input."""
    return read_file(model, size, task).architecture


def read_file(model: str | os.PathLike[str] | bytes, size: Size | None, task: TaskName | None) -> Reading:
    """What `load` would find in a model; read anew."""
    file = open_model_file(model)
    sidecar = beside(file.unresolved_path)
    hints = Hints(size, getattr(sidecar.preprocess, "size", None), task, sidecar.class_counts)
    return read_model(file, hints)[1]
