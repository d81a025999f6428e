"""The interface through which a method runs further passes of the model, for the same class as the first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from gradskip_onnx.autodiff.rulesets.choice import Rules
from gradskip_onnx.autodiff.scores.seeds import Seed
from gradskip_onnx.types import Array, Needs, Trace


class Passes(Protocol):
    """Passes for one image, its class and, for segmentation, its explained pixels; inputs are split into batches."""

    def probabilities(self, images: Array) -> Array:
        """(M, channels, H, W) -> (M,) float64: probability of the class, or its mean over the explained pixels."""

    def scores(self, images: Array) -> Array:
        """As `probabilities`, but of the logit of the class."""

    def traces(
        self, images: Array, needs: Needs | None = None, rules: Rules | None = None, score: Seed | None = None
    ) -> Iterator[Trace]:
        """One trace per image (M, channels, H, W), for the same class and pixels.

        `needs`, `rules` and `score` default to those of the method's first pass.
        """

    def pixels(self) -> Array | None:
        """(h, w) weights of the explained pixels, for segmentation; None for classification."""

    def without_tokens(self, keep: Array) -> Array:
        """(M, n) booleans -> (M,) float64: probability when the model reads only the kept patches.

        Special tokens stay. Patches are removed after the positional embedding, so the token sequence is shorter;
        raises UnsupportedModelError("fixed-sequence") if the model's graph does not allow that.
        """
