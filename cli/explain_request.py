"""What `explain` is asked for, from its options, and the explainer for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gradskip_onnx import api
from gradskip_onnx.api import Explainer
from gradskip_onnx.errors import InputError
from gradskip_onnx.images.labels import read_labels
from gradskip_onnx.methods import DEFAULT, Method, choose_method, find_method
from gradskip_onnx.model_file.opening import ModelFile
from gradskip_onnx.pipeline.question import ExplainRequest, Question

from .inputs import read_region, read_target
from .options import preprocess_flags, read_method_options

TOP = 5
FEW = 8  # images: so many must be explained before packing the weights pays


def read_request(given: Mapping[str, Any]) -> ExplainRequest:
    """What the options ask of every image."""
    row = _chosen_method(given)
    if "help" in given["pairs"]:
        raise InputError(f"-O help: write NAME=VALUE; `gradskip-onnx methods {row.name}` lists the options")
    named = [f"{name}={given[name]!r}" for name in ("alpha", "gamma") if given[name] is not None]
    options = read_method_options(row.options, (*named, *given["pairs"]))
    top = given["target"] == f"top{TOP}"
    return ExplainRequest(
        Question(choose_method(row.name, **options), given["score"], read_region(given["region"])),
        target=None if top else read_target(given["target"]),
        likeliest=TOP if top else 0,
        batch_size=given["batch_size"],
        region_text=given["region"],
    )


def _chosen_method(given: Mapping[str, Any]) -> Method:
    """The method named, or the default; alpha and gamma are the paper's and mean its method."""
    papers = given["alpha"] is not None or given["gamma"] is not None
    return find_method(given["method"] or ("gradskip" if papers else DEFAULT))


def load_explainer(source: Path | ModelFile, given: Mapping[str, Any], images: int | None = None) -> Explainer:
    """Open the model with the settings given, for so many images (or an open number)."""
    return api.load(
        source,
        given["device"],
        require_device=given["require_device"],
        threads=given["threads"],
        preprocess=preprocess_flags(given) or None,
        labels=None if given["labels"] is None else read_labels(given["labels"]),
        size=given["size"],
        task=given["task"],
        low_memory=images is not None and images <= FEW,
        cache=not given["no_cache"],
    )
