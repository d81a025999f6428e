"""Files of images through one explainer, and its answers into files: a bad image is reported, the others go on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradskip_onnx.errors import InputError
from gradskip_onnx.explanation import Explanation
from gradskip_onnx.images.classes import find_class
from gradskip_onnx.images.read import Picture, open_picture
from gradskip_onnx.output.documents import Subject
from gradskip_onnx.output.explanation_files import Written, write_classes, write_explanation
from gradskip_onnx.output.folder import Folder, plan_stems
from gradskip_onnx.passes.extra_passes import Progress
from gradskip_onnx.tasks import task_of

from .batch import Outcome, run_jobs, then
from .explainer import Explainer
from .inputs import Prepared
from .question import ExplainRequest


@dataclass(frozen=True, slots=True)
class Job:
    """One image and the stem of its files."""

    path: Path
    stem: str


@dataclass(frozen=True, slots=True, eq=False)
class Explained:
    """An image as it was opened, and its explanations: one, or one for each of its likeliest classes."""

    picture: Picture
    explanations: tuple[Explanation, ...]


def plan_jobs(paths: Sequence[Path]) -> tuple[Job, ...]:
    """A job for each image, all stems different; nothing is opened yet."""
    return tuple(Job(path, stem) for path, stem in zip(paths, plan_stems(paths), strict=True))


def check(explainer: Explainer, request: ExplainRequest) -> None:
    """Refuse what would fail for every image alike."""
    read = explainer.architecture
    find_class(request.target, explainer.labels, read.classes)
    channels = read.input_dims.channels
    if channels != 3:
        raise InputError(f"{explainer.name} takes {channels} channels, an image has 3; use the Python call")
    if request.question.region is not None and not task_of(read).takes_region:
        raise InputError(f"a region is for segmentation; {explainer.name} classifies the whole image")


def explain_jobs(
    explainer: Explainer, jobs: Iterable[Job], request: ExplainRequest, progress: Progress | None = None
) -> Iterator[Outcome[Job, Explained]]:
    """The outcome of each job, in order; `progress` is told of the further passes of an image."""
    target = find_class(request.target, explainer.labels, explainer.architecture.classes)

    def opened(job: Job) -> tuple[Picture, Prepared]:
        picture = open_picture(job.path)
        return picture, explainer.prepare(picture)

    def explained(some: Sequence[tuple[Picture, Prepared]]) -> list[Explained]:
        question = request.question
        if request.likeliest:  # the classes of one image share its pass; other images have other classes
            many = [explainer.answer_likeliest(each, request.likeliest, question, progress) for _, each in some]
        else:
            found = explainer.answer([each for _, each in some], [target] * len(some), question, progress)
            many = [[each] for each in found]
        return [Explained(picture, tuple(mine)) for (picture, _), mine in zip(some, many, strict=True)]

    size = 1 if request.likeliest else request.batch_size
    return run_jobs(jobs, opened, explained, batch_size=size)


def write_jobs(
    outcomes: Iterable[Outcome[Job, Explained]], explainer: Explainer, request: ExplainRequest, folder: Folder
) -> Iterator[Outcome[Job, tuple[Written, ...]]]:
    """The same outcomes with the files of each; names of several classes of an image are claimed as they come."""
    task, score = explainer.architecture.task, request.question.score_text

    def write(job: Job, result: Explained) -> tuple[Written, ...]:
        picture, found = result.picture, result.explanations
        subject = Subject(explainer.name, picture.name, picture.sha256, task, score, request.region_text)
        if request.likeliest:
            return write_classes(folder, job.stem, found, picture.image, subject)
        return (write_explanation(folder, job.stem, found[0], picture.image, subject),)

    return then(outcomes, write)
