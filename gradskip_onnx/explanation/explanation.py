"""The result of the pipeline: one map, everything known about it, and what people do with it."""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradskip_onnx.errors import printable
from gradskip_onnx.images.classes import Candidate
from gradskip_onnx.images.original import Original
from gradskip_onnx.images.preprocess import Geometry, Preprocess
from gradskip_onnx.output.json_text import plain
from gradskip_onnx.output.wording import named
from gradskip_onnx.tasks import TASKS
from gradskip_onnx.types import Array, Grid, Relevance, TaskName

if TYPE_CHECKING:
    from PIL import Image

    from .files import MapDtype, MapSize

LONGEST = 60  # characters of a label or a file name in the one line that stands for an explanation


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Explanation:
    """The map of one image for one class, and the facts needed to draw, audit or repeat it.

    In a notebook it shows its figure. It can be pickled; the bytes of the image file travel with it.
    """

    map: Array  # (H, W) float32, relevance of each pixel at the size of the original image
    target: Candidate  # the class that is explained, with its logit and probability
    top: tuple[Candidate, ...]  # the five likeliest classes, strongest first
    grid: Grid  # rows and columns of patches over the part of the image that the model saw
    relevance: Relevance  # scores on the model's own grid, and how the method came to them
    preprocess: Preprocess  # how the image became the model's input
    geometry: Geometry  # the size of the original image, and the part of it the model saw
    original: Original  # the image as it was given: name, SHA-256, content
    model: str  # name of the model file
    model_sha256: str  # of the model file together with its external weight files
    provider: str  # the ONNX Runtime provider that ran the model
    timings: Mapping[str, float]  # seconds: open (the sessions), run (the model), propagate (the method)
    task: TaskName = "classification"  # what the scores of the model are
    score: str = "logit"  # the quantity that was differentiated
    region: str | None = None  # segmentation: the explained part, in words
    warnings: tuple[str, ...] = field(default=())  # what was assumed about the model or its device

    @property
    def image(self) -> Image.Image:
        """The explained image, upright RGB; decoded at each call."""
        return self.original.open()

    @property
    def patch(self) -> tuple[float, float]:
        """Height and width of a patch in pixels of the original image."""
        x0, y0, x1, y1 = self.geometry.box
        return (y1 - y0) / self.grid.rows, (x1 - x0) / self.grid.columns

    def figure(self, **style: Any) -> Image.Image:
        """The image and the map side by side, with title and legend; `style` takes the fields of PictureStyle."""
        from .pictures import figure_of, read_style

        return figure_of(self, self.image, read_style(style))

    def overlay(self, **style: Any) -> Image.Image:
        """The map over the image and nothing else; `style` takes the fields of PictureStyle."""
        from .pictures import overlay_of, read_style

        return overlay_of(self, self.image, read_style(style))

    def show(self, **style: Any) -> None:
        """Display the figure: in a notebook below the cell, elsewhere with the viewer of the system."""
        picture, ipython = self.figure(**style), sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython is not None else None
        if ipython is not None and getattr(shell, "kernel", None) is not None:
            ipython.display.display(picture)
        else:
            picture.show(title=repr(self))

    def save(
        self, path: str | os.PathLike[str], *, map: MapSize = "image", dtype: MapDtype = "float32", **style: Any
    ) -> tuple[Path, ...]:
        """Write files and return their paths; each is written whole or not at all, and replaces one of its name.

        A path that ends in .png (the figure), .npy (the map) or .json (all facts) becomes that file. Any other path is
        the stem of all three: `save("out/cat")` writes out/cat.png, out/cat.npy and out/cat.json. In a folder that
        exists, or a path that ends in a slash, the stem is that of the image. `map` and `dtype` say how the map is
        written: at the size of the image or on the model's grid (`relevance.scores`), as float32 or float16, where
        the map is divided by the `map.scale` that the .json names. `style` takes the fields of PictureStyle.
        """
        from .files import save

        return save(self, path, map, dtype, style)

    def to_dict(self) -> dict[str, Any]:
        """All facts but the pixels of map and image, in types that JSON has; the document that `save` writes."""
        from .document import document

        facts = plain(document(self))
        assert isinstance(facts, dict)
        return facts

    def __repr__(self) -> str:
        height, width = self.map.shape
        label, name = (printable(text[:LONGEST]) for text in (named(self.target), Path(self.original.name).name))
        share = f"{TASKS[self.task].share} {self.target.probability:.3f}"
        return f"Explanation({label}, {share}, {self.relevance.method}, {name}, map {width}x{height})"

    def _repr_png_(self) -> bytes:
        from .pictures import png_of

        return png_of(self.figure())

    def _repr_html_(self) -> str:
        encoded = base64.b64encode(self._repr_png_()).decode("ascii")
        text = escape(repr(self), quote=True)
        return f'<img src="data:image/png;base64,{encoded}" alt="{text}" title="{text}" style="max-width:100%">'
