"""Explain a vision transformer from its ONNX file alone."""

from typing import TYPE_CHECKING

from gradskip_onnx.imports.lazy_names import lazy_getattr

from .version import __version__

if TYPE_CHECKING:
    from gradskip_onnx.drawing.style import PictureStyle
    from gradskip_onnx.images.classes import Candidate
    from gradskip_onnx.images.preprocess import Preprocess

    from .api import Explainer, explain, inspect, load
    from .audit.reading import read_audit
    from .errors import GradskipError, PreprocessingWarning
    from .explanation import Explanation
    from .explanation.pictures import side_by_side

__all__ = [
    "Candidate",
    "Explainer",
    "Explanation",
    "GradskipError",
    "PictureStyle",
    "Preprocess",
    "PreprocessingWarning",
    "__version__",
    "explain",
    "inspect",
    "load",
    "read_audit",
    "side_by_side",
]

# Looked up when first used, so that `gradskip-onnx --help` need not import a graph library.
_HOMES = {
    "Candidate": "images.classes",
    "Explainer": "api",
    "Explanation": "explanation",
    "GradskipError": "errors",
    "PictureStyle": "drawing.style",
    "Preprocess": "images.preprocess",
    "PreprocessingWarning": "errors",
    "explain": "api",
    "inspect": "api",
    "load": "api",
    "read_audit": "audit.reading",
    "side_by_side": "explanation.pictures",
}


__getattr__ = lazy_getattr(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
