"""Opens a model again in another process: where it was, and whether it is still the same."""

from __future__ import annotations

import os

from gradskip_onnx.cache.folder import default_cache
from gradskip_onnx.errors import ModelError
from gradskip_onnx.model_file.opening import ModelFile, open_model_file

from .opened_model import OpenedModel, SessionSettings, open_model
from .reading import Hints


def place_of(file: ModelFile) -> str | bytes:
    """The absolute path of a model file, or its bytes if it has none."""
    if file.path is None or file.unresolved_path is None:
        return bytes(file.data)
    # its own name where that still leads to the file: a link may point to a file whose name says nothing
    named = os.path.abspath(file.unresolved_path)
    return named if os.path.realpath(named) == str(file.path) else str(file.path)


def reopen(place: str | bytes, hints: Hints, cached: bool, settings: SessionSettings, sha256: str) -> OpenedModel:
    """The model that was pickled; raises ModelError if other bytes lie in its place by now."""
    opened = open_model(open_model_file(place), hints, default_cache() if cached else None, settings)
    if opened.facts.sha256 != sha256:
        raise ModelError(
            f"{opened.name} has changed since it was pickled ({sha256[:12]}, now {opened.facts.sha256[:12]})"
        )
    return opened
