"""The public calls: load a model once and explain images with it, or both in one; look into a file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, overload

from .cache import default as default_cache
from .explainer import Explainer, Explanation, ImageLike
from .given import Given, given
from .model import Sizes, open_model
from .notes import notes
from .preprocess import Preprocess, Size, resolve
from .sidecar import beside
from .types import Architecture, Array

__all__ = ["Explainer", "Explanation", "explain", "inspect", "load"]


def load(
    model: str | os.PathLike[str] | bytes | Given,
    device: str = "auto",
    *,
    require_device: bool = False,
    threads: int | None = None,
    preprocess: Preprocess | Mapping[str, Any] | None = None,
    labels: Sequence[str] | None = None,
    size: Size | None = None,
    frugal: bool = False,
    cache: bool = True,
) -> Explainer:
    """Read a model from a path or bytes; `preprocess` replaces what the file says, in whole or (a mapping) in part.

    `frugal` saves memory and the time to start, for few images. With `cache` what was found in a file is kept for the
    next time; the environment variable GRADSKIP_CACHE names the folder, or is `off`.
    """
    flags = {} if preprocess is None or isinstance(preprocess, Preprocess) else dict(preprocess)
    told = preprocess if isinstance(preprocess, Preprocess) else None
    file = model if isinstance(model, Given) else given(model)
    near = beside(file.asked)
    sizes = Sizes(size or flags.get("size") or getattr(told, "size", None), getattr(near.preprocess, "size", None))
    opened = open_model(
        file, sizes, default_cache() if cache else None,
        device=device, require_device=require_device, threads=threads, frugal=frugal,
    )  # fmt: skip
    said, read = opened.portrait.notes, opened.architecture
    chosen, assumed = resolve(
        flags=flags, metadata=told or said.preprocess, sidecar=near.preprocess, input_size=read.input_dims[1:]
    )
    names = tuple(labels if labels is not None else said.labels or near.labels)
    warnings = [*said.warnings, *near.warnings, *assumed]
    if names and len(names) != read.classes:
        warnings.append(f"{len(names)} labels for {read.classes} classes: some have no name, or a wrong one")
    return Explainer(opened, chosen, names, tuple(warnings))


@overload
def explain(
    model: str | os.PathLike[str] | bytes, image: ImageLike, target: int | str | None = None, **options: Any
) -> Explanation: ...


@overload
def explain(
    model: str | os.PathLike[str] | bytes, image: Array, target: Any = None, **options: Any
) -> list[Explanation]: ...


def explain(
    model: str | os.PathLike[str] | bytes, image: Any, target: Any = None, **options: Any
) -> Explanation | list[Explanation]:
    """One call: load a model and explain an image (or each of a preprocessed batch) with it."""
    found: Explanation | list[Explanation] = load(model).explain(image, target, **options)
    return found


def inspect(model: str | os.PathLike[str] | bytes, *, size: Size | None = None) -> Architecture:
    """What the graph of a model turns out to be, every claim proven on a probe input."""
    from .graph.architecture import read
    from .graph.load import load as load_source

    source = load_source(model)
    return read(source, size=size, outputs=notes(source).forward_outputs).architecture
