"""Tiny models as files and as twins, and what it means that two lists of maps are the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

import gradskip_onnx
from gradskip_onnx.types import Array

from .lrp_rules import Recipe
from .lrp_twin import Found, Twin
from .tiny_vit import PATCH, SIZE, TinyVit, exported

GRID = (SIZE[0] // PATCH, SIZE[1] // PATCH)
TARGETS = (3, 1)
CLOSE = 3e-5  # float32 against float64; the largest seen is 2.6e-5, chefer1 where a sum is nearly 0
IMAGES = np.random.default_rng(5).normal(size=(2, 3, *SIZE)).astype(np.float32)
# How the class is read and how the file is written: norms and GELU as nodes of their own, or in pieces.
FORMS = {
    "class token": (1, 17, False),
    "two heads": (2, 14, False),
    "mean of tokens": (0, 20, False),
    "class token, dynamo": (1, 20, True),
}


@dataclass(frozen=True, eq=False)
class Case:
    """A model as a file, and as torch code for the twins."""

    model: TinyVit
    opset: int
    dynamo: bool

    @cached_property
    def explainer(self) -> Any:
        return load(exported(self.model, self.opset, self.dynamo).SerializeToString())

    def maps(self, method: str, **options: Any) -> list[Array]:
        found = self.explainer.explain(IMAGES, list(TARGETS), method=method, **options)
        return [one.relevance.scores for one in found]

    def twin(self, recipe: Recipe, *, start: str) -> list[Found]:
        """Relevance begins as the logit, or as 1."""
        twin = Twin(self.model, recipe)

        def seed(target: int) -> Callable[[Array], Array]:
            return lambda y: np.asarray((y if start == "logit" else 1) * np.eye(len(y))[target])

        return [twin.relevance(image, seed(target)) for image, target in zip(IMAGES, TARGETS, strict=True)]


def load(file: bytes | str) -> Any:
    return gradskip_onnx.load(file, device="cpu", threads=1)


@cache
def case(form: str) -> Case:
    special, opset, dynamo = FORMS[form]
    return Case(TinyVit(special), opset, dynamo)


def same(got: list[Array], expected: list[Array], close: float = CLOSE) -> None:
    """Relative to the range of the values."""
    for one, other in zip(got, expected, strict=True):
        assert one.shape == other.shape
        assert np.isfinite(one).all()
        assert np.abs(one - other).max() <= close * np.ptp(other)


def patches_of(relevance: Array, special: int) -> Array:
    return np.asarray(relevance[special:].sum(axis=1).reshape(GRID))
