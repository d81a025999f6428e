"""Optional packages, imported on use; a missing one raises an error that says what to install."""

from __future__ import annotations

import importlib
from typing import Any

from gradskip_onnx.errors import GradskipError


def import_optional(module: str, extra: str = "evaluate") -> Any:
    """Import a module of an optional package; one that is missing raises GradskipError, which names the extra."""
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        package, lacking = (name.split(".")[0] for name in (module, missing.name or module))
        why = "is not installed" if lacking == package else f"needs {lacking}, which is not installed"
        raise GradskipError(f"{package} {why}; run: pip install 'gradskip-onnx[{extra}]'") from missing
