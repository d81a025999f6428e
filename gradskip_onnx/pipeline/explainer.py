"""A model that explains images: the pipeline reads top to bottom in `_explain`."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, overload

import numpy as np
from PIL import Image

from gradskip_onnx.autodiff.scores.seeds import RANKED, named_seed
from gradskip_onnx.errors import InputError, UnsupportedModelError
from gradskip_onnx.images import interpolate
from gradskip_onnx.images.classes import Candidate, find_class, rank
from gradskip_onnx.images.preprocess import Geometry, Preprocess, prepare
from gradskip_onnx.images.read import Picture, open_picture, upright_rgb
from gradskip_onnx.images.regions import Region, weigh
from gradskip_onnx.instrument.pass_request import PassRequest
from gradskip_onnx.methods import DEFAULT, MethodChoice, choose_method
from gradskip_onnx.passes.class_sharing import Sharing
from gradskip_onnx.passes.extra_passes import ExtraPasses, Progress
from gradskip_onnx.passes.opened_model import OpenedModel
from gradskip_onnx.passes.run_plan import run_plan
from gradskip_onnx.runtime.session import Session
from gradskip_onnx.types import Architecture, Array, Needs, Relevance, Trace

MOST_AT_ONCE = 8  # images in one run: memory stays flat however many are given
TOP = 5
ImageLike = str | os.PathLike[str] | Image.Image | Picture


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """One answer: the map, the class it is for, and the facts an auditor asks about."""

    map: Array  # (H, W) float32 at the size of the image given
    target: Candidate
    top: tuple[Candidate, ...]
    relevance: Relevance
    preprocess: Preprocess
    geometry: Geometry
    provider: str
    model_sha256: str
    timings: Mapping[str, float]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Explainer:
    """A model, and how images become its input."""

    model: OpenedModel
    preprocess: Preprocess
    labels: tuple[str, ...]
    warnings: tuple[str, ...]
    shared: Sharing = field(default_factory=Sharing)

    @property
    def name(self) -> str:
        """Of the file."""
        return self.model.name

    @property
    def sha256(self) -> str:
        """Of the file and of the weight files beside it."""
        return self.model.portrait.sha256

    @property
    def architecture(self) -> Architecture:
        return self.model.architecture

    @property
    def provider(self) -> str:
        """The provider that really runs the model."""
        _, session = next(iter(self.model.opened.values()), None) or self.model.open(PassRequest(Needs()))
        return session.provider

    @overload
    def explain(
        self, image: ImageLike, target: int | str | None = None, *,
        method: str = DEFAULT, region: Region | None = None, score: str = "logit",
        progress: Progress | None = None, **options: Any,
    ) -> Explanation: ...  # fmt: skip

    @overload
    def explain(
        self, image: ImageLike, target: list[Any] | tuple[Any, ...], *,
        method: str = DEFAULT, region: Region | None = None, score: str = "logit",
        progress: Progress | None = None, **options: Any,
    ) -> list[Explanation]: ...  # fmt: skip

    @overload
    def explain(
        self, image: Array, target: int | str | Sequence[int | str | None] | None = None, *,
        method: str = DEFAULT, region: Region | None = None, score: str = "logit",
        progress: Progress | None = None, **options: Any,
    ) -> list[Explanation]: ...  # fmt: skip

    def explain(
        self, image: Any, target: Any = None, *,
        method: str = DEFAULT, region: Region | None = None, score: str = "logit",
        progress: Progress | None = None, **options: Any,
    ) -> Explanation | list[Explanation]:  # fmt: skip
        """Explain one image (path or PIL image), or each of a batch of preprocessed ones (B, channels, H, W).

        One image with a list of targets is explained for each of them; they share its forward pass where the model
        allows it. `progress` is told how many passes were done, each time some were, by methods that ask again.
        """
        choice = choose_method(method, **options)
        images, geometries = self._given(image)
        several = isinstance(target, list | tuple | np.ndarray)
        targets = list(target) if several else [target] * len(images)
        if not targets or (len(targets) != len(images) and len(images) > 1):
            raise InputError(f"{len(targets)} targets for {len(images)} images; give one for all or one for each")
        classes = [find_class(entry, self.labels, self.architecture.classes) for entry in targets]
        found = self._in_parts(images, classes, geometries, choice, region, score, progress)
        return found if several or isinstance(image, np.ndarray) else found[0]

    def explain_likeliest(
        self, image: ImageLike | Array, count: int = RANKED, *,
        method: str = DEFAULT, region: Region | None = None, score: str = "logit",
        progress: Progress | None = None, **options: Any,
    ) -> list[Explanation]:  # fmt: skip
        """Explain one image for each of its likeliest classes, at most five; in a segmentation those that are there."""
        choice = choose_method(method, **options)
        images, geometries = self._given(image)
        if len(images) > 1 or not 0 < count <= RANKED:
            raise InputError(f"the likeliest classes are explained of one image, and 1 to {RANKED} of them")
        places = [-1 - place for place in range(min(count, self.architecture.classes))]  # as the seeds have it
        found = self._in_parts(images, places, geometries, choice, region, score, progress)
        return [each for each in found if each.target.probability > 0]

    def _given(self, image: Any) -> tuple[Array, list[Geometry]]:
        """What was given as a batch of arrays, and where each lies in its picture."""
        if not isinstance(image, np.ndarray):
            values, geometry = self._prepare(image)
            return values[None], [geometry]
        images = self._checked(image)
        return images, [Geometry(images.shape[2:], (0.0, 0.0, *images.shape[:1:-1]))] * len(images)

    def _in_parts(
        self, images: Array, classes: Sequence[int | None], geometries: Sequence[Geometry],
        choice: MethodChoice, region: Region | None, score: str, progress: Progress | None,
    ) -> list[Explanation]:  # fmt: skip
        """So many at once that memory stays flat: images, or classes of one image."""
        found: list[Explanation] = []
        for start in range(0, len(classes), MOST_AT_ONCE):
            part = slice(start, start + MOST_AT_ONCE)
            wanted = classes[part]
            some = images[part] if len(images) > 1 else images
            places = geometries[part] if len(images) > 1 else [*geometries] * len(wanted)
            found += self._explain(some, wanted, places, choice, region, score, progress)
        return found

    def classify(self, image: ImageLike) -> tuple[Candidate, ...]:
        """The classes the model leans to most, strongest first."""
        values, _ = self._prepare(image)
        traces, _, _ = self._run(values[None], [None], None, PassRequest(Needs()))
        return rank(traces[0].logits, self.labels)[:TOP]

    def _prepare(self, image: Any) -> tuple[Array, Geometry]:
        if self.architecture.input_dims[0] != 3:
            raise InputError(
                f"the model takes {self.architecture.input_dims[0]} channels, an image has 3; "
                "give a preprocessed array (B, channels, H, W) instead"
            )
        if isinstance(image, str | os.PathLike):
            image = open_picture(Path(image))
        return prepare(image.image if isinstance(image, Picture) else upright_rgb(image), self.preprocess)

    def _checked(self, images: Array) -> Array:
        expected = self.architecture.input_dims
        if images.ndim != 4 or images.shape[1:] != expected:
            raise InputError(f"an array of shape (B, {', '.join(map(str, expected))}) is expected, got {images.shape}")
        if not len(images):
            raise InputError("the array holds no image")
        if not np.isfinite(images).all():
            raise InputError("the array holds NaN or infinity")
        return images

    def _explain(
        self, images: Array, targets: Sequence[int | None], geometries: Sequence[Geometry],
        choice: MethodChoice, region: Region | None, score: str, progress: Progress | None = None,
    ) -> list[Explanation]:  # fmt: skip
        """Plan, run, propagate, upsample: each image for its target, or one image for each of several."""
        if reason := choice.row.refuses(self.architecture):
            raise UnsupportedModelError(
                "not-for-method", f"method {choice.row.name} cannot explain this model: {reason}"
            )
        named_seed(self.architecture, score)  # a name that is unknown is refused even where the method has its own
        regions = self._regions(region, geometries)
        request = choice.request(score)
        traces, session, timings = self._run(images, targets, regions, request)
        found = []
        for at, (trace, geometry) in enumerate(zip(traces, geometries, strict=True)):
            began = time.perf_counter()
            pixels = None if regions is None else regions[at]
            asked = ExtraPasses(self._again, trace, pixels, request, self.model.shorten, progress)
            relevance = choice.run(trace, self.architecture, asked)
            placed = geometry.place(interpolate.resize(relevance.scores, self.architecture.input_dims[1:]))
            ranked = rank(trace.logits, self.labels, TOP, trace.target)
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
        traces = self._together(images, targets, regions, request) or self._each(images, targets, regions, request)
        return traces, session, {"open": opened - began, "run": (time.perf_counter() - opened) / len(traces)}

    def _together(
        self, images: Array, targets: Sequence[int | None], regions: Sequence[Array] | None, request: PassRequest
    ) -> list[Trace] | None:
        """Several classes of one image from one forward pass, where this model allows it."""
        model = self.model
        if len(targets) == len(images) or model.image.dims[0] is not None:
            return None
        return self.shared.run(
            images.astype(model.image.dtype), targets, regions, request, self.architecture, model.open, model.open_rows
        )

    def _each(
        self, images: Array, targets: Sequence[int | None], regions: Sequence[Array] | None, request: PassRequest
    ) -> list[Trace]:
        """Images in one batch; several classes of one image are several copies of it."""
        plan, session = self.model.open(request)
        images = np.repeat(images, len(targets) // len(images), axis=0)
        fixed, dtype = self.model.image.dims[0], self.model.image.dtype
        traces: list[Trace] = []
        for start in range(0, len(images), fixed or len(images)):
            part = slice(start, start + (fixed or len(images)))
            chunk, wanted = images[part].astype(dtype), list(targets[part])
            short = (fixed or 0) - len(chunk)  # a file with a fixed batch is filled up with copies
            if short > 0:
                chunk, wanted = np.concatenate([chunk, np.repeat(chunk[-1:], short, 0)]), wanted + wanted[-1:] * short
            masks = None if regions is None else [regions[min(start + i, len(regions) - 1)] for i in range(len(chunk))]
            traces += run_plan(session, plan, self.architecture, chunk, wanted, masks)
        return traces[: len(images)]

    def _again(
        self, images: Array, targets: Sequence[int | None], regions: Sequence[Array] | None, request: PassRequest
    ) -> list[Trace]:
        return self._run(images, targets, regions, request)[0]

    def _regions(self, region: Region | None, geometries: Sequence[Geometry]) -> list[Array] | None:
        if region is None:
            return None
        if self.architecture.task != "segmentation":
            raise InputError("a region can be explained for segmentation only; this model classifies the whole image")
        rows, columns = (int(size or 0) for size in self.model.portrait.scores.dims[2:])
        return [weigh(region, geometry, (rows, columns)) for geometry in geometries]
