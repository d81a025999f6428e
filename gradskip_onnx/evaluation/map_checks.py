"""Two checks that a map must pass: another class changes it, and noise that nobody sees does not."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradskip_onnx.api import Explainer
from gradskip_onnx.methods import MethodChoice
from gradskip_onnx.methods.options import option
from gradskip_onnx.metrics.similarity import ranks_alike
from gradskip_onnx.metrics.table import Measured
from gradskip_onnx.tasks import Task, task_of
from gradskip_onnx.types import Array

from .explain import maps_of
from .forward import Forward
from .metric_kinds import GroupMetric

LEVELS = 255  # of a pixel


@dataclass(frozen=True, slots=True)
class ClassOptions:
    """How many images are explained."""

    images: int = option(32, "images of the dataset that are explained for both classes", low=1, high=100_000)


@dataclass(frozen=True, slots=True)
class NoiseOptions:
    """Strength and number of the noises, and how many images are explained."""

    images: int = option(32, "images of the dataset that are explained with noise", low=1, high=100_000)
    noise: float = option(1.0, "standard deviation of the noise in levels of a pixel, 0 to 255", low=0.0, high=LEVELS)
    draws: int = option(3, "noises added to each image, one at a time", low=1, high=1000)
    seed: int = option(0, "seed of the noise", low=0, high=2**31)


def between_classes(
    explainer: Explainer, method: MethodChoice, images: Array, targets: Sequence[int], score: str, options: ClassOptions
) -> list[Measured]:
    """`spearman`: rank correlation of the maps of the class explained and of the likeliest other class, `other`."""
    del options
    task, scores = task_of(explainer.architecture), Forward(explainer).logits(images)
    found = [Measured(excluded="no other class is predicted") for _ in images]
    others = {at: second_class(task, scores[at], target) for at, target in enumerate(targets)}
    seconds = {at: other for at, other in others.items() if other is not None}
    asked = list(seconds)
    if asked:
        first = maps_of(explainer, method, images[asked], [targets[at] for at in asked], score)
        second = maps_of(explainer, method, images[asked], list(seconds.values()), score)
        for at, one, other in zip(asked, first, second, strict=True):
            found[at] = Measured({"spearman": alike(one, other), "other": float(seconds[at])})
    return found


def second_class(task: Task, logits: Array, target: int) -> int | None:
    """The likeliest class besides `target`; None if a segmentation predicts no other at any pixel, or there is none."""
    ranked = task.ranked(logits[None])[0]
    other = next((int(index) for index in np.argsort(-ranked, kind="stable") if index != target), None)
    absent = other is not None and task.takes_region and ranked[other] == 0
    return None if absent else other


def under_noise(
    explainer: Explainer, method: MethodChoice, images: Array, targets: Sequence[int], score: str, options: NoiseOptions
) -> list[Measured]:
    """`spearman`: rank correlation of the maps of an image and of the image with Gaussian noise, mean over draws."""
    deviation = options.noise / LEVELS / np.array(explainer.preprocess.std)[:, None, None]
    rngs = [np.random.default_rng((options.seed, zlib.crc32(image.tobytes()))) for image in images]
    clean = maps_of(explainer, method, images, targets, score)
    found = np.empty((options.draws, len(images)))
    for draw in range(options.draws):
        noise = np.stack([rng.standard_normal(images.shape[1:]) for rng in rngs])
        noisy = maps_of(explainer, method, (images + deviation * noise).astype(images.dtype), targets, score)
        found[draw] = [alike(one, other) for one, other in zip(clean, noisy, strict=True)]
    return [Measured({"spearman": float(values.mean())}) for values in found.T]


def alike(one: Array, other: Array) -> float:
    """Spearman's rank correlation of two maps; equal maps are alike, also constant ones, which have no ranks."""
    return 1.0 if np.array_equal(one, other) else ranks_alike(one, other)


CLASS_SENSITIVITY = GroupMetric(
    name="class-sensitivity",
    summary="rank correlation of the maps of the class explained and of the likeliest other class",
    options=ClassOptions,
    better="lower",
    span=(-1.0, 1.0),
    terms=("spearman",),
    measure=between_classes,
)
NOISE_STABILITY = GroupMetric(
    name="noise-stability",
    summary="rank correlation of the maps of the image with and without noise that nobody sees",
    options=NoiseOptions,
    better="higher",
    span=(-1.0, 1.0),
    terms=("spearman",),
    measure=under_noise,
)
