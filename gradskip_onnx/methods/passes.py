"""Further passes through the model, for methods that ask it more than once about the same image and class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from gradskip_onnx.autodiff.rulesets.choice import Rules
from gradskip_onnx.autodiff.scores.seeds import Seed
from gradskip_onnx.types import Array, Needs, Trace


class Passes(Protocol):
    """Bound to one image, its class and, for segmentation, the pixels explained; batches are cut to size inside."""

    def probabilities(self, images: Array) -> Array:
        """(M, channels, H, W) -> (M,) float64: probability of the class; for segmentation its mean over the pixels."""

    def scores(self, images: Array) -> Array:
        """As `probabilities`, before the softmax."""

    def traces(
        self, images: Array, needs: Needs | None = None, rules: Rules | None = None, score: Seed | None = None
    ) -> Iterator[Trace]:
        """A pass like the method's own for each image, class and pixels held fixed.

        It shows something else, is differentiated by other rules or starts from another score if that is given.
        """

    def pixels(self) -> Array | None:
        """(h, w) weights of the scores that are explained, for segmentation; None for classification."""

    def without_tokens(self, keep: Array) -> Array:
        """(M, n) booleans -> (M,) float64: probability when the model reads only the patches kept.

        Special tokens stay. Patches leave after the positional embedding and the sequence really gets shorter; raises
        UnsupportedModelError("fixed-sequence") where the model's graph does not allow that.
        """
