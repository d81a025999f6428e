"""What `explain` is asked for, from its options: read, checked, and the explainer for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import click

from gradskip_onnx import api
from gradskip_onnx.api import Explainer, Explanation
from gradskip_onnx.errors import InputError
from gradskip_onnx.images.classes import find_class
from gradskip_onnx.images.labels import read_labels
from gradskip_onnx.methods import DEFAULT, METHODS, Method, choose_method, find_method
from gradskip_onnx.model_file.opening import ModelFile
from gradskip_onnx.passes.extra_passes import Progress

from .inputs import Region, Target, read_region, read_target
from .options import preprocess_flags, read_method_options

TOP = 5
FEW = 8  # images: so many must be explained before packing the weights pays


@dataclass(frozen=True, slots=True, eq=False)
class ExplainRequest:
    """What to explain of every image, and how."""

    target: Target = None
    top: bool = False  # the five likeliest classes in place of one target
    method: str = DEFAULT
    options: Mapping[str, Any] = field(default_factory=dict)
    region: Region = None
    region_text: str | None = None
    score: str = "logit"
    own_score: bool = False  # the method differentiates a score of its own, whatever is asked for
    batch_size: int = 1

    @property
    def joint(self) -> bool:
        """Whether images can share a pass: regions and top classes differ from image to image."""
        return self.batch_size > 1 and self.region is None and not self.top

    @property
    def passes(self) -> int:
        """How many passes an image is expected to take."""
        row = METHODS[self.method]
        return row.cost(row.options(**self.options)).forwards * (TOP if self.top else 1)

    def run(self, explainer: Explainer, images: Any, target: Target, progress: Progress | None = None) -> Any:
        return explainer.explain(
            images, target, method=self.method, region=self.region, score=self.score, progress=progress, **self.options
        )

    def run_likeliest(self, explainer: Explainer, image: Any, progress: Progress | None) -> list[Explanation]:
        return explainer.explain_likeliest(
            image, TOP, method=self.method, region=self.region, score=self.score, progress=progress, **self.options
        )


def read_request(given: dict[str, Any]) -> ExplainRequest:
    """What the options ask of every image."""
    named = [f"{name}={given[name]!r}" for name in ("alpha", "gamma") if given[name] is not None]
    top, row = given["target"] == "top5", chosen_method(given)
    options = read_method_options(row.options, (*named, *given["pairs"]))
    choice = choose_method(row.name, **options)  # checks the values before anything else is done
    return ExplainRequest(
        target=None if top else read_target(given["target"]),
        top=top,
        method=row.name,
        options=options,
        region=read_region(given["region"]),
        region_text=given["region"],
        score=given["score"],
        own_score=choice.own_score,
        batch_size=given["batch_size"],
    )


def chosen_method(given: Mapping[str, Any]) -> Method:
    """The method named, or the default; alpha and gamma are the paper's and mean its method."""
    papers = given["alpha"] is not None or given["gamma"] is not None
    return find_method(given["method"] or ("gradskip" if papers else DEFAULT))


def load_explainer(source: Path | ModelFile, given: dict[str, Any], images: int | None = None) -> Explainer:
    """Open the model with the settings given, for so many images (or an open number)."""
    return api.load(
        source,
        given["device"],
        require_device=given["require_device"],
        threads=given["threads"],
        preprocess=preprocess_flags(given) or None,
        labels=None if given["labels"] is None else read_labels(given["labels"]),
        size=given["size"],
        low_memory=images is not None and images <= FEW,
        cache=not given["no_cache"],
    )


def list_options(row: Method) -> None:
    """The options of a method with their defaults."""
    for each in fields(row.options):
        allowed = " | ".join(each.metadata.get("choices", ()))
        click.echo(f"{each.name}={each.default}\t{each.metadata['help']}{f' ({allowed})' if allowed else ''}")


def check(explainer: Explainer, request: ExplainRequest) -> None:
    """Refuse what would fail for every image alike."""
    read = explainer.architecture
    find_class(request.target, explainer.labels, read.classes)
    if read.input_dims[0] != 3:
        raise InputError(f"{explainer.name} takes {read.input_dims[0]} channels, an image has 3; use the Python call")
    if request.region is not None and read.task != "segmentation":
        raise InputError(f"--region is for segmentation; {explainer.name} classifies the whole image")
