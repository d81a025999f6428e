"""What a package that adds a method, a metric or a layout of data needs, in one place: docs/plugins.md.

Names are looked up when first used, so that a method does not import what only metrics need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradskip_onnx.imports.lazy_names import lazy_getattr

if TYPE_CHECKING:
    from gradskip_onnx.autodiff.rulesets.choice import Rules
    from gradskip_onnx.datasets.entry import Dataset, Entry
    from gradskip_onnx.datasets.files import file_entry, images_under
    from gradskip_onnx.datasets.layout import DatasetRequest, Layout
    from gradskip_onnx.errors import InputError
    from gradskip_onnx.imports.plugins import PluginError, PluginWarning
    from gradskip_onnx.methods.options import option
    from gradskip_onnx.methods.passes import Passes
    from gradskip_onnx.methods.patches import Patches
    from gradskip_onnx.methods.table import Cost, Method, one_backward, one_pass
    from gradskip_onnx.metrics.sample import IGNORED, Saliency, Sample, Score, ask
    from gradskip_onnx.metrics.table import ImageMetric, Measured
    from gradskip_onnx.types import Architecture, Array, Block, Grid, Needs, Relevance, Trace, read_only

_HOMES = {
    "Architecture": "types",
    "Array": "types",
    "Block": "types",
    "Cost": "methods.table",
    "Dataset": "datasets.entry",
    "DatasetRequest": "datasets.layout",
    "Entry": "datasets.entry",
    "Grid": "types",
    "IGNORED": "metrics.sample",
    "ImageMetric": "metrics.table",
    "InputError": "errors",
    "Layout": "datasets.layout",
    "Measured": "metrics.table",
    "Method": "methods.table",
    "Needs": "types",
    "Passes": "methods.passes",
    "Patches": "methods.patches",
    "PluginError": "imports.plugins",
    "PluginWarning": "imports.plugins",
    "Relevance": "types",
    "Rules": "autodiff.rulesets.choice",
    "Saliency": "metrics.sample",
    "Sample": "metrics.sample",
    "Score": "metrics.sample",
    "Trace": "types",
    "ask": "metrics.sample",
    "file_entry": "datasets.files",
    "images_under": "datasets.files",
    "one_backward": "methods.table",
    "one_pass": "methods.table",
    "option": "methods.options",
    "read_only": "types",
}

__all__ = [
    "IGNORED", "Architecture", "Array", "Block", "Cost", "Dataset", "DatasetRequest", "Entry", "Grid", "ImageMetric",
    "InputError", "Layout", "Measured", "Method", "Needs", "Passes", "Patches", "PluginError", "PluginWarning",
    "Relevance", "Rules", "Saliency", "Sample", "Score", "Trace", "ask", "file_entry", "images_under", "one_backward",
    "one_pass", "option", "read_only",
]  # fmt: skip

__getattr__ = lazy_getattr("gradskip_onnx", _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
