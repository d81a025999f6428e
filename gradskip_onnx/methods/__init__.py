"""Methods of explanation; importing this package imports every module below it, which fills the table of methods."""

from __future__ import annotations

from gradskip_onnx.imports.discovery import import_modules

from .choice import MethodChoice, choose_method, every_method, find_method
from .table import DEFAULT, METHODS, Cost, Method, method

__all__ = [
    "DEFAULT", "METHODS", "Cost", "Method", "MethodChoice", "choose_method", "every_method", "find_method", "method",
]  # fmt: skip

import_modules(__path__, __name__)
