"""Turns the options of `explain` into a request, and loads the explainer."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gradskip_onnx import api
from gradskip_onnx.api import Explainer
from gradskip_onnx.errors import InputError, PreprocessingWarning
from gradskip_onnx.methods import DEFAULT, Method, choose_method, find_method
from gradskip_onnx.model_file.opening import ModelFile
from gradskip_onnx.pipeline.question import ExplainRequest, Question

from .inputs import read_region, read_target
from .options import preprocess_flags, read_method_options

TOP = 5
FEW = 8  # images; for up to so many, packing the weights costs more time than it saves


def read_request(flags: Mapping[str, Any]) -> ExplainRequest:
    """The request that the options describe."""
    row = _chosen_method(flags)
    if "help" in flags["pairs"]:
        raise InputError(f"-O help: write NAME=VALUE; `gradskip-onnx methods {row.name}` lists the options")
    named = [f"{name}={flags[name]!r}" for name in ("alpha", "gamma") if flags[name] is not None]
    options = read_method_options(row.options, (*named, *flags["pairs"]))
    asked = bool(flags["method"] or options)
    top = flags["target"] == f"top{TOP}"
    return ExplainRequest(
        Question(
            replace(choose_method(row.name, **options), asked=asked),
            flags["score"],
            read_region(flags["region"]),
            flags["region"],
        ),
        target=None if top else read_target(flags["target"]),
        likeliest=TOP if top else 0,
        batch_size=flags["batch_size"],
    )


def _chosen_method(flags: Mapping[str, Any]) -> Method:
    """The method named, else gradskip if its options alpha or gamma are set, else the default."""
    has_paper_options = flags["alpha"] is not None or flags["gamma"] is not None
    return find_method(flags["method"] or ("gradskip" if has_paper_options else DEFAULT))


def load_explainer(
    source: Path | ModelFile, flags: Mapping[str, Any], images: int | None = None, *, fitted: bool = False
) -> Explainer:
    """Open the model with the settings in `flags`; up to FEW images run in low-memory mode (None: many images).

    With `fitted`, options kept beside the model count; comparisons of methods run them as they are written.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PreprocessingWarning)  # `report_model` prints it with the others
        return _load(source, flags, images, fitted)


def _load(source: Path | ModelFile, flags: Mapping[str, Any], images: int | None, fitted: bool) -> Explainer:
    return api.load(
        source,
        flags["device"],
        require_device=flags["require_device"],
        threads=flags["threads"],
        preprocess=preprocess_flags(flags) or None,
        labels=flags["labels"],
        size=flags["size"],
        task=flags["task"],
        low_memory=images is not None and images <= FEW,
        cache=not flags["no_cache"],
        fitted=fitted,
    )
