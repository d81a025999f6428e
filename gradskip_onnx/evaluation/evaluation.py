"""The settings of an evaluation: model, images, methods and metrics, and what each result depends on."""

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
    """The settings of an evaluation; `labels` are class indices by entry id."""

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
        """How often `step` is called in a full run."""
        return len(self.methods) * (len(self.dataset.entries) + len(self.group_measurements))

    @property
    def columns(self) -> tuple[Choice[Metric], ...]:
        """The metrics with a number per image: the columns of the table."""
        return tuple(choice for choice in self.metrics if isinstance(choice.row, Metric))

    @property
    def method_metrics(self) -> tuple[Choice[MethodMetric], ...]:
        """The metrics that depend on the method and the model only, not on images."""
        return tuple(choice for choice in self.metrics if isinstance(choice.row, MethodMetric))

    @property
    def image_measurements(self) -> tuple[Measurement[ImageMetric], ...]:
        """The measurements made on one image at a time."""
        return measurements([choice for choice in self.metrics if isinstance(choice.row, ImageMetric)])

    @property
    def group_measurements(self) -> tuple[Measurement[GroupMetric], ...]:
        """The measurements made on several images together."""
        return measurements([choice for choice in self.metrics if isinstance(choice.row, GroupMetric)])

    @property
    def shown(self) -> tuple[Entry, ...]:
        """The entries in the picture grid of the page, spread evenly over the dataset."""
        return spread(self.dataset.entries, self.pictures)

    def facts(self, entry: Entry, digest: str, method: MethodChoice | None = None) -> dict[str, Any]:
        """Everything that a result about an image depends on; without `method`, what its picture depends on."""
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
        if method is None:
            return found
        package = {"package": method.package} if method.package else {}
        return found | {"method": method.row.name, "options": method.settings} | package


def preparation(preprocess: Preprocess) -> dict[str, Any]:
    """The preprocessing settings without `source`, which does not change results."""
    return {name: value for name, value in preprocess.as_dict().items() if name != "source"}


def spread(entries: Sequence[Entry], count: int) -> tuple[Entry, ...]:
    """At most `count` entries, spread evenly."""
    number = min(count, len(entries))
    return tuple(entries[at * len(entries) // number] for at in range(number))
