"""The counterfactual check: is what a map calls relevant what the model needs?

The most relevant patches of an image are erased, then as many random ones, and the file is asked again. It is asked
about the intact images too, in the batch in which they were explained, which proves on the way that the instrumented
model gives the file's own scores: in another batch a dynamically quantised file answers differently itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

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


@dataclass(frozen=True, slots=True, eq=False)
class Intact:
    """What the file says of an image as it is."""

    difference: float
    same_class: bool
    probability: float
    pixels: Array | None  # in segmentation: where the class is


def ask(run: Run, task: Task, questions: Sequence[Question], settings: CheckSettings, batch: int) -> list[Answer]:
    """The answer to each question; images of different questions share batches of at most `batch`."""
    rows = _in_batches(run, (question.sample.image for question in questions), batch)
    intact = [_intact(task, question, row) for question, row in zip(questions, rows, strict=True)]
    scores = _in_batches(run, (image for question in questions for image in _images(question, settings)), batch)
    return [
        _answer(task, question, found, islice(scores, 1 + settings.draws), settings)
        for question, found in zip(questions, intact, strict=True)
    ]


def _in_batches(run: Run, images: Iterator[Array], batch: int) -> Iterator[Array]:
    """The scores of each image; only those of one batch are held, for in a segmentation they are large."""
    return (row for part in in_batches(images, batch) for row in run(np.stack(part)))


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
    """The image without its most relevant patches, and one for each draw of random ones."""
    sample = question.sample
    fill, chosen = FILLS[settings.fill](sample), erased_patches(question, settings.share)
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


def _intact(task: Task, question: Question, scores: Array) -> Intact:
    target, both = question.sample.target, np.stack([scores, question.logits])
    pixels = task.explained(scores, target, None)  # in segmentation: where the intact image shows the class
    return Intact(
        difference=float(np.abs(both[0].astype(np.float64) - both[1]).max()),
        same_class=len(set(task.predicted(both).tolist())) == 1,
        probability=float(task.probability(scores[None], target, pixels)[0]),
        pixels=pixels,
    )


def _answer(task: Task, question: Question, intact: Intact, scores: Iterator[Array], settings: CheckSettings) -> Answer:
    target, sample = question.sample.target, question.sample
    chances = [float(task.probability(each[None], target, intact.pixels)[0]) for each in scores]
    rows, columns = (-(-side // sample.patch) for side in sample.size)
    return Answer(
        difference=intact.difference,
        same_class=intact.same_class,
        patches=count_of(rows * columns, settings.share),
        intact=intact.probability,
        erased=chances[0],
        random=float(np.mean(chances[1:])),
    )
