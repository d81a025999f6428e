"""Packages that only evaluations and some methods need: imported when used, named with what to install if missing."""

from __future__ import annotations

import importlib
from typing import Any

from gradskip_onnx.errors import GradskipError


def needed(module: str) -> Any:
    """The module, or one line that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        package = module.split(".")[0]
        raise GradskipError(f"{package} is not installed; run: pip install 'gradskip-onnx[evaluate]'") from missing
