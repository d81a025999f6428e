"""A model that explains images: the pipeline reads top to bottom in `_explain`."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from gradskip_onnx.methods import DEFAULT, METHODS, Method
from gradskip_onnx.passes.extra_passes import ExtraPasses, Progress
from gradskip_onnx.passes.opened_model import OpenedModel
from gradskip_onnx.runtime.session import Session
from gradskip_onnx.tasks import task_of
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
        row = _method(method)
        settings = _settings(row, options)
        images, geometries = self._given(image)
        several = isinstance(target, list | tuple | np.ndarray)
        targets = list(target) if several else [target] * len(images)
        if not targets or (len(targets) != len(images) and len(images) > 1):
            raise InputError(f"{len(targets)} targets for {len(images)} images; give one for all or one for each")
        classes = [find_class(entry, self.labels, self.architecture.classes) for entry in targets]
        found = self._in_parts(images, classes, geometries, row, settings, region, score, progress)
        return found if several or isinstance(image, np.ndarray) else found[0]

    def explain_likeliest(
        self, image: ImageLike | Array, count: int = RANKED, *,
        method: str = DEFAULT, region: Region | None = None, score: str = "logit",
        progress: Progress | None = None, **options: Any,
    ) -> list[Explanation]:  # fmt: skip
        """Explain one image for each of its likeliest classes, at most five; in a segmentation those that are there."""
        row = _method(method)
        settings = _settings(row, options)
        images, geometries = self._given(image)
        if len(images) > 1 or not 0 < count <= RANKED:
            raise InputError(f"the likeliest classes are explained of one image, and 1 to {RANKED} of them")
        places = [-1 - place for place in range(min(count, self.architecture.classes))]  # as the seeds have it
        found = self._in_parts(images, places, geometries, row, settings, region, score, progress)
        return [each for each in found if each.target.probability > 0]

    def _given(self, image: Any) -> tuple[Array, list[Geometry]]:
        """What was given as a batch of arrays, and where each lies in its picture."""
        if not isinstance(image, np.ndarray):
            values, geometry = self._prepare(image)
            return values[None], [geometry]
        images = self._checked(image)
        return images, [Geometry(images.shape[2:], (0.0, 0.0, *images.shape[:1:-1]))] * len(images)

    def _in_parts(
        self, images: Array, classes: Sequence[int | None], geometries: Sequence[Geometry], row: Method,
        settings: Any, region: Region | None, score: str, progress: Progress | None,
    ) -> list[Explanation]:  # fmt: skip
        """So many at once that memory stays flat: images, or classes of one image."""
        found: list[Explanation] = []
        for start in range(0, len(classes), MOST_AT_ONCE):
            part = slice(start, start + MOST_AT_ONCE)
            wanted = classes[part]
            some = images[part] if len(images) > 1 else images
            places = geometries[part] if len(images) > 1 else [*geometries] * len(wanted)
            found += self._explain(some, wanted, places, row, settings, region, score, progress)
        return found

    def classify(self, image: ImageLike) -> tuple[Candidate, ...]:
        """The classes the model leans to most, strongest first."""
        values, _ = self._prepare(image)
        traces, _, _ = self._run(values[None], [None], None, PassRequest(Needs()))
        return rank(task_of(self.architecture), traces[0].logits, self.labels)[:TOP]

    def _prepare(self, image: Any) -> tuple[Array, Geometry]:
        if self.architecture.input_dims.channels != 3:
            raise InputError(
                f"the model takes {self.architecture.input_dims.channels} channels, an image has 3; "
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
        self, images: Array, targets: Sequence[int | None], geometries: Sequence[Geometry], row: Method,
        settings: Any, region: Region | None, score: str, progress: Progress | None = None,
    ) -> list[Explanation]:  # fmt: skip
        """Plan, run, propagate, upsample: each image for its target, or one image for each of several."""
        if reason := row.refuses(self.architecture):
            raise UnsupportedModelError("not-for-method", f"method {row.name} cannot explain this model: {reason}")
        named_seed(score)  # a name that is unknown is refused even where the method has its own
        regions = self._regions(region, geometries)
        request = row.request(settings, self.architecture, score)
        traces, session, timings = self._run(images, targets, regions, request)
        task, found = task_of(self.architecture), []
        for at, (trace, geometry) in enumerate(zip(traces, geometries, strict=True)):
            began = time.perf_counter()
            pixels = None if regions is None else regions[at]
            asked = ExtraPasses(task, self._again, trace, pixels, request, self.model.shorten, progress)
            relevance = row.run(trace, self.architecture, settings, asked)
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


def _method(name: str) -> Method:
    if name not in METHODS:
        raise InputError(f"unknown method {name!r}; known: {', '.join(sorted(METHODS))}")
    return METHODS[name]


def _settings(row: Method, options: Mapping[str, Any]) -> Any:
    known = row.options.__dataclass_fields__
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise InputError(f"method {row.name} has no option {unknown[0]!r}; known: {', '.join(known)}")
    return row.options(**options)
