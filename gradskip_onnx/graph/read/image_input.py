"""Finds the graph input that takes the picture, its layout and its size."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.graph.layouts import fed_dims
from gradskip_onnx.graph.prove.value_grids import ValueGrid, grid_of
from gradskip_onnx.limits import ELEMENTS
from gradskip_onnx.types import Array, ImageDims, ImageLayout, Size, image_layout

from .bfloat16 import BFLOAT16, refusal

USUAL_SIDES = (224, 256, 384, 512, 518, 448, 336, 192, 160, 128, 96, 64, 32)


@dataclass(frozen=True, slots=True)
class ImageInput:
    """A rank-4 graph input; `sizes` lists the heights and widths to try, one entry where the file fixes them."""

    name: str
    layout: ImageLayout
    channels: int
    sizes: tuple[Size, ...]
    batch: int | None  # None: any
    dtype: np.dtype[Any]
    grid: ValueGrid | None = None  # to which a quantised file rounds its pixels

    def dims(self, size: Size) -> tuple[int, ...]:
        """The shape of one image, without the batch axis."""
        return fed_dims(ImageDims(self.channels, *size), self.layout)

    def probe(self, size: Size, batch: int, seed: int = 0) -> Array:
        """Noise images of about the spread of normalised photographs, or of the images a file was calibrated on."""
        rng = np.random.default_rng(seed)
        noise = rng.standard_normal((batch, *self.dims(size)))
        if self.dtype.kind in "iu":
            noise = np.clip(noise * 50 + 128, 0, 255)
        elif self.grid is not None:
            middle, reach = (self.grid.highest + self.grid.lowest) / 2, (self.grid.highest - self.grid.lowest) / 2
            noise = middle + noise * reach / 3
        return self.within_grid(noise).astype(self.dtype)

    def within_grid(self, pixels: Array) -> Array:
        """Pixels that do not saturate: one that is cut off moves nothing when it changes."""
        return pixels if self.grid is None else np.clip(pixels, self.grid.lowest, self.grid.highest)


def find_image_input(graph: gs.Graph, size: Size | None = None) -> ImageInput:
    """The one input that can take a picture; `size` is used where the file leaves height or width open."""
    listing = ", ".join(f"{t.name}: {t.dtype} {t.shape}" for t in graph.inputs)
    rank_4 = [t for t in graph.inputs if t.shape is not None and len(t.shape) == 4]
    for tensor in rank_4:
        if tensor.dtype == BFLOAT16 and tensor.outputs:
            raise refusal(tensor.outputs[0].name, tensor.outputs[0].op)
    images = [t for t in rank_4 if not isinstance(t.dtype, int) and np.dtype(t.dtype).kind in "fu"]  # NumPy's own types
    if not images:
        raise UnsupportedModelError(
            "no-image-input",
            f"no input takes pictures (rank 4, float or uint8); inputs are {listing}; give a vision model",
        )
    if len(graph.inputs) > 1:
        raise UnsupportedModelError(
            "several-inputs", f"one input, the picture, is expected; inputs are {listing}; cut or fix the others first"
        )
    tensor = images[0]
    batch, *rest = [int(d) if isinstance(d, int | np.integer) and d > 0 else None for d in tensor.shape]
    layout = image_layout(rest)
    channels, height, width = (rest[2], rest[0], rest[1]) if layout == "bhwc" else (rest[0], rest[1], rest[2])
    candidates = [size] if size else [(side, side) for side in USUAL_SIDES]
    sizes = tuple(dict.fromkeys((height or h, width or w) for h, w in candidates))
    for side in sizes:
        ELEMENTS.check((batch or 1) * (channels or 3) * prod(side), f"the image input {tensor.name!r}")
    return ImageInput(tensor.name, layout, channels or 3, sizes, batch, np.dtype(tensor.dtype), _pixel_grid(tensor))


def _pixel_grid(tensor: gs.Tensor) -> ValueGrid | None:
    """The grid to which every reader of the image rounds it first; None if there is none, or more than one."""
    places = []
    for reader in tensor.outputs:
        place = reader.inputs[1:]
        known = len(place) == 2 and all(isinstance(number, gs.Constant) for number in place)
        if reader.op != "QuantizeLinear" or not known or any(np.size(number.values) != 1 for number in place):
            return None
        places.append(grid_of(*(np.asarray(number.values) for number in place)))
    return places[0] if len(set(places)) == 1 else None
