"""MODEL.gradskip.json: options of a method that `study fit` found for one model file, kept beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.labels import read_json
from gradskip_onnx.methods import METHODS, MethodChoice, choose_method
from gradskip_onnx.types import Architecture

SUFFIX = ".gradskip.json"
FORMAT = 1  # raised when the options of the method get another meaning
METHOD = "gradskip+"
NAMES = ("first", "last", "detail", "pixels", "share")  # what is fitted; no file sets any other option
SPAN = {"first", "last"}  # mean something together only
LARGEST = 1e6  # of any value; `pixels` has no upper limit of its own


@dataclass(frozen=True, slots=True)
class FittedOptions:
    """The options in a file; they stand in for the defaults of METHOD."""

    source: str  # name of the file
    options: Mapping[str, float]

    def fill(self, choice: MethodChoice) -> MethodChoice:
        """The choice with the options that nobody gave taken from the file; another method is returned as it is.

        If `first` or `last` is given, the file says neither: its own half of the span may not fit the other.
        """
        given = choice.given | (SPAN if choice.given & SPAN else set())
        taken = {name: value for name, value in self.options.items() if name not in given}
        if choice.row.name != METHOD or not taken:
            return choice
        return replace(choice, options=replace(choice.options, **taken), source=self.source)


def path_beside(model: Path) -> Path:
    """Where the fitted options of a model file are kept."""
    return model.with_name(model.name + SUFFIX)


def read_fitted(
    model: Path | None, sha256: str, architecture: Architecture
) -> tuple[FittedOptions | None, tuple[str, ...]]:
    """The options beside a model, and warnings; raises InputError for a file that cannot be used.

    A file that was fitted to other bytes is ignored with a warning: a model that was trained on needs another fit.
    """
    if model is None or not os.path.exists(path := path_beside(model)):  # Path.exists raises for a closed folder
        return None, ()
    try:
        fitted_to, options = _checked(read_json(path))
        if fitted_to != sha256:
            return None, (f"ignored {path}: it was fitted to another model ({fitted_to[:12]}, this is {sha256[:12]})",)
        METHODS[METHOD].needs(choose_method(METHOD, **options).options, architecture)  # raises for blocks there are not
    except InputError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise InputError(f"{path}: {reason}; fit again, or delete the file") from None
    return FittedOptions(path.name, options), ()


def _checked(document: object) -> tuple[str, dict[str, Any]]:
    """The SHA-256 of the model and the options in a document."""
    if not isinstance(document, Mapping) or (document.get("format"), document.get("method")) != (FORMAT, METHOD):
        raise InputError(f"not a fit of {METHOD} in format {FORMAT}")
    model, options = document.get("model"), document.get("options")
    sha256 = model.get("sha256") if isinstance(model, Mapping) else None
    if not isinstance(sha256, str) or not isinstance(options, Mapping) or not options:
        raise InputError("the hash of the model or the options are missing")
    for name, value in options.items():
        if name not in NAMES:
            raise InputError(f"option {name!r:.40} is not fitted; known: {', '.join(NAMES)}")
        if not isinstance(value, int | float) or not abs(value) <= LARGEST:  # false for NaN, too
            raise InputError(f"option {name} = {value!r:.40} (a number, at most {LARGEST:g})")
    return sha256, dict(options)
