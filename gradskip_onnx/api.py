"""The public functions: `load` a model, `explain` images in one call, `inspect` the architecture of a file."""

from __future__ import annotations

import inspect as python
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, overload

from gradskip_onnx.cache.folder import default_cache
from gradskip_onnx.images.labels import as_labels
from gradskip_onnx.images.model_configs import beside
from gradskip_onnx.images.preprocess import PRESETS, Preprocess, resolve
from gradskip_onnx.methods import DEFAULT, find_method
from gradskip_onnx.model_file.opening import ModelFile, open_model_file
from gradskip_onnx.passes.opened_model import SessionSettings, open_model
from gradskip_onnx.passes.reading import Hints, read_model
from gradskip_onnx.pipeline.explainer import Explainer
from gradskip_onnx.pipeline.fitted_options import read_fitted
from gradskip_onnx.pipeline.inputs import ImageLike
from gradskip_onnx.pipeline.question import Target

from .errors import InputError, PreprocessingWarning, unknown_name
from .explanation import Explanation
from .types import Architecture, Array, Size, TaskName

if TYPE_CHECKING:
    import onnx

    from gradskip_onnx.graph.architecture import Reading

__all__ = ["Explainer", "Explanation", "explain", "inspect", "load"]


def load(
    model: str | os.PathLike[str] | bytes | ModelFile | onnx.ModelProto,
    device: str = "auto",
    *,
    require_device: bool = False,
    threads: int | None = None,
    preprocess: Preprocess | Mapping[str, Any] | str | None = None,
    labels: str | os.PathLike[str] | Mapping[Any, str] | Sequence[str] | None = None,
    size: Size | int | None = None,
    task: TaskName | None = None,
    low_memory: bool = False,
    cache: bool = True,
    fitted: bool = True,
) -> Explainer:
    """Open a model from a path, bytes or an onnx.ModelProto, and return its Explainer.

    `preprocess` replaces the preprocessing stored with the model; a mapping replaces single fields of `Preprocess`, and
    a name is that of a mean and std: imagenet, half, clip or none. What is neither stored nor given is assumed, which
    a PreprocessingWarning says once a model. `labels` is a list of class names, a mapping of index to name, or the path
    of a file with a name a line, or JSON. `size` is (height, width), or one number, for models that take any.

    `task` says what the output holds, where the file does not: class scores of the image (classification) or of each
    pixel (segmentation). `low_memory` saves memory and start-up time, which pays for few images. With `cache`, the
    analysis of the file is stored on disk for later calls; the environment variable GRADSKIP_CACHE names the folder, or
    is `off`. With `fitted`, options that `gradskip-onnx study fit` kept beside the model stand in for the defaults.
    """
    explicit = preprocess if isinstance(preprocess, Preprocess) else None
    flags = {} if explicit else _settings(preprocess)
    names = None if labels is None else as_labels(labels)
    asked = _size(size or flags.get("size") or getattr(explicit, "size", None))
    file = _file(model)
    sidecar = beside(file.unresolved_path)
    hints = Hints(asked, getattr(sidecar.preprocess, "size", None), task, (len(names or ()), *sidecar.class_counts))
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
    names = tuple(names if names is not None else metadata.labels or sidecar.labels)
    path = file.unresolved_path if fitted else None
    options, ignored = read_fitted(path, opened.facts.sha256, architecture)
    notes = [*metadata.warnings, *sidecar.warnings, *ignored, *assumptions]
    if entries is not None and (reason := entries.distrust()):
        notes.append(reason)
    if names and len(names) != architecture.classes:
        notes.append(f"{len(names)} labels for {architecture.classes} classes: some have no name, or a wrong one")
    _warn_once(opened.facts.sha256, file.name, assumptions)
    return Explainer(opened, resolved, names, tuple(notes), options)


_warned: set[tuple[str, tuple[str, ...]]] = set()  # models by hash, and what has been said of them in this process


def _warn_once(sha256: str, name: str, assumptions: tuple[str, ...]) -> None:
    """Say in a Python warning, once a model, what was assumed about its images."""
    if assumptions and (sha256, assumptions) not in _warned:
        _warned.add((sha256, assumptions))
        level, frame = 1, sys._getframe()
        while frame.f_code.co_filename == __file__ and frame.f_back is not None:  # up to the line that called us
            level, frame = level + 1, frame.f_back
        warnings.warn(f"{name}: {'; '.join(assumptions)}", PreprocessingWarning, stacklevel=level)


def _file(model: Any) -> ModelFile:
    """The file of a model given in any accepted form."""
    if isinstance(model, ModelFile):
        return model
    if isinstance(model, bytearray | memoryview):
        model = bytes(model)
    elif callable(getattr(model, "SerializeToString", None)):  # an onnx.ModelProto
        model = model.SerializeToString()
    if not isinstance(model, str | os.PathLike | bytes):
        raise InputError(
            f"model: got {type(model).__name__}; give the path of an ONNX file, its bytes, or a ModelProto"
        )
    return open_model_file(model)


def _settings(preprocess: object) -> dict[str, Any]:
    """The fields of Preprocess that a mapping, or the name of a preset, sets."""
    if isinstance(preprocess, str):
        if preprocess not in PRESETS:
            raise unknown_name("preset of preprocessing", preprocess, PRESETS)
        return dict(PRESETS[preprocess])
    if preprocess is not None and not isinstance(preprocess, Mapping):
        kind = type(preprocess).__name__
        raise InputError(f"preprocess: got {kind}; give a Preprocess, a mapping of its fields, or the name of a preset")
    return dict(preprocess or {})


def _size(size: Any) -> Size | None:
    """Height and width from a pair, a list, or one number for both; raises InputError for anything else."""
    return None if size is None else Preprocess(size=size).size


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
    """Load a model and explain an image, a list of images or an iterator of images.

    `options` are those of `load` (device, preprocess, labels, ...) and those of `Explainer.explain` (method, score,
    region, ..., and the options of the method).
    """
    loading = {name: options.pop(name) for name in LOAD_OPTIONS if name in options}
    _check_options(options)
    return load(model, **loading).explain(image, target, **options)


def _keywords(function: Any) -> tuple[str, ...]:
    """The names of the arguments of a function that may be given by name, but for the model, image and target."""
    skipped = ("self", "model", "image", "target")
    kinds = (python.Parameter.POSITIONAL_OR_KEYWORD, python.Parameter.KEYWORD_ONLY)
    parameters = python.signature(function).parameters.values()
    return tuple(entry.name for entry in parameters if entry.kind in kinds and entry.name not in skipped)


LOAD_OPTIONS = _keywords(load)
EXPLAIN_OPTIONS = _keywords(Explainer.explain)


def _check_options(options: Mapping[str, Any]) -> None:
    """Raise InputError for an option of neither call nor the method, before the model is opened."""
    row = find_method(options.get("method", DEFAULT))
    known = (*LOAD_OPTIONS, *EXPLAIN_OPTIONS, *(entry.name for entry in fields(row.options)))
    for name in options:
        if name not in known:
            raise unknown_name(f"option of explain with {row.name}", name, known)


def inspect(
    model: str | os.PathLike[str] | bytes, *, size: Size | None = None, task: TaskName | None = None
) -> Architecture:
    """The architecture found in the graph of a model; every claim about it is checked numerically on a probe input."""
    return read_file(model, size, task).architecture


def read_file(model: str | os.PathLike[str] | bytes, size: Size | None, task: TaskName | None) -> Reading:
    """What `load` would find in a model; read anew."""
    file = _file(model)
    sidecar = beside(file.unresolved_path)
    hints = Hints(size, getattr(sidecar.preprocess, "size", None), task, sidecar.class_counts)
    return read_model(file, hints)[1]
