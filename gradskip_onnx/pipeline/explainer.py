"""A model that explains images: the pipeline reads top to bottom in `_explain`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any, TypeVar, overload

import numpy as np

from gradskip_onnx.autodiff.scores.seeds import RANKED, named_seed
from gradskip_onnx.errors import InputError
from gradskip_onnx.explanation import Explanation
from gradskip_onnx.images import interpolate
from gradskip_onnx.images.classes import Candidate, find_class, rank
from gradskip_onnx.images.preprocess import Geometry, Preprocess
from gradskip_onnx.images.regions import Region, weigh
from gradskip_onnx.instrument.pass_request import PassRequest
from gradskip_onnx.methods import DEFAULT, choose_method
from gradskip_onnx.passes.extra_passes import ExtraPasses, Progress
from gradskip_onnx.passes.opened_model import OpenedModel
from gradskip_onnx.runtime.session import Session
from gradskip_onnx.tasks import task_of
from gradskip_onnx.types import Architecture, Array, Needs, Trace

from .batch import run_jobs
from .inputs import MOST_AT_ONCE, ImageLike, Images, Prepared, is_several, paired, prepare_image, sort_out
from .question import Question, Target

TOP = 5
R = TypeVar("R")
Targets = Target | Iterable[Target]


@dataclass(frozen=True, slots=True, eq=False)
class Explainer:
    """A model, and how images become its input."""

    model: OpenedModel
    preprocess: Preprocess
    labels: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def name(self) -> str:
        """Of the file."""
        return self.model.name

    @property
    def sha256(self) -> str:
        """Of the file and of the weight files beside it."""
        return self.model.facts.sha256

    @property
    def architecture(self) -> Architecture:
        return self.model.architecture

    @property
    def provider(self) -> str:
        """The provider that runs the model, or will be asked for when the first session is opened."""
        return self.model.provider

    def close(self) -> None:
        """Let go of all sessions; the explainer can be used again and opens what it needs."""
        self.model.close()

    @overload
    def explain(
        self, image: ImageLike, target: Target = None, *,
        method: str = DEFAULT, region: Region | None = None, score: str = "logit",
        progress: Progress | None = None, batch_size: int | None = None, **options: Any,
    ) -> Explanation: ...  # fmt: skip

    @overload
    def explain(
        self, image: ImageLike, target: list[Any] | tuple[Any, ...], *,
        method: str = DEFAULT, region: Region | None = None, score: str = "logit",
        progress: Progress | None = None, batch_size: int | None = None, **options: Any,
    ) -> list[Explanation]: ...  # fmt: skip

    @overload
    def explain(
        self, image: list[Any] | tuple[Any, ...], target: Targets = None, *,
        method: str = DEFAULT, region: Region | None = None, score: str = "logit",
        progress: Progress | None = None, batch_size: int | None = None, **options: Any,
    ) -> list[Explanation]: ...  # fmt: skip

    @overload
    def explain(
        self, image: Iterator[Any], target: Targets = None, *,
        method: str = DEFAULT, region: Region | None = None, score: str = "logit",
        progress: Progress | None = None, batch_size: int | None = None, **options: Any,
    ) -> Iterator[Explanation]: ...  # fmt: skip

    @overload
    def explain(  # of an array: one or a list, which its shape decides and its type does not tell
        self, image: Array, target: Targets = None, *,
        method: str = DEFAULT, region: Region | None = None, score: str = "logit",
        progress: Progress | None = None, batch_size: int | None = None, **options: Any,
    ) -> Any: ...  # fmt: skip

    def explain(
        self, image: Any, target: Any = None, *,
        method: str = DEFAULT, region: Region | None = None, score: str = "logit",
        progress: Progress | None = None, batch_size: int | None = None, **options: Any,
    ) -> Any:  # fmt: skip
        """Explain one image, each of a list (the answer is a list) or each that an iterator gives (an iterator).

        An image is a path, the bytes of a file, a PIL image, pixels (H, W, 3) or (H, W) of type uint8, or floats
        (channels, H, W) that are preprocessed already; an array (B, channels, H, W) of those counts as a list. Any
        object with `__array__` is an array. An iterator is drawn from as its explanations are asked for, `batch_size`
        images at a time, and nothing is held of those that are done. Without `batch_size` images of a list or iterator
        run one by one, those of a preprocessed array by eights. An image that cannot be explained raises InputError;
        `pipeline.batch.run_jobs` is the loop that goes on.

        `target` is one for all images or one for each. One image with a list of targets is explained for each of them;
        they share its forward pass where the model allows it. `progress(n)` is called after each batch of n extra
        passes, by methods that ask the model again.
        """
        question = Question(choose_method(method, **options), score, region)
        images = sort_out(image, self.architecture.input_dims)

        def answers(some: Sequence[tuple[Prepared, int | None]]) -> list[Explanation]:
            return self.answer([each for each, _ in some], [index for _, index in some], question, progress)

        count, several = images.count, is_several(target)
        classes = map(self._class, target) if several else repeat(self._class(target))
        if count is None:
            return self._over(images, classes, answers, batch_size)
        wanted = list(classes if several else islice(classes, count))
        if count == 1 and wanted:
            found = self.answer([self.prepare(next(images.each))], wanted, question, progress)
            return found if several or not images.single else found[0]
        if len(wanted) != count:
            raise InputError(f"{len(wanted)} targets for {count} images; give one for all or one for each")
        return list(self._over(images, iter(wanted), answers, batch_size))

    def explain_likeliest(
        self, image: ImageLike | Array, count: int = RANKED, *,
        method: str = DEFAULT, region: Region | None = None, score: str = "logit",
        progress: Progress | None = None, **options: Any,
    ) -> list[Explanation]:  # fmt: skip
        """Explain one image for each of its likeliest classes, at most five; in a segmentation those that are there."""
        question = Question(choose_method(method, **options), score, region)
        images = sort_out(image, self.architecture.input_dims)
        if images.count != 1:
            raise InputError(f"the likeliest classes are explained of one image, and 1 to {RANKED} of them")
        return self.answer_likeliest(self.prepare(next(images.each)), count, question, progress)

    @overload
    def classify(self, image: ImageLike, *, batch_size: int | None = None) -> tuple[Candidate, ...]: ...

    @overload
    def classify(
        self, image: list[Any] | tuple[Any, ...], *, batch_size: int | None = None
    ) -> list[tuple[Candidate, ...]]: ...

    @overload
    def classify(self, image: Iterator[Any], *, batch_size: int | None = None) -> Iterator[tuple[Candidate, ...]]: ...

    @overload
    def classify(self, image: Array, *, batch_size: int | None = None) -> Any: ...

    def classify(self, image: Any, *, batch_size: int | None = None) -> Any:
        """The classes the model leans to most, strongest first: a tuple for one image, a list or iterator of tuples.

        Images are given as to `explain`.
        """
        images, task = sort_out(image, self.architecture.input_dims), task_of(self.architecture)

        def ranked(some: Sequence[tuple[Prepared, int | None]]) -> list[tuple[Candidate, ...]]:
            values = np.stack([each.values for each, _ in some])
            traces, _, _ = self._run(values, [None] * len(values), None, PassRequest(Needs()))
            return [rank(task, trace.logits, self.labels)[:TOP] for trace in traces]

        if images.single:
            return ranked([(self.prepare(next(images.each)), None)])[0]
        found = self._over(images, repeat(None), ranked, batch_size)
        return found if images.count is None else list(found)

    def prepare(self, image: ImageLike | Array, name: str = "image") -> Prepared:
        """One image as the model takes it; `name` stands for it in errors if it has none of its own."""
        return prepare_image(image, self.preprocess, self.architecture.input_dims, name)

    def answer(
        self, images: Sequence[Prepared], classes: Sequence[int | None], question: Question,
        progress: Progress | None = None,
    ) -> list[Explanation]:  # fmt: skip
        """Each image for its class, all in one run; or one image for each of several classes, some at a time."""
        if len(images) == len(classes):
            return self._explain(images, classes, question, progress)
        parts = (classes[start : start + MOST_AT_ONCE] for start in range(0, len(classes), MOST_AT_ONCE))
        return [found for part in parts for found in self._explain(images, part, question, progress)]

    def answer_likeliest(
        self, image: Prepared, count: int, question: Question, progress: Progress | None = None
    ) -> list[Explanation]:
        """One image for each of its likeliest classes; in a segmentation those that are there."""
        if not 0 < count <= RANKED:
            raise InputError(f"the likeliest classes are explained of one image, and 1 to {RANKED} of them")
        places = [-1 - place for place in range(min(count, self.architecture.classes))]  # as the seeds have it
        return [each for each in self.answer([image], places, question, progress) if each.target.probability > 0]

    def _over(
        self, images: Images, classes: Iterator[int | None],
        work: Callable[[Sequence[tuple[Prepared, int | None]]], Sequence[R]], batch_size: int | None,
    ) -> Iterator[R]:  # fmt: skip
        """What `work` makes of each image with its class, a batch at a time; the first that fails raises."""

        def prepared(job: tuple[str, Any, int | None]) -> tuple[Prepared, int | None]:
            name, image, index = job
            return self.prepare(image, name), index

        size = images.at_once if batch_size is None else batch_size
        outcomes = run_jobs(paired(images.each, classes), prepared, work, batch_size=size)
        return (outcome.result() for outcome in outcomes)

    def _class(self, target: Target) -> int | None:
        return find_class(target, self.labels, self.architecture.classes)

    def _explain(
        self, images: Sequence[Prepared], targets: Sequence[int | None], question: Question, progress: Progress | None
    ) -> list[Explanation]:
        """Plan, run, propagate, upsample: each image for its target, or one image for each of several."""
        method = question.method
        method.check(self.architecture)
        named_seed(question.score)  # an unknown name is refused even where the method has its own
        geometries = [image.geometry for image in images] * (len(targets) // len(images))
        regions = self._regions(question.region, geometries)
        request = method.request(self.architecture, question.score)
        values = np.stack([image.values for image in images])
        traces, session, timings = self._run(values, targets, regions, request)
        task, found = task_of(self.architecture), []
        for at, (trace, geometry) in enumerate(zip(traces, geometries, strict=True)):
            began = time.perf_counter()
            pixels = None if regions is None else regions[at]
            asked = ExtraPasses(task, self._again, trace, pixels, request, self.model.shorten, progress)
            relevance = method.run(trace, self.architecture, asked)
            placed = geometry.place(interpolate.resize(relevance.scores, self.architecture.input_dims.size))
            ranked = rank(task, trace.logits, self.labels, TOP, trace.target)
            target = next(candidate for candidate in ranked if candidate.index == trace.target)
            found.append(
                Explanation(
                    map=placed,
                    target=target,
                    top=ranked[:TOP],
                    relevance=relevance,
                    preprocess=self.preprocess,
                    geometry=geometry,
                    provider=session.provider,
                    model_sha256=self.sha256,
                    timings={**timings, "propagate": time.perf_counter() - began},
                    warnings=self.warnings + session.warnings,
                )
            )
        return found

    def _run(
        self, images: Array, targets: Sequence[int | None], regions: Sequence[Array] | None, request: PassRequest
    ) -> tuple[list[Trace], Session, dict[str, float]]:
        began = time.perf_counter()
        _, session = self.model.open(request)
        opened = time.perf_counter()
        traces = self.model.run(images, targets, regions, request)
        return traces, session, {"open": opened - began, "run": (time.perf_counter() - opened) / len(traces)}

    def _again(
        self, images: Array, targets: Sequence[int | None], regions: Sequence[Array] | None, request: PassRequest
    ) -> list[Trace]:
        return self._run(images, targets, regions, request)[0]

    def _regions(self, region: Region | None, geometries: Sequence[Geometry]) -> list[Array] | None:
        if region is None:
            return None
        if not task_of(self.architecture).takes_region:
            raise InputError("a region can be explained for segmentation only; this model classifies the whole image")
        rows, columns = (int(size or 0) for size in self.model.facts.scores.dims[2:])
        return [weigh(region, geometry, (rows, columns)) for geometry in geometries]
