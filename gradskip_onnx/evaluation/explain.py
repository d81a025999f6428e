"""Maps of a group of images by one method, in one pass if possible; an image that fails takes no other with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gradskip_onnx.api import Explainer, Explanation
from gradskip_onnx.errors import GradskipError
from gradskip_onnx.methods import Method as MethodRow
from gradskip_onnx.types import Array


class Method(Protocol):
    """A method with its options; see choices.MethodChoice."""

    @property
    def row(self) -> MethodRow: ...
    @property
    def settings(self) -> Mapping[str, Any]: ...


def explain_group(
    explainer: Explainer, method: Method, images: Array, targets: Sequence[int], score: str
) -> list[Explanation | GradskipError]:
    """An explanation or the reason why there is none, for each of (B, C, H, W)."""
    if not len(images):
        return []
    try:
        return list(_run(explainer, method, images, targets, score))
    except GradskipError:
        return [_alone(explainer, method, images[at : at + 1], targets[at], score) for at in range(len(images))]


def _run(explainer: Explainer, method: Method, images: Array, targets: Sequence[int], score: str) -> list[Explanation]:
    return explainer.explain(images, list(targets), method=method.row.name, score=score, **method.settings)


def _alone(explainer: Explainer, method: Method, image: Array, target: int, score: str) -> Explanation | GradskipError:
    try:
        return _run(explainer, method, image, [target], score)[0]
    except GradskipError as error:
        return error
