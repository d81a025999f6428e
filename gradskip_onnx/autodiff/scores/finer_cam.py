"""The score of Finer-CAM: the logit of a class minus those of the classes nearest to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .seeds import explained, one_hot

if TYPE_CHECKING:
    from gradskip_onnx.autodiff.emit import Emit, Sym


@dataclass(frozen=True, slots=True)
class FinerSeed:
    """F = sum_i w_i (z_c - alpha z_i) over the reference classes i, w = softmax of z over them.

    References are the classes with logits nearest to z_c. z are the logits or, for segmentation, their mean over the
    explained pixels. The weights are differentiated too: dF/dz_c = 1, dF/dz_i = w_i ((z_c - alpha z_i) - F - alpha),
    and 0 for all other classes.
    """

    alpha: float = 1.0
    references: int = 3  # number of reference classes

    def __call__(self, _emit: Emit, logits: Sym, target: Sym, region: Sym | None = None) -> tuple[Sym, Sym]:
        share, chosen = explained(logits, target, region)
        if share is None:
            return self._at(logits, chosen), chosen
        mean = (logits * share).sum([2, 3], keepdims=False)
        return self._at(mean, chosen).unsqueeze(2, 3) * share, chosen

    def _at(self, z: Sym, chosen: Sym) -> Sym:
        """dF/dz, (B, C)."""
        hot = one_hot(chosen, z)
        own = (z * hot).sum([1])
        near = self._references(z, own, hot)
        top = near.where(z, -np.inf)
        w = z.emit.op("Softmax", top, dims=z.dims, axis=1)
        above = own - self.alpha * z
        F = (w * above).sum([1])
        return hot + w * (above - F - self.alpha)

    def _references(self, z: Sym, own: Sym, hot: Sym) -> Sym:
        """Whether each class is a reference, (B, C) booleans; the explained class itself is none."""
        classes = z.dims[1] or 0
        distance = (own - z).apply("Abs") - hot  # below zero for the class itself, so that it comes first
        count = min(self.references + 1, classes)
        dims = (z.dims[0], count)
        _, order = z.emit.ops(
            "TopK", distance, z.emit.ints([count]), dims=[dims, dims], dtypes=[z.dtype, np.int64], axis=1, largest=0
        )
        taken = z.emit.const(np.arange(classes).reshape(1, 1, -1), np.int64).equals(order.unsqueeze(2))
        return taken.cast(np.float32).sum([1], keepdims=False) > hot.cast(np.float32)
