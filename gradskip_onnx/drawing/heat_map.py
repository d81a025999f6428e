"""What is drawn: the values of a map, the part of the image they are about, and the words beside it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.interpolate import Box
from gradskip_onnx.types import Array

FINEST = 20  # patches a side; smaller ones are smoothed as if there were so many


@dataclass(frozen=True, slots=True, eq=False)
class HeatMap:
    """A map over an image, ready to be drawn."""

    values: Array  # (H, W) finite numbers, at the size of the image
    patch: tuple[float, float]  # height and width of a patch of the model, in pixels of the image
    box: Box | None = None  # the part of the image that the model saw; None: all of it
    title: str = ""  # what was explained, such as the class
    facts: str = ""  # in small print: probability, method, model

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or 0 in self.values.shape or not np.isfinite(self.values).all():
            raise InputError(f"a map to draw has rows, columns and finite values, got shape {self.values.shape}")

    @property
    def fine(self) -> bool:
        """Whether patches are too small for the eye, as those of the first stage of a hierarchical model."""
        return self.blur_unit != self.patch

    @property
    def blur_unit(self) -> tuple[float, float]:
        """Height and width that smoothing is measured in: a patch, or a share of the seen part if that is larger."""
        x0, y0, x1, y1 = self.box or (0.0, 0.0, float(self.values.shape[1]), float(self.values.shape[0]))
        return blur_unit(self.patch, (y1 - y0, x1 - x0))

    def check(self, image: Image.Image) -> None:
        """Raise InputError for an image of another size."""
        height, width = self.values.shape
        if (image.width, image.height) != (width, height):
            raise InputError(f"the map is {width}x{height}, its image {image.width}x{image.height}")


def blur_unit(patch: tuple[float, float], seen: tuple[float, float]) -> tuple[float, float]:
    """The unit of smoothing, height and width: a patch, or a share of what the model sees if that is larger."""
    return max(patch[0], seen[0] / FINEST), max(patch[1], seen[1] / FINEST)
