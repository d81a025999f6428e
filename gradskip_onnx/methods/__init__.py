"""Methods of explanation. Every module in this folder and below it is read, so that its rows are in the table."""

from __future__ import annotations

from gradskip_onnx.imports.discovery import import_modules

from .table import DEFAULT, METHODS, Cost, Method, method

__all__ = ["DEFAULT", "METHODS", "Cost", "Method", "method"]

import_modules(__path__, __name__)
