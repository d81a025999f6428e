"""Explains image files with one explainer and writes the results to files; a bad image does not stop the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gradskip_onnx.errors import InputError
from gradskip_onnx.explanation import Explanation
from gradskip_onnx.explanation.files import EVERY_FILE, FileSettings, Written, write_classes, write_explanation
from gradskip_onnx.images.classes import find_class
from gradskip_onnx.images.read import Picture, open_picture
from gradskip_onnx.output.folder import Folder
from gradskip_onnx.passes.extra_passes import Progress
from gradskip_onnx.tasks import task_of

from .batch import Outcome, run_jobs, then
from .explainer import Explainer
from .inputs import Prepared
from .jobs import Job
from .question import ExplainRequest
from .run_record import RunRecord


@dataclass(frozen=True, slots=True, eq=False)
class Explained:
    """An opened image and its explanations: one, or one per class where the likeliest classes are explained."""

    picture: Picture
    explanations: tuple[Explanation, ...]


def check(explainer: Explainer, request: ExplainRequest) -> None:
    """Raise InputError for a request that no image could satisfy with this model."""
    architecture = explainer.architecture
    find_class(request.target, explainer.labels, architecture.classes)
    channels = architecture.input_dims.channels
    if channels != 3:
        raise InputError(f"{explainer.name} takes {channels} channels, an image has 3; use the Python call")
    if request.question.region is not None and not task_of(architecture).takes_region:
        raise InputError(f"a region is for segmentation; {explainer.name} classifies the whole image")


def explain_jobs(
    explainer: Explainer, jobs: Iterable[Job], request: ExplainRequest, progress: Progress | None = None
) -> Iterator[Outcome[Job, Explained]]:
    """Yield the outcome of each job, in order; `progress(n)` is called after each batch of n extra passes."""
    target = find_class(request.target, explainer.labels, explainer.architecture.classes)

    def prepare(job: Job) -> tuple[Picture, Prepared]:
        picture = open_picture(job.path)
        return picture, explainer.prepare(picture)

    def explain(batch: Sequence[tuple[Picture, Prepared]]) -> list[Explained]:
        question, images = request.question, [image for _, image in batch]
        if request.likeliest:
            answers = [explainer.answer_likeliest(image, request.likeliest, question, progress) for image in images]
        else:
            found = explainer.answer(images, [target] * len(images), question, progress)
            answers = [[explanation] for explanation in found]
        return [Explained(picture, tuple(answer)) for (picture, _), answer in zip(batch, answers, strict=True)]

    # the likeliest classes of one image share a pass; each image has its own
    size = 1 if request.likeliest else request.batch_size
    return run_jobs(jobs, prepare, explain, batch_size=size)


def write_jobs(
    outcomes: Iterable[Outcome[Job, Explained]],
    request: ExplainRequest,
    folder: Folder,
    settings: FileSettings = EVERY_FILE,
    record: RunRecord | None = None,
) -> Iterator[Outcome[Job, tuple[Written, ...]]]:
    """Write the files of each explained job and yield the outcomes; a job of several classes claims its names here.

    A `record` notes before and after each image what is done.
    """

    def write(job: Job, result: Explained) -> tuple[Written, ...]:
        picture, explanations = result.picture, result.explanations
        image, stem = picture.image, job.stem
        again = record is not None and record.began_before(job)

        def begin() -> None:
            if record is not None:
                record.begin(job, picture)

        if request.likeliest:
            written = write_classes(folder, stem, explanations, image, settings, again=again, begin=begin)
        else:
            begin()
            written = (write_explanation(folder, stem, explanations[0], image, settings),)
        if record is not None:
            record.finish(job, picture, written)
        return written

    for outcome in then(outcomes, write):
        if record is not None and outcome.error is not None:
            record.fail(outcome.job, outcome.error)
        yield outcome
