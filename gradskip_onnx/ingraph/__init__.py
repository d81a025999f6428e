"""Methods inside the graph: the arithmetic that turns a trace into a map, as ONNX operators behind a plan."""

from gradskip_onnx.imports.discovery import import_modules

from .table import INGRAPH, Propagation, propagation

__all__ = ["INGRAPH", "Propagation", "propagation"]

import_modules(__path__, __name__)
