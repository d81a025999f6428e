"""What is known about single images after a run: what was explained in them, the label, and their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gradskip_onnx.images.classes import class_name

from .choices import Measurement, measurement_of
from .evaluation import Evaluation
from .gather import Everything, Gathered
from .records import Answer

WORST = 10  # images listed for each metric


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """One image and the first class explained in it."""

    id: str
    label: str  # the name of its label, or empty
    explained: str = ""  # the name of the class that was explained; empty if nothing was
    probability: float | None = None  # of that class; in segmentation its share of the pixels
    right: bool | None = None  # whether the likeliest class is that of the label; None if one is not known

    @property
    def caption(self) -> str:
        """One line: the class explained with its probability, then the label."""
        share = "" if self.probability is None else f" ({100 * self.probability:.0f} %)"
        parts = [f"explained: {self.explained}{share}"] if self.explained else []
        return ", ".join([*parts, f"label: {self.label}" if self.label else "no label"])


@dataclass(frozen=True, slots=True)
class Worst:
    """The images with the worst values of a metric, by the reference method, worst first."""

    metric: str
    rows: tuple[tuple[ImageFacts, tuple[float | None, ...]], ...]  # with the values of all methods


Values = Mapping[tuple[str, str], Mapping[str, float]]  # by method and metric, then by image


def image_facts(evaluation: Evaluation, everything: Everything) -> dict[str, ImageFacts]:
    """The facts about each image of the dataset, by id."""
    answers: dict[str, tuple[int, Answer]] = {}
    for gathered in everything.values():
        for (image, target), answer in gathered.answers.items():
            if target is not None:
                answers.setdefault(image, (target, answer))
    return {entry.id: _facts(evaluation, entry.id, answers.get(entry.id)) for entry in evaluation.dataset.entries}


def _facts(evaluation: Evaluation, image: str, found: tuple[int, Answer] | None) -> ImageFacts:
    label, names = evaluation.labels.get(image), evaluation.explainer.labels
    named = "" if label is None else class_name(names, label)
    if found is None:
        return ImageFacts(image, named)
    target, answer = found
    classifies = evaluation.explainer.architecture.task == "classification"
    right = answer.predicted == label if label is not None and classifies else None
    return ImageFacts(image, named, class_name(names, target), answer.probability, right)


def accuracy(facts: Mapping[str, ImageFacts]) -> str:
    """Which share of the labelled images the model classifies as labelled; empty if none has a known label."""
    judged = [one.right for one in facts.values() if one.right is not None]
    return f"{sum(judged)} of {len(judged)} labelled images ({100 * sum(judged) / len(judged):.1f} %)" if judged else ""


def values_of(evaluation: Evaluation, everything: Everything) -> Values:
    """The value of each metric on each image, of its first class; images without one are left out."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    measurements: list[Measurement[Any]] = [*evaluation.image_measurements, *evaluation.group_measurements]
    for choice in evaluation.columns:
        label = measurement_of(choice, measurements).label
        for method in evaluation.methods:
            values = found.setdefault((method.label, choice.label), {})
            for (image, _), measured in everything.get((method.label, label), Gathered()).results.items():
                value = choice.row.value(measured)
                if value is not None:
                    values.setdefault(image, value)
    return found


def worst_first(values: Mapping[str, float], better: str) -> list[str]:
    """The images from the worst value to the best."""
    return sorted(values, key=lambda image: values[image], reverse=better == "lower")


def worst(evaluation: Evaluation, facts: Mapping[str, ImageFacts], values: Values, reference: str) -> list[Worst]:
    """For each metric the worst images of the reference method, with the values of the others."""
    found = []
    for choice in evaluation.columns:
        images = worst_first(values[reference, choice.label], choice.row.better)[:WORST]
        many = [values[method.label, choice.label] for method in evaluation.methods]
        if images:
            rows = tuple((facts[image], tuple(one.get(image) for one in many)) for image in images)
            found.append(Worst(choice.label, rows))
    return found
