"""The settings of an explanation, and of a run that explains many images alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.preprocess import Geometry
from gradskip_onnx.images.regions import Region, weigh
from gradskip_onnx.methods import MethodChoice
from gradskip_onnx.passes.opened_model import OpenedModel
from gradskip_onnx.tasks import task_of
from gradskip_onnx.types import Array

Target = int | str | None  # a class by number or by name; None: the predicted one


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """Method, score and region of an explanation."""

    method: MethodChoice
    score: str = "logit"  # the quantity differentiated, unless the method has a score of its own
    region: Region | None = None  # segmentation only: the explained part, in pixels of the image
    region_name: str | None = None  # the region as the user named it

    @property
    def score_text(self) -> str:
        """The name of the score, as written into documents."""
        return "the method's own" if self.method.own_score else self.score

    @property
    def region_text(self) -> str | None:
        """The region in words, as written into documents."""
        if self.region is None or self.region_name:
            return self.region_name
        if isinstance(self.region, np.ndarray):
            return f"a mask of {np.count_nonzero(self.region)} pixels"
        return ",".join(f"{side:g}" for side in self.region)

    def weights(self, model: OpenedModel, geometries: Sequence[Geometry]) -> list[Array] | None:
        """The weights of each image's pixels that make the region; None without one."""
        if self.region is None:
            return None
        if not task_of(model.architecture).takes_region:
            raise InputError("a region can be explained for segmentation only; this model classifies the whole image")
        rows, columns = (int(size or 0) for size in model.facts.scores.dims[2:])
        return [weigh(self.region, geometry, (rows, columns)) for geometry in geometries]


@dataclass(frozen=True, slots=True, eq=False)
class ExplainRequest:
    """The settings that all images of a run share."""

    question: Question
    target: Target = None
    likeliest: int = 0  # number of likeliest classes to explain instead of the target; 0: explain the target
    batch_size: int = 1

    @property
    def passes(self) -> int:
        """Forward passes that one image is expected to take."""
        return self.question.method.cost.forwards * max(1, self.likeliest)
