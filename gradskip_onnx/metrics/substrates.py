"""The table of substrates, which replace removed pixels; each is a function of the sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from gradskip_onnx.types import Array

from .sample import Sample

NOISE, TIES = 1, 2  # random streams of the sample's seed, so that noise and the order of ties are independent


@dataclass(frozen=True, slots=True)
class Blur:
    """A Gaussian blur with a kernel of `size` weights along each axis.

    `folded` is the kernel of RISE: a Gaussian-filtered delta of `size` entries, whose tails are mirrored back into the
    kernel, on an image padded with zeros. Not scipy.ndimage: it has no such kernel, and SciPy is optional.
    """

    size: int = 11  # odd
    sigma: float = 5.0  # pixels
    folded: bool = False

    def kernel(self) -> Array:
        """The weights along one axis; they sum to 1."""
        if not self.folded:
            return _gaussian(self.size // 2, self.sigma)
        reach = int(4 * self.sigma + 0.5)
        place = np.arange(-reach, reach + 1) + self.size // 2
        mirrored = place % (2 * self.size)  # d c b a | a b c d | d c b a
        inside = np.minimum(mirrored, 2 * self.size - 1 - mirrored)
        return np.bincount(inside, _gaussian(reach, self.sigma), self.size)

    def __call__(self, image: Array) -> Array:
        """Blur (C, H, W) along both axes."""
        weights, values = self.kernel(), image.astype(np.float64)
        for axis in (1, 2):
            margin = [(0, 0)] * 3
            margin[axis] = (self.size // 2, self.size // 2)
            padded = np.pad(values, margin) if self.folded else np.pad(values, margin, mode="reflect")
            length = values.shape[axis]
            values = sum(
                (w * padded.take(range(i, i + length), axis) for i, w in enumerate(weights)), np.zeros_like(values)
            )
        return values.astype(image.dtype)


@dataclass(frozen=True, slots=True)
class Blurred:
    """The image, blurred; two objects with equal settings are equal, so their probabilities are cached once."""

    blur: Blur = field(default_factory=Blur)

    def __call__(self, sample: Sample) -> Array:
        return self.blur(sample.image)


def _gaussian(reach: int, sigma: float) -> Array:
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    return np.asarray(weights / weights.sum())


def whole(sample: Sample) -> Array:
    """The image itself: nothing is removed."""
    return sample.image


def mean(sample: Sample) -> Array:
    """The mean over all channels and pixels of the normalised image."""
    return np.full_like(sample.image, sample.image.mean(dtype=np.float64))


def black(sample: Sample) -> Array:
    """A black image after normalisation: (0 - mean) / std."""
    level = -np.asarray(sample.mean) / np.asarray(sample.std)
    return np.broadcast_to(level.reshape(-1, 1, 1), sample.image.shape).astype(sample.image.dtype)


def zero(sample: Sample) -> Array:
    """Zeros after normalisation, a grey; papers that say black often mean this."""
    return np.zeros_like(sample.image)


def normal(sample: Sample) -> Array:
    """Standard normal noise per pixel and channel after normalisation, the same for every method."""
    rng = np.random.default_rng((sample.seed, NOISE))
    return np.asarray(rng.standard_normal(sample.image.shape), sample.image.dtype)


def uniform(sample: Sample) -> Array:
    """Uniform noise in [0, 1) after normalisation, the same for every method."""
    rng = np.random.default_rng((sample.seed, NOISE))
    return np.asarray(rng.random(sample.image.shape), sample.image.dtype)


Substrate = Callable[[Sample], Array]
SUBSTRATES: dict[str, Substrate] = {"mean": mean, "black": black, "zero": zero, "random": normal}
