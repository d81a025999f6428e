"""Input times gradient, integrated gradients and SmoothGrad: methods that read gradients at the pixels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.methods.options import option
from gradskip_onnx.methods.passes import Passes
from gradskip_onnx.methods.table import Cost, Method, method, one_backward, one_pass
from gradskip_onnx.types import Architecture, Array, Needs, Relevance, Trace, read_only

ABSOLUTE_HELP = "take absolute values before the channels are added up"
PIXELS = Needs(input_gradients=True)
AT_ONCE = 8  # altered images held at a time


@dataclass(frozen=True, slots=True)
class InputGradientOptions:
    absolute: bool = option(False, ABSOLUTE_HELP)


@dataclass(frozen=True, slots=True)
class IntegratedOptions:
    steps: int = option(50, "points of the integral", low=1, high=1000)
    absolute: bool = option(False, ABSOLUTE_HELP)


@dataclass(frozen=True, slots=True)
class SmoothOptions:
    samples: int = option(50, "how many noisy images", low=1)
    noise: float = option(0.15, "standard deviation of the noise", low=0.0)
    unit: str = option("range", "unit of the noise: the image's own range, or 1", choices=("range", "one"))
    absolute: bool = option(True, "take the absolute value of each gradient")
    seed: int = option(0, "seed of the noise", low=0)


def input_x_gradient(trace: Trace, architecture: Architecture, options: InputGradientOptions) -> Relevance:
    """sum over the channels of x * dy/dx."""
    product = trace.input.astype(np.float64) * gradient_at_pixels(trace, architecture)
    return _relevance(product, options)


def integrated_gradients(
    trace: Trace, architecture: Architecture, options: IntegratedOptions, passes: Passes
) -> Relevance:
    """sum over the channels of x * (integral over a from 0 to 1 of dy(a x)/dx), by Gauss-Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(options.steps)
    shares = ((1 + nodes) / 2).astype(trace.input.dtype)
    total = np.zeros(trace.input.shape)
    images = (share * trace.input for share in shares)
    for weight, gradient in zip(weights / 2, _gradients(images, architecture, passes), strict=True):
        total += weight * gradient
    return _relevance(trace.input * total, options)


def smoothgrad(trace: Trace, architecture: Architecture, options: SmoothOptions, passes: Passes) -> Relevance:
    """sum over the channels of the mean over the samples of dy/dx at x + noise, or of its absolute value."""
    x = trace.input
    width = options.noise * (float(np.ptp(x)) if options.unit == "range" else 1.0)
    rng = np.random.default_rng(options.seed)
    images = ((x + width * rng.standard_normal(x.shape)).astype(x.dtype) for _ in range(options.samples))
    total = np.zeros(x.shape)
    for gradient in _gradients(images, architecture, passes):
        total += np.abs(gradient) if options.absolute else gradient
    return _relevance(total / options.samples, options)


def _gradients(images: Iterator[Array], architecture: Architecture, passes: Passes) -> Iterator[Array]:
    """Gradients at the pixels of each image (channels, H, W), computed AT_ONCE images at a time."""
    batch: list[Array] = []
    for image in images:
        batch.append(image)
        if len(batch) == AT_ONCE:
            yield from (gradient_at_pixels(trace, architecture) for trace in passes.traces(np.stack(batch), PIXELS))
            batch = []
    if batch:
        yield from (gradient_at_pixels(trace, architecture) for trace in passes.traces(np.stack(batch), PIXELS))


def gradient_at_pixels(trace: Trace, architecture: Architecture) -> Array:
    """The gradient of the score at the image, (channels, H, W) float64; raises if it is not finite."""
    return require_finite(trace.gradients[architecture.input]).astype(np.float64)


def require_finite(gradient: Array) -> Array:
    """The same gradient; raises if it is not finite."""
    if not np.isfinite([gradient.min(), gradient.max()]).all():  # NaN propagates through both
        raise UnsupportedModelError(
            "not-finite", "the gradient at the pixels holds NaN or infinity; use another method"
        )
    return gradient


def _relevance(values: Array, options: Any) -> Relevance:
    """Scores (H, W): values (channels, H, W), or their absolute values, summed over the channels."""
    scores = (np.abs(values) if options.absolute else values).sum(axis=0)
    return Relevance(read_only(scores), checks={"sum": float(scores.sum())})


INPUT_X_GRADIENT = method(
    Method(
        name="input-x-gradient",
        summary="the image times its gradient",
        reference="Shrikumar et al., Not Just a Black Box, 2016",
        options=InputGradientOptions,
        needs=lambda _options, _model: PIXELS,
        run=one_pass(input_x_gradient),
        cost=one_backward,
    )
)

INTEGRATED_GRADIENTS = method(
    Method(
        name="integrated-gradients",
        summary="the image times its gradient, averaged on the way from a blank image",
        reference="Sundararajan, Taly and Yan, Axiomatic Attribution for Deep Networks, ICML 2017",
        options=IntegratedOptions,
        needs=lambda _options, _model: Needs(),
        run=integrated_gradients,
        cost=lambda options: Cost(1 + options.steps, options.steps),
    )
)

SMOOTHGRAD = method(
    Method(
        name="smoothgrad",
        summary="gradient at the pixels, averaged over noisy images",
        reference="Smilkov et al., SmoothGrad: removing noise by adding noise, 2017",
        options=SmoothOptions,
        needs=lambda _options, _model: Needs(),
        run=smoothgrad,
        cost=lambda options: Cost(1 + options.samples, options.samples),
    )
)
