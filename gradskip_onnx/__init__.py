"""Explain a vision transformer from its ONNX file alone."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
