"""What is to be evaluated: a model, images, methods and metrics, and what each result depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradskip_onnx.api import Explainer
from gradskip_onnx.datasets import Dataset, Entry
from gradskip_onnx.images.preprocess import Preprocess
from gradskip_onnx.methods import MethodChoice
from gradskip_onnx.metrics import Choice, ImageMetric, Metric
from gradskip_onnx.version import __version__

from .choices import Measurement, measurements
from .metric_kinds import GroupMetric, MethodMetric


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """What is to be evaluated, and how."""

    explainer: Explainer
    dataset: Dataset
    labels: Mapping[str, int]
    methods: tuple[MethodChoice, ...]
    metrics: tuple[Choice[Any], ...]
    target: str = "predicted"
    score: str = "logit"
    batch: int = 8
    pictures: int = 8
    retry: bool = False

    @property
    def steps(self) -> int:
        """How often the progress is told."""
        return len(self.methods) * (len(self.dataset.entries) + len(self.together))

    @property
    def columns(self) -> tuple[Choice[Metric], ...]:
        """The metrics that have a number for each image."""
        return tuple(choice for choice in self.metrics if isinstance(choice.row, Metric))

    @property
    def of_methods(self) -> tuple[Choice[MethodMetric], ...]:
        """The metrics of the methods themselves, whatever the images."""
        return tuple(choice for choice in self.metrics if isinstance(choice.row, MethodMetric))

    @property
    def alone(self) -> tuple[Measurement[ImageMetric], ...]:
        """What is measured image by image."""
        return measurements([choice for choice in self.metrics if isinstance(choice.row, ImageMetric)])

    @property
    def together(self) -> tuple[Measurement[GroupMetric], ...]:
        """What is measured on some images together."""
        return measurements([choice for choice in self.metrics if isinstance(choice.row, GroupMetric)])

    @property
    def shown(self) -> tuple[Entry, ...]:
        """The entries in the picture grid, spread evenly."""
        return spread(self.dataset.entries, self.pictures)

    def facts(self, entry: Entry, digest: str, method: MethodChoice | None = None) -> dict[str, Any]:
        """What a result about an image depends on."""
        explainer = self.explainer
        found = {
            "version": __version__,
            "model": explainer.sha256,
            "preprocess": preparation(explainer.preprocess),
            "target": self.target,
            "score": self.score,
            "image": entry.id,
            "digest": digest,
            "label": self.labels.get(entry.id),
        }
        return found if method is None else found | {"method": method.row.name, "options": method.settings}


def preparation(preprocess: Preprocess) -> dict[str, Any]:
    """The settings, without the note where they came from."""
    return {name: value for name, value in preprocess.as_dict().items() if name != "source"}


def spread(entries: Sequence[Entry], count: int) -> tuple[Entry, ...]:
    some = min(count, len(entries))
    return tuple(entries[at * len(entries) // some] for at in range(some))
