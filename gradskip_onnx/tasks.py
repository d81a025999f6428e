"""What the scores of a model are: a row for each task, with axes, ranking of classes and pixels explained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from .types import Architecture, Array, TaskName


@dataclass(frozen=True, slots=True)
class Task:
    """One row; scores are arrays of its `axes`: b image, c class, h and w pixels of the scores.

    `ranked` gives (B, classes), the larger the likelier. `standing` gives, for the scores of one image, the share and
    the score of each class, as people read them. `explained` gives the weight of each pixel in the score of a class
    ((h, w), or None where scores are about the whole image), from the scores of one image, the class and a region.
    """

    name: TaskName
    axes: str
    share: str  # what the probability of a class is called
    ranked: Callable[[Array], Array]
    standing: Callable[[Array], tuple[Array, Array]]
    explained: Callable[[Array, int, Array | None], Array | None]

    @property
    def takes_region(self) -> bool:
        """Whether the user may say which pixels are explained."""
        return "h" in self.axes

    def predicted(self, scores: Array) -> Array:
        """(B,): the predicted class of each image."""
        return np.asarray(self.ranked(scores).argmax(axis=1))

    def score(self, scores: Array, target: int, pixels: Array | None) -> Array:
        """(B,) float64: the score of a class; over pixels their weighted mean."""
        return _pooled(scores.astype(np.float64)[:, target], pixels)

    def probability(self, scores: Array, target: int, pixels: Array | None) -> Array:
        """(B,) float64: the probability of a class; over pixels their weighted mean."""
        wide = scores.astype(np.float64)
        powers = np.exp(wide - wide.max(axis=1, keepdims=True))
        return _pooled(powers[:, target] / powers.sum(axis=1), pixels)


def _pooled(of_class: Array, pixels: Array | None) -> Array:
    if pixels is None:
        return np.asarray(of_class)
    return np.asarray((of_class * pixels).sum(axis=(1, 2)) / pixels.sum())


def _class_standing(scores: Array) -> tuple[Array, Array]:
    """Softmax and logit."""
    shifted = np.exp(scores.astype(np.float64) - scores.max())
    return shifted / shifted.sum(), scores


def pixels_won(scores: Array) -> Array:
    """How many pixels of (classes, h, w) each class wins; of equal scores the first does, as in argmax."""
    best = scores == scores.max(axis=0)  # argmax over this axis is ten times slower
    won = np.array([np.count_nonzero(pixels) for pixels in best])
    if won.sum() != scores[0].size:
        won = np.bincount(scores.argmax(axis=0).ravel(), minlength=len(scores))
    return won


def _pixel_standing(scores: Array) -> tuple[Array, Array]:
    """Share of the pixels won, and the mean logit."""
    won = pixels_won(scores)
    return won / won.sum(), scores.mean(axis=(1, 2))


def _explained_pixels(scores: Array, target: int, region: Array | None) -> Array:
    """The region, else the pixels predicted as the class, else all; as the seed of the gradient has it."""
    chosen = scores.argmax(axis=0) == target if region is None else region
    return (chosen if chosen.any() else np.ones_like(chosen)).astype(np.float32)


TASKS: Mapping[TaskName, Task] = MappingProxyType(
    {
        row.name: row
        for row in (
            Task(
                "classification", "bc", "probability",
                ranked=lambda scores: scores,
                standing=_class_standing,
                explained=lambda _scores, _target, _region: None,
            ),
            Task(
                "segmentation", "bchw", "share of pixels",
                ranked=lambda scores: np.stack([pixels_won(each) for each in scores]),
                standing=_pixel_standing,
                explained=_explained_pixels,
            ),
        )
    }
)  # fmt: skip
BY_RANK: Mapping[int, Task] = MappingProxyType({len(row.axes): row for row in TASKS.values()})


def task_of(architecture: Architecture) -> Task:
    """The row of a model."""
    return TASKS[architecture.task]
