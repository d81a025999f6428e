"""The counterfactual check: is what a map calls relevant what the model needs?

The most relevant patches of an image are erased, then as many random ones, and the file is asked again. The intact
image rides along in the same batch, which proves on the way that the instrumented model gives the file's own scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice

import numpy as np

from gradskip_onnx.images import interpolate
from gradskip_onnx.metrics import Sample
from gradskip_onnx.metrics.patches import of_each_pixel, patch_means
from gradskip_onnx.metrics.ranking import ranks
from gradskip_onnx.pipeline.batch import in_batches
from gradskip_onnx.tasks import Task
from gradskip_onnx.types import Array, Size

from .settings import FILLS, CheckSettings

DRAWS = 3  # the random stream of the sample's seed; metrics.substrates has 1 and 2
Run = Callable[[Array], Array]  # images (B, channels, H, W) -> scores as `OwnModel.logits` gives them


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """One image: its sample, the scores that the method gave it, and the logits that the instrumented model gave."""

    sample: Sample
    scores: Array
    logits: Array


@dataclass(frozen=True, slots=True)
class Answer:
    """What the file says; probabilities are those of the class explained."""

    difference: float  # largest |logit of the instrumented model - logit of the file|
    same_class: bool  # whether both predict the same class
    patches: int
    intact: float
    erased: float
    random: float

    @property
    def passed(self) -> bool:
        """Whether erasing what the map calls relevant costs more than erasing anything."""
        return self.erased < self.random


def ask(run: Run, task: Task, questions: Sequence[Question], settings: CheckSettings, batch: int) -> list[Answer]:
    """The answer to each question; images of different questions share batches of at most `batch`."""
    images = (image for question in questions for image in _images(question, settings))
    scores = (row for part in in_batches(images, batch) for row in run(np.stack(part)))
    return [_answer(task, question, scores, settings) for question in questions]


def erased_patches(question: Question, share: float) -> Array:
    """(rows, columns) booleans: the most relevant patches, at least one and not all."""
    values, sample = question.scores, question.sample
    if values.shape != sample.size:
        values = interpolate.resize(values, sample.size, "nearest")
    means = patch_means(values, sample.patch)
    return np.asarray(ranks(means, sample.seed) < count_of(means.size, share))


def count_of(patches: int, share: float) -> int:
    """How many patches are erased."""
    return min(max(1, round(share * patches)), patches - 1)


def _images(question: Question, settings: CheckSettings) -> Iterator[Array]:
    """The intact image, the one without its most relevant patches, and one for each draw of random ones."""
    sample = question.sample
    fill, chosen = FILLS[settings.fill](sample), erased_patches(question, settings.share)
    yield sample.image
    yield _without(sample, chosen, fill)
    rng = np.random.default_rng((sample.seed, DRAWS))
    for _ in range(settings.draws):
        drawn = rng.permutation(chosen.size) < np.count_nonzero(chosen)
        yield _without(sample, drawn.reshape(chosen.shape), fill)


def _without(sample: Sample, patches: Array, fill: Array) -> Array:
    return np.where(patches.reshape(-1)[_patch_of_pixel(sample.size, sample.patch)], fill, sample.image)


@lru_cache(4)
def _patch_of_pixel(size: Size, side: int) -> Array:
    """(H, W) the number of the patch that each pixel lies in, counted row by row."""
    rows, columns = (-(-length // side) for length in size)
    return of_each_pixel(np.arange(rows * columns).reshape(rows, columns), size, side)


def _answer(task: Task, question: Question, scores: Iterator[Array], settings: CheckSettings) -> Answer:
    intact = next(scores)
    target = question.sample.target
    pixels = task.explained(intact, target, None)  # in segmentation: where the intact image shows the class
    every = chain(
        [intact], islice(scores, 1 + settings.draws)
    )  # one after the other: those of a segmentation are large
    chances = [float(task.probability(each[None], target, pixels)[0]) for each in every]
    both = np.stack([intact, question.logits])
    rows, columns = (-(-side // question.sample.patch) for side in question.sample.size)
    return Answer(
        difference=float(np.abs(both[0].astype(np.float64) - both[1]).max()),
        same_class=len(set(task.predicted(both).tolist())) == 1,
        patches=count_of(rows * columns, settings.share),
        intact=chances[0],
        erased=chances[1],
        random=float(np.mean(chances[2:])),
    )
