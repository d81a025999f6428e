"""What a report speaks of: an audit with its findings, the policy it was held against, and facts of single images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from gradskip_onnx.addresses import without_place
from gradskip_onnx.audit.reading import Audit
from gradskip_onnx.findings.found import Findings
from gradskip_onnx.findings.violations import Violation
from gradskip_onnx.types import Array

OpenImage = Callable[[str], Image.Image]  # an image by its id, upright RGB


@dataclass(frozen=True, slots=True)
class Content:
    """Everything that a report is made from; `violations` is None where no policy was given."""

    audit: Audit
    findings: Findings
    violations: Sequence[Violation] | None = None
    open_image: OpenImage | None = None  # None: no pictures are shown, only maps

    @property
    def facts(self) -> Mapping[str, Any]:
        return self.audit.facts

    @property
    def data(self) -> str:
        """What the images are called, without the folder or host that they lie on."""
        return without_place(str(self.facts["data"]["address"]))

    def place_of(self, index: int | None) -> str:
        """A class by its name, or all images."""
        return "all images" if index is None else self.audit.label_of(index)


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """One image of the audit, in words."""

    position: int
    image: str
    explained: str  # the class
    label: str  # the true class, or empty
    correct: bool | None
    abstained: str  # or empty
    numbers: Mapping[str, float | None]

    @property
    def alt(self) -> str:
        """What a picture of the map shows, for those who do not see it."""
        truth = "" if self.correct is not False else f", labelled {self.label}"
        return f"relevance for {self.explained} in {self.image}{truth}"


NUMBERS = (
    "probability",
    "border",
    "inside",
    "inside_area",
    "concentration",
    "spread",
    "check_erased",
    "check_random",
)
_COLUMNS = ("position", "image", "target", "label", "correct", "abstained", *NUMBERS)


def facts_of(audit: Audit, positions: Iterable[int]) -> list[ImageFacts]:
    """The facts of images, in the order asked for."""
    return [_image_facts(audit, row) for row in audit.rows(positions, _COLUMNS)]


def column(audit: Audit, name: str) -> Array:
    """A column of numbers or truth values, (images,) float64, NaN where there is none."""
    return np.asarray(audit.table[name].cast("float64").to_numpy(), np.float64)


def _image_facts(audit: Audit, row: Mapping[str, Any]) -> ImageFacts:
    named = {key: "" if row[key] is None else audit.label_of(row[key]) for key in ("target", "label")}
    numbers = {name: row[name] for name in NUMBERS}
    abstained = row["abstained"] or ""
    return ImageFacts(
        row["position"], row["image"], named["target"], named["label"], row["correct"], abstained, numbers
    )
