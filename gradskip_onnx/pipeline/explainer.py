"""The Explainer: an opened model that explains and classifies images. `_explain` is the pipeline, top to bottom."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any, TypeVar, overload

import numpy as np

from gradskip_onnx.autodiff.scores.seeds import RANKED
from gradskip_onnx.errors import InputError
from gradskip_onnx.explanation import Explanation
from gradskip_onnx.images.classes import Candidate, find_class, rank
from gradskip_onnx.images.preprocess import Preprocess
from gradskip_onnx.images.regions import Region
from gradskip_onnx.instrument.pass_request import PassRequest
from gradskip_onnx.methods import DEFAULT, MethodChoice, choose_method
from gradskip_onnx.passes.extra_passes import Progress
from gradskip_onnx.passes.opened_model import OpenedModel
from gradskip_onnx.runtime.session import Session
from gradskip_onnx.tasks import task_of
from gradskip_onnx.types import Architecture, Array, Needs, Trace

from .assemble import TOP, assemble
from .batch import run_jobs
from .built_in import as_built
from .fitted_options import FittedOptions
from .inputs import MOST_AT_ONCE, ImageLike, Images, Prepared, as_images, is_several, prepare_image, with_classes
from .question import Question, Target
from .relevances import relevances

R = TypeVar("R")
Targets = Target | Iterable[Target]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Explainer:
    """An opened model, the preprocessing of its images and the names of its classes.

    Several threads may use one at once. It can be pickled, and opens the model file again where it is unpickled.
    """

    model: OpenedModel
    preprocess: Preprocess
    labels: tuple[str, ...]
    warnings: tuple[str, ...]
    fitted: FittedOptions | None = None  # kept beside the model by `study fit`

    @property
    def name(self) -> str:
        """Name of the model file."""
        return self.model.name

    @property
    def sha256(self) -> str:
        """SHA-256 of the model file together with its external weight files."""
        return self.model.facts.sha256

    @property
    def architecture(self) -> Architecture:
        return self.model.architecture

    @property
    def provider(self) -> str:
        """The ONNX Runtime provider of the open session; before the first session, the one that will be requested."""
        return self.model.provider

    def __repr__(self) -> str:
        found = self.architecture
        rows, columns = found.input_dims.size
        return (
            f"Explainer({self.name}: {found.task}, {len(found.blocks)} blocks, {found.grid} tokens, "
            f"{found.classes} classes, images of {columns}x{rows})"
        )

    def close(self) -> None:
        """Close all sessions; the next call opens the ones it needs again."""
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
    def explain(  # an array is one image or a batch: its shape decides, which its type does not show
        self, image: Array, target: Targets = None, *,
        method: str = DEFAULT, region: Region | None = None, score: str = "logit",
        progress: Progress | None = None, batch_size: int | None = None, **options: Any,
    ) -> Any: ...  # fmt: skip

    def explain(
        self, image: Any, target: Any = None, *,
        method: str = DEFAULT, region: Region | None = None, score: str = "logit",
        progress: Progress | None = None, batch_size: int | None = None, **options: Any,
    ) -> Any:  # fmt: skip
        """Explain one image, a list of images (returns a list) or an iterator of images (returns an iterator).

        An image is a path, an open binary file, the bytes of one, a PIL image, or an array: uint8 are pixels 0 to 255,
        (H, W, 3), (H, W, 4), (3, H, W) or grey (H, W), and are preprocessed; floats (channels, H, W) are the model's
        input, preprocessed already. An array with a batch axis before these counts as a list. Tensors of other
        libraries count as arrays (`__array__`, `__dlpack__`). What may mean two things is refused.

        An iterator is consumed lazily, `batch_size` images at a time, and finished images are not kept. The default
        batch size is 8 for a preprocessed array and 1 for a list or iterator. An image that cannot be explained raises
        InputError; `pipeline.batch.run_jobs` is a loop that continues with the next image instead.

        `target` is one class for all images, or one class per image. One image with several targets is explained for
        each of them, in a shared forward pass where the model allows it. Methods that run the model more than once call
        `progress(n)` after each batch of n extra passes.
        """
        question = Question(choose_method(method, **options), score, region)
        images = as_images(image, self.architecture.input_dims)

        def answer(batch: Sequence[tuple[Prepared, int | None]]) -> list[Explanation]:
            return self.answer([item for item, _ in batch], [index for _, index in batch], question, progress)

        count, several = images.count, is_several(target)
        classes = map(self._class, target) if several else repeat(self._class(target))
        if count is None:
            return self._run_batches(images, classes, answer, batch_size)
        indices = list(classes if several else islice(classes, count))
        if count == 1 and indices:
            found = self.answer([self.prepare(next(images.items))], indices, question, progress)
            return found if several or not images.single else found[0]
        if len(indices) != count:
            raise InputError(f"{len(indices)} targets for {count} images; give one for all or one for each")
        return list(self._run_batches(images, iter(indices), answer, batch_size))

    def explain_likeliest(
        self, image: ImageLike | Array, count: int = RANKED, *,
        method: str = DEFAULT, region: Region | None = None, score: str = "logit",
        progress: Progress | None = None, **options: Any,
    ) -> list[Explanation]:  # fmt: skip
        """Explain one image for each of its `count` (1 to 5) likeliest classes; a segmentation skips absent classes."""
        question = Question(choose_method(method, **options), score, region)
        images = as_images(image, self.architecture.input_dims)
        if images.count != 1:
            raise InputError(f"the likeliest classes are explained of one image, and 1 to {RANKED} of them")
        return self.answer_likeliest(self.prepare(next(images.items)), count, question, progress)

    def predict(self, image: Any, *, batch_size: int | None = None) -> Array:
        """The logits of images: (n, classes); of a segmentation (n, classes, h, w), with h and w those of its scores.

        `image` and `batch_size` are those of `explain`; one image is a batch of one. The values are those of the model
        file itself; of a quantised one they differ by rounding, as ONNX Runtime's levels of optimisation do.
        """
        images = as_images(image, self.architecture.input_dims)
        rows = list(self._scores(images, batch_size))
        if rows:
            return np.stack(rows)
        return np.zeros((0, *(int(size or 0) for size in self.model.facts.scores.dims[1:])), np.float32)

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
        """The five likeliest classes, strongest first: a tuple for one image, a list or an iterator of tuples for many.

        Ranks what `predict` gives. `image` and `batch_size` are those of `explain`.
        """
        images, task = as_images(image, self.architecture.input_dims), task_of(self.architecture)
        found = (rank(task, scores, self.labels)[:TOP] for scores in self._scores(images, batch_size))
        if images.single:
            return next(found)
        return found if images.count is None else list(found)

    def settled(self, method: MethodChoice) -> MethodChoice:
        """The method as it runs: what the user left open comes from a built file, or from the file beside the model."""
        method = as_built(method, self.model.facts.metadata.built)
        return method if self.fitted is None or method.source else self.fitted.fill(method)

    def prepare(self, image: ImageLike | Array, name: str = "image") -> Prepared:
        """Preprocess one image; error messages call it `name` unless it has a path."""
        return prepare_image(image, self.preprocess, self.architecture.input_dims, name)

    def answer(
        self, images: Sequence[Prepared], classes: Sequence[int | None], question: Question,
        progress: Progress | None = None,
    ) -> list[Explanation]:  # fmt: skip
        """Explain each image for its own class in one run, or one image for several classes, at most 8 in a run."""
        if len(images) == len(classes):
            return self._explain(images, classes, question, progress)
        parts = (classes[start : start + MOST_AT_ONCE] for start in range(0, len(classes), MOST_AT_ONCE))
        return [explanation for part in parts for explanation in self._explain(images, part, question, progress)]

    def answer_likeliest(
        self, image: Prepared, count: int, question: Question, progress: Progress | None = None
    ) -> list[Explanation]:
        """Explain one image for each of its `count` likeliest classes; a segmentation skips absent classes."""
        if not 0 < count <= RANKED:
            raise InputError(f"the likeliest classes are explained of one image, and 1 to {RANKED} of them")
        ranks = [-1 - place for place in range(min(count, self.architecture.classes))]  # -1 is the likeliest class
        explanations = self.answer([image], ranks, question, progress)
        return [explanation for explanation in explanations if explanation.target.probability > 0]

    def _scores(self, images: Images, batch_size: int | None) -> Iterator[Array]:
        """Yield the scores of each image."""

        def scores(batch: Sequence[tuple[Prepared, int | None]]) -> list[Array]:
            values = np.stack([item.values for item, _ in batch])
            traces, _, _ = self._run(values, [None] * len(values), None, PassRequest(Needs()))
            return [trace.logits for trace in traces]

        if images.single:
            return iter(scores([(self.prepare(next(images.items)), None)]))
        return self._run_batches(images, repeat(None), scores, batch_size)

    def _run_batches(
        self, images: Images, classes: Iterator[int | None],
        work: Callable[[Sequence[tuple[Prepared, int | None]]], Sequence[R]], batch_size: int | None,
    ) -> Iterator[R]:  # fmt: skip
        """Yield the results of `work` on batches of (image, class); the first image that fails raises its error."""

        def prepare(job: tuple[str, Any, int | None]) -> tuple[Prepared, int | None]:
            name, image, index = job
            return self.prepare(image, name), index

        size = images.batch_size if batch_size is None else batch_size
        outcomes = run_jobs(with_classes(images.items, classes), prepare, work, batch_size=size)
        return (outcome.result() for outcome in outcomes)

    def _class(self, target: Target) -> int | None:
        return find_class(target, self.labels, self.architecture.classes)

    def _explain(
        self, images: Sequence[Prepared], targets: Sequence[int | None], question: Question, progress: Progress | None
    ) -> list[Explanation]:
        """Plan, run, propagate, upsample: each image for its own target, or one image for each of several targets."""
        done = relevances(self, images, targets, question, progress)
        return [assemble(self, one, question) for one in done]

    def _run(
        self, images: Array, targets: Sequence[int | None], regions: Sequence[Array] | None, request: PassRequest
    ) -> tuple[list[Trace], Session, dict[str, float]]:
        began = time.perf_counter()
        _, session = self.model.open(request)
        opened = time.perf_counter()
        traces = self.model.run(images, targets, regions, request)
        return traces, session, {"open": opened - began, "run": (time.perf_counter() - opened) / len(traces)}

    def _rerun(
        self, images: Array, targets: Sequence[int | None], regions: Sequence[Array] | None, request: PassRequest
    ) -> list[Trace]:
        return self._run(images, targets, regions, request)[0]
