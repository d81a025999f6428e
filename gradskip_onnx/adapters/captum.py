"""For Captum: an attribution with its call convention, `attribute(inputs, target=...)`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradskip_onnx.api import Explainer
from gradskip_onnx.methods import DEFAULT
from gradskip_onnx.types import EMPTY, Array

from .torch_module import as_array, like, torch_module


@dataclass(frozen=True, slots=True, eq=False)
class GradskipAttribution:
    """A method on a model, called as Captum's own attributions are."""

    explainer: Explainer
    method: str = DEFAULT
    options: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    @property
    def forward_func(self) -> Any:
        """The model as a torch module, for Captum's metrics and its methods that need no gradient."""
        return torch_module(self.explainer)

    def has_convergence_delta(self) -> bool:
        """Maps are not sums up to a difference of scores, so there is no delta to return."""
        return False

    def attribute(self, inputs: Any, target: Any = None) -> Any:
        """Attributions with the shape, type and device of `inputs`, preprocessed images (B, channels, H, W).

        A map has no channels: each channel of a pixel gets the same share, and they add up to the map. `target` is a
        class for all, one for each image (list or tensor), or None for the likeliest. A tuple of one tensor, as some of
        Captum's functions pass, gives a tuple of one.
        """
        if isinstance(inputs, tuple):
            return tuple(self.attribute(each, target) for each in inputs)
        images = as_array(inputs)
        found = self.explainer.explain(images, _classes(target), method=self.method, **self.options)
        maps = np.stack([one.map for one in found])
        return like(inputs, np.repeat(maps[:, None] / images.shape[1], images.shape[1], axis=1))


def for_visualisation(attributions: Any) -> Array:
    """One attribution (channels, H, W) or (1, channels, H, W) as (H, W, channels), for `visualize_image_attr`."""
    values = as_array(attributions)
    return np.moveaxis(values[0] if values.ndim == 4 else values, 0, -1)


def _classes(target: Any) -> Any:
    if target is None or isinstance(target, int | np.integer):
        return target
    values = target.tolist() if hasattr(target, "tolist") else list(target) if isinstance(target, Iterable) else target
    return values if isinstance(values, int) or len(values) > 1 else values[0]
