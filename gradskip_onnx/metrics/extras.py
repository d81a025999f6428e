"""Packages that only an evaluation needs: imported when used, and named with what to install when missing."""

from __future__ import annotations

import importlib
from typing import Any

from ..errors import GradskipError


def needed(module: str) -> Any:
    """The module, or one line that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        package = module.split(".")[0]
        raise GradskipError(f"{package} is not installed; run: pip install 'gradskip-onnx[evaluate]'") from missing
