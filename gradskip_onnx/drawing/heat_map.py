"""What is drawn: the values of a map, the part of the image they are about, and the words beside it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.interpolate import Box
from gradskip_onnx.types import Array


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

    def check(self, image: Image.Image) -> None:
        """Raise InputError for an image of another size."""
        height, width = self.values.shape
        if (image.width, image.height) != (width, height):
            raise InputError(f"the map is {width}x{height}, its image {image.width}x{image.height}")
