"""Small pictures for the page, the model input and each map over it; stored as files, so that a run can resume."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from gradskip_onnx.drawing.heat_map import HeatMap
from gradskip_onnx.drawing.pictures import draw_overlay
from gradskip_onnx.drawing.style import PictureStyle
from gradskip_onnx.explanation import Explanation
from gradskip_onnx.images.preprocess import Preprocess, denormalise
from gradskip_onnx.output.atomic import write_whole, writing
from gradskip_onnx.pipeline.ledger import key_of
from gradskip_onnx.types import Array

SIDE = 384  # the longer side, in pixels: enough to be enlarged on a telephone
QUALITY = 85
FOLDER = "pictures"


@dataclass(frozen=True, slots=True)
class Pictures:
    """The folder of the pictures; file names are keys of everything a picture depends on."""

    folder: Path

    def path(self, facts: dict[str, object]) -> Path:
        return self.folder / FOLDER / f"{key_of(facts)}.jpg"

    def save(self, path: Path, image: Image.Image) -> None:
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=QUALITY)
        with writing(path):
            path.parent.mkdir(exist_ok=True)  # the folder itself is there, or was taken away
            write_whole(path, buffer.getvalue())


def thumbnail(image: Array, preprocess: Preprocess) -> Image.Image:
    """The model input (3, H, W) as a picture of SIDE pixels."""
    picture = denormalise(image, preprocess)
    factor = SIDE / max(picture.size)
    return picture.resize((round(picture.width * factor), round(picture.height * factor)), Image.Resampling.LANCZOS)


def map_thumbnail(image: Array, found: Explanation, preprocess: Preprocess) -> Image.Image:
    """The thumbnail of the model input with its map over it."""
    return draw_overlay(denormalise(image, preprocess), HeatMap(found.map, found.patch), PictureStyle(size=SIDE))
