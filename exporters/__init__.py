"""Exports torch models to ONNX files with a gradient graph; torch is imported when a model is loaded."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from gradskip_onnx.errors import InputError
from gradskip_onnx.untrusted_files import shortened

if TYPE_CHECKING:
    from .request import Exportable, ExportRequest

EXTRA = "pip install 'gradskip-onnx[export]'"


@dataclass(frozen=True, slots=True)
class Exporter:
    """A row: the model names it accepts, and the module that loads them."""

    takes: Callable[[str], bool]
    module: str
    example: str  # names, for messages


def _named(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda name: compiled.fullmatch(name) is not None


def _is_folder(name: str) -> bool:
    return bool(name) and os.path.isdir(name)  # unlike Path.is_dir, it takes names that no file can have


# The first row that takes the name wins; folders come first, because a folder may be named like a model.
EXPORTERS: tuple[Exporter, ...] = (
    Exporter(_is_folder, ".hf", "path/to/folder (config.json and weights as transformers saves them)"),
    Exporter(_named(r"(timm/)?(vit|deit3?)_\w+(\.\w+)?"), ".timm", "vit_base_patch16_224, deit_tiny_patch16_224"),
    Exporter(_named(r"(segformer|mit)[_-]b[0-5]"), ".hf", "segformer_b0 .. segformer_b5, mit_b0 .. mit_b5"),
    Exporter(_named(r"nvidia/(segformer|mit)-b[0-5][\w-]*"), ".hf", "nvidia/segformer-b0-finetuned-ade-512-512"),
)


def find(name: str) -> Exporter:
    """The row that takes `name`."""
    for row in EXPORTERS:
        if row.takes(name):
            return row
    examples = "; ".join(row.example for row in EXPORTERS)
    raise InputError(f"no exporter takes {shortened(name)!r}; names look like: {examples}")


def load(request: ExportRequest) -> Exportable:
    """The torch model that `request` names, with weights, ready to trace."""
    module = import_module(find(request.name).module, __name__)
    try:
        exportable: Exportable = module.load(request)
    except ModuleNotFoundError as missing:
        raise InputError(f"export needs {missing.name}, which is not installed; run: {EXTRA}") from missing
    return exportable
