"""Inputs of a metric: an image with its ground truth, an explanation, and a function that runs the model."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from gradskip_onnx.errors import InputError, ModelError
from gradskip_onnx.types import Array

BATCH = 16  # changed images made and scored at a time: memory does not grow with the number of steps
IGNORED = -1  # in a mask: an unlabelled pixel

Box = tuple[float, float, float, float]  # left, top, right, bottom, in pixels of the model's input
Score = Callable[[Array], Array]  # (M, C, H, W) -> (M,): the probability of the explained class


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One image and class; noise and the order of ties depend on `seed`, so they are the same for every method."""

    id: str
    image: Array  # (C, H, W) float32, normalised, as fed to the model
    target: int  # the class explained
    label: int | None = None
    boxes: tuple[Box, ...] | None = None  # of objects of the class
    mask: Array | None = None  # (H, W) whole numbers: 1 the class, 0 anything else, IGNORED unlabelled
    mean: tuple[float, ...] = (0.0,)  # of the preprocessing, one per channel or one for all
    std: tuple[float, ...] = (1.0,)
    patch: int = 16  # side in pixels of the square that is removed at once: a token, or several small ones
    seed: int = 0

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the model's input."""
        return self.image.shape[-2], self.image.shape[-1]


@dataclass(frozen=True, slots=True, eq=False)
class Saliency:
    """An explanation: `map` at the size of the model's input, and the signed `scores` of the method."""

    map: Array  # (H, W)
    scores: Array  # (rows, columns); a method that scores pixels gives the map itself


def usable(saliency: Saliency, sample: Sample) -> Saliency:
    """The explanation itself; raises InputError if its shape is wrong or a value is NaN or infinite."""
    if saliency.map.shape != sample.size:
        raise InputError(f"{sample.id}: a map of {saliency.map.shape} for an input of {sample.size}; resize it first")
    if saliency.scores.ndim != 2 or 0 in saliency.scores.shape:
        raise InputError(f"{sample.id}: scores need rows and columns, got an array of shape {saliency.scores.shape}")
    for name, values in (("map", saliency.map), ("scores", saliency.scores)):
        broken = int((~np.isfinite(values)).sum())
        if broken:
            raise InputError(f"{sample.id}: {broken} of {values.size} values of the {name} are NaN or infinite")
    return saliency


@dataclass(frozen=True, slots=True, eq=False)
class Remembering:
    """A score with a cache for images that do not depend on the method, such as the ends of a curve."""

    score: Score
    cache: MutableMapping[Hashable, float] = field(default_factory=dict)

    def __call__(self, images: Array) -> Array:
        return self.score(images)


def ask_with_ends(
    score: Score, ends: Mapping[Hashable, Array], between: Iterable[Array]
) -> tuple[dict[Hashable, float], Array]:
    """The probability at each end and of the images between; ends that are not cached share their batches."""
    cache = score.cache if isinstance(score, Remembering) else {}
    missing = [name for name in ends if name not in cache]
    values = ask(score, chain((ends[name] for name in missing), between))
    cache.update(zip(missing, map(float, values), strict=False))
    return {name: cache[name] for name in ends}, values[len(missing) :]


def ask(score: Score, images: Iterable[Array]) -> Array:
    """The probability of each image, (M,) float64, BATCH images at a time."""
    found = [_scored(score, np.stack(part)) for part in _batches(images)]
    return np.concatenate(found) if found else np.zeros(0)


def _scored(score: Score, images: Array) -> Array:
    values = np.asarray(score(images), dtype=np.float64)
    if values.shape != (len(images),):
        raise InputError(f"the score of {len(images)} images must be as many numbers, got an array of {values.shape}")
    if not np.isfinite(values).all():
        raise ModelError("the model's probability for a changed image is not a finite number")
    return values


def _batches(images: Iterable[Array]) -> Iterator[list[Array]]:
    part: list[Array] = []
    for image in images:
        part.append(image)
        if len(part) == BATCH:
            yield part
            part = []
    if part:
        yield part
