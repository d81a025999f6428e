"""Explain a vision transformer from its ONNX file alone."""

from typing import TYPE_CHECKING

from .lazy import looked_up
from .version import __version__

if TYPE_CHECKING:
    from .api import Explainer, Explanation, explain, inspect, load
    from .classes import Candidate
    from .errors import GradskipError
    from .preprocess import Preprocess

__all__ = [
    "Candidate",
    "Explainer",
    "Explanation",
    "GradskipError",
    "Preprocess",
    "__version__",
    "explain",
    "inspect",
    "load",
]

# Looked up when first used, so that `gradskip-onnx --help` need not import a graph library.
_HOMES = {
    "Candidate": "classes",
    "Explainer": "api",
    "Explanation": "api",
    "GradskipError": "errors",
    "Preprocess": "preprocess",
    "explain": "api",
    "inspect": "api",
    "load": "api",
}


__getattr__ = looked_up(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
