"""For scikit-learn: a transformer from images to their maps, for pipelines over the files of a folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from PIL import Image
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin

from gradskip_onnx.api import Explainer, load
from gradskip_onnx.evaluation.forward import Forward
from gradskip_onnx.methods import DEFAULT
from gradskip_onnx.pipeline.batch import in_batches
from gradskip_onnx.types import Array

Size = tuple[int, int]


class RelevanceMaps(ClassifierMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Images, as paths or anything else `Explainer.explain` takes, to one row of relevance each.

    `model` is a path or an Explainer. A row holds the map of the model's input, averaged over the cells of `grid`
    (rows, columns), so that images of all sizes have rows of one length; `grid` None is the grid of the model's tokens.
    `target` None explains the likeliest class of each image. `predict` and `predict_proba` are those of the model;
    there is nothing to learn, and `fit` only opens it.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | Explainer,
        method: str = DEFAULT,
        *,
        target: int | str | None = None,
        grid: Size | None = None,
        batch_size: int = 8,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.method = method
        self.target = target
        self.grid = grid
        self.batch_size = batch_size
        self.options = options

    def fit(self, X: Iterable[Any] | None = None, y: Any = None) -> RelevanceMaps:  # noqa: ARG002 (their signature)
        """Open the model."""
        self.explainer_ = self.model if isinstance(self.model, Explainer) else load(self.model)
        self.classes_ = np.arange(self.explainer_.architecture.classes)
        return self

    def transform(self, X: Iterable[Any]) -> Array:
        """(images, rows · columns) relevance."""
        return np.stack(list(self.iterate(X)))

    def iterate(self, X: Iterable[Any]) -> Iterator[Array]:
        """Yield the row of one image after the other; no more than a batch of images is in memory."""
        explainer = self._opened()
        rows, columns = self.grid or explainer.architecture.grid
        for batch in in_batches(X, self.batch_size):
            values = np.stack([explainer.prepare(image).values for image in batch])
            for found in explainer.explain(values, self.target, method=self.method, **(self.options or {})):
                picture = Image.fromarray(found.map.astype(np.float32))
                yield np.asarray(picture.resize((columns, rows), Image.Resampling.BOX)).reshape(-1)

    def predict_proba(self, X: Iterable[Any]) -> Array:
        """(images, classes) probabilities of a classifier."""
        explainer, found = self._opened(), []
        for batch in in_batches(X, self.batch_size):
            logits = Forward(explainer).logits(np.stack([explainer.prepare(image).values for image in batch]))
            powers = np.exp(logits - logits.max(axis=1, keepdims=True))
            found.append(powers / powers.sum(axis=1, keepdims=True))
        return np.concatenate(found)

    def predict(self, X: Iterable[Any]) -> Array:
        """(images,) the likeliest classes."""
        return np.asarray(self.predict_proba(X).argmax(axis=1))

    def _opened(self) -> Explainer:
        if not hasattr(self, "explainer_"):
            self.fit()
        return self.explainer_
