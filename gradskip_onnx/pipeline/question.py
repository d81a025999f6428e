"""What is asked: how an image is explained, and for a run over many images what of each."""

from __future__ import annotations

from dataclasses import dataclass

from gradskip_onnx.images.regions import Region
from gradskip_onnx.methods import MethodChoice

Target = int | str | None  # a class by number or by name; None: the predicted one


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """How images are explained."""

    method: MethodChoice
    score: str = "logit"  # what is differentiated, unless the method has a score of its own
    region: Region | None = None  # of a segmentation, in pixels of the image

    @property
    def score_text(self) -> str:
        """What is differentiated, for people."""
        return "the method's own" if self.method.own_score else self.score


@dataclass(frozen=True, slots=True, eq=False)
class ExplainRequest:
    """What is asked about every image of a run."""

    question: Question
    target: Target = None
    likeliest: int = 0  # so many of the likeliest classes, in place of the target
    batch_size: int = 1
    region_text: str | None = None  # the region as the user named it

    @property
    def passes(self) -> int:
        """How many forward passes an image is expected to take."""
        return self.question.method.cost.forwards * max(1, self.likeliest)
