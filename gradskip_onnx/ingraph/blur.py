"""`drawing.smoothing.smooth` as operators: the blur of pictures, a product with one matrix along each axis."""

from __future__ import annotations

import numpy as np

from gradskip_onnx.autodiff.emit import Emit
from gradskip_onnx.autodiff.sym import Sym

from .grids import grid_of, separable


def smooth(x: Sym, sigma: tuple[float, float]) -> Sym:
    """(B, H, W) blurred by `sigma` pixels along rows and columns; mirrored at the edges, so that the sum is kept."""
    down, across = (_matrix(x.emit, size, width) for size, width in zip(grid_of(x), sigma, strict=True))
    return separable(x, down, across)


def _matrix(emit: Emit, size: int, sigma: float) -> Sym:
    """(size, size): the weight of each old sample and of its mirror image in each new one, k(i - j) + k(i + j + 1).

    The kernel k repeats itself after 2 size. The file holds it alone; the matrix is made of it when a file is loaded.
    """
    gain = np.exp(-2 * (np.pi * sigma * np.fft.rfftfreq(2 * size)) ** 2)  # of a Gaussian, as in drawing.smoothing
    kernel = emit.const(np.fft.irfft(gain, 2 * size), np.float32)
    new, old = (emit.const(np.arange(size).reshape(shape), np.int64) for shape in ((size, 1), (1, size)))
    return _at(kernel, (new - old).apply("Abs"), size) + _at(kernel, new + old + 1, size)


def _at(kernel: Sym, places: Sym, size: int) -> Sym:
    return kernel.emit.op("Gather", kernel, places, dims=(size, size), axis=0)
