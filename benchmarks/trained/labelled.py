"""Images with their classes and, where they are known, the boxes of what decides the class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from gradskip_onnx.datasets.entry import Box
from gradskip_onnx.types import Array


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """Images of one size; `boxes` is empty or has one entry an image, in its pixels; an empty entry: not known."""

    pixels: Array  # (n, h, w, 3) bytes
    labels: Array  # (n,) class indices
    names: tuple[str, ...]  # n file names without suffix
    boxes: tuple[tuple[Box, ...], ...] = ()

    def some(self, chosen: Array) -> Labelled:
        """The images with these indices, in this order."""
        return Labelled(
            self.pixels[chosen],
            self.labels[chosen],
            tuple(self.names[i] for i in chosen),
            tuple(self.boxes[i] for i in chosen) if self.boxes else (),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """What a model learns from in each epoch, what its accuracy is measured on, what is written for `evaluate`.

    Methods are chosen on the folder `tune` and judged on `test`, which share no image and no photograph.
    """

    epoch: Callable[[np.random.Generator], Labelled]
    test: Labelled
    folders: Mapping[str, Labelled]
