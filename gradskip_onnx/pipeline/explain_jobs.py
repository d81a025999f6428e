"""Explains image files with one explainer and writes the results to files; a bad image does not stop the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gradskip_onnx.errors import InputError
from gradskip_onnx.explanation import Explanation
from gradskip_onnx.explanation.files import (
    EVERY_FILE,
    Encoded,
    EncodedClasses,
    FileSettings,
    Written,
    encode_classes,
    encode_explanation,
    write_classes,
    write_explanation,
)
from gradskip_onnx.images.classes import find_class
from gradskip_onnx.images.read import Picture, open_picture
from gradskip_onnx.output.folder import Folder
from gradskip_onnx.passes.extra_passes import Progress
from gradskip_onnx.tasks import task_of

from .ahead import work_ahead
from .batch import Outcome, further, run_jobs, then
from .explainer import Explainer
from .inputs import Prepared
from .jobs import Job
from .lanes import ONE_LANE, Lanes
from .question import ExplainRequest
from .run_record import RunRecord


@dataclass(frozen=True, slots=True, eq=False)
class Explained:
    """An opened image and its explanations: one, or one per class where the likeliest classes are explained."""

    picture: Picture
    explanations: tuple[Explanation, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """The hash of an image and the content of its files."""

    sha256: str | None
    encoded: Encoded | EncodedClasses


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
    explainer: Explainer,
    jobs: Iterable[Job],
    request: ExplainRequest,
    progress: Progress | None = None,
    lanes: Lanes = ONE_LANE,
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
    return run_jobs(jobs, prepare, explain, batch_size=size, ahead=lanes.ahead, lanes=lanes.count)


def write_jobs(
    outcomes: Iterable[Outcome[Job, Explained]],
    request: ExplainRequest,
    folder: Folder,
    settings: FileSettings = EVERY_FILE,
    record: RunRecord | None = None,
    lanes: Lanes = ONE_LANE,
) -> Iterator[Outcome[Job, tuple[Written, ...]]]:
    """Write the files of each explained job and yield the outcomes; a job of several classes claims its names here.

    A `record` notes before and after each image what is done. Pictures are drawn ahead in as many threads as there are
    lanes; files and record are written one image after the other.
    """

    def draw(job: Job, result: Explained) -> Drawn:
        image, explanations = result.picture.image, result.explanations
        if request.likeliest:
            return Drawn(result.picture.sha256, encode_classes(job.stem, explanations, image, settings))
        return Drawn(result.picture.sha256, encode_explanation(job.stem, explanations[0], image, settings))

    def write(job: Job, drawn: Drawn) -> tuple[Written, ...]:
        encoded = drawn.encoded
        again = record is not None and record.began_before(job)

        def begin() -> None:
            if record is not None:
                record.begin(job, drawn.sha256)

        if isinstance(encoded, EncodedClasses):
            written = write_classes(folder, encoded, again=again, begin=begin)
        else:
            begin()
            written = (write_explanation(folder, encoded),)
        if record is not None:
            record.finish(job, drawn.sha256, written)
        return written

    def note(outcome: Outcome[Job, Drawn]) -> Outcome[Job, tuple[Written, ...]]:
        done = further(write, outcome)
        if record is not None and done.error is not None:
            record.fail(done.job, done.error)
        return done

    drawn = then(outcomes, draw, ahead=lanes.ahead * lanes.count, threads=lanes.count)
    return work_ahead(note, drawn, ahead=lanes.ahead)
