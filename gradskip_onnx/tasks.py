"""The table of tasks: axes of the scores, ranking of the classes and explained pixels, one row per task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from .types import Architecture, Array, TaskName


@dataclass(frozen=True, slots=True)
class Task:
    """One row. `axes` are those of the scores: b image, c class, h and w pixels of the scores.

    `ranked(scores)` is (B, classes), larger for likelier classes. `standing(scores of one image)` is the share and the
    score of each class, for people to read. `explained(scores of one image, class, region)` is the weight (h, w) of
    each pixel in the score of the class; None if scores have no pixels.
    """

    name: TaskName
    axes: str
    share: str  # the name of the share in `standing`
    ranked: Callable[[Array], Array]
    standing: Callable[[Array], tuple[Array, Array]]
    explained: Callable[[Array, int, Array | None], Array | None]

    @property
    def takes_region(self) -> bool:
        """Whether the user may choose which pixels are explained."""
        return "h" in self.axes

    def predicted(self, scores: Array) -> Array:
        """The predicted class of each image, (B,)."""
        return np.asarray(self.ranked(scores).argmax(axis=1))

    def score(self, scores: Array, target: int, pixels: Array | None) -> Array:
        """The score of a class, (B,) float64; for segmentation its mean over pixels with weights `pixels`."""
        return _pooled(scores.astype(np.float64)[:, target], pixels)

    def probability(self, scores: Array, target: int, pixels: Array | None) -> Array:
        """The probability of a class, (B,) float64; for segmentation its mean over pixels with weights `pixels`."""
        wide = scores.astype(np.float64)
        powers = np.exp(wide - wide.max(axis=1, keepdims=True))
        return _pooled(powers[:, target] / powers.sum(axis=1), pixels)


def _pooled(of_class: Array, pixels: Array | None) -> Array:
    if pixels is None:
        return np.asarray(of_class)
    return np.asarray((of_class * pixels).sum(axis=(1, 2)) / pixels.sum())


def _class_standing(scores: Array) -> tuple[Array, Array]:
    """Softmax and logit of each class."""
    shifted = np.exp(scores.astype(np.float64) - scores.max())
    return shifted / shifted.sum(), scores


def pixels_won(scores: Array) -> Array:
    """The number of pixels where each class has the largest score, of scores (classes, h, w); ties as in argmax."""
    best = scores == scores.max(axis=0)  # argmax along this axis is ten times slower
    won = np.array([np.count_nonzero(pixels) for pixels in best])
    if won.sum() != scores[0].size:
        won = np.bincount(scores.argmax(axis=0).ravel(), minlength=len(scores))
    return won


def _pixel_standing(scores: Array) -> tuple[Array, Array]:
    """Share of pixels predicted as each class, and its mean logit."""
    won = pixels_won(scores)
    return won / won.sum(), scores.mean(axis=(1, 2))


def _explained_pixels(scores: Array, target: int, region: Array | None) -> Array:
    """The region; without one, the pixels predicted as the class; all if there are none. As in scores/seeds.py."""
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
                ranked=lambda scores: np.stack([pixels_won(of_image) for of_image in scores]),
                standing=_pixel_standing,
                explained=_explained_pixels,
            ),
        )
    }
)  # fmt: skip
BY_RANK: Mapping[int, Task] = MappingProxyType({len(row.axes): row for row in TASKS.values()})


def task_of(architecture: Architecture) -> Task:
    """The task of a model."""
    return TASKS[architecture.task]
