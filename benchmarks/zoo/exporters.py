"""The exporters of torch as users call them: nothing is tidied afterwards, the file is what torch wrote."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

if TYPE_CHECKING:
    from torch import Tensor, nn

INPUT, OUTPUT = "pixel_values", "logits"
NEWEST = 25  # of torch 2.15


@dataclass(frozen=True, slots=True)
class Form:
    """How a model is written. `fused`: one attention call in torch; None where the model leaves no choice."""

    exporter: str
    opset: int
    fused: bool | None = False
    free_batch: bool = True
    free_size: bool = False

    @property
    def name(self) -> str:
        words = [f"{self.exporter}{self.opset}", {True: "fused", False: "plain", None: "only"}[self.fused]]
        words += [] if self.free_batch else ["batch1"]
        words += ["anysize"] if self.free_size else []
        return "-".join(words)


@dataclass(frozen=True, slots=True)
class Exporter:
    """One row: the opsets it writes, and the call."""

    opsets: range
    write: Callable[[Any, Any, Form, Path], None]


def _torchscript(module: nn.Module, images: Tensor, form: Form, path: Path) -> None:
    import torch

    axes = {0: "batch"} if form.free_batch else {}
    sides = {2: "height", 3: "width"} if form.free_size else {}
    torch.onnx.export(
        module, (images,), str(path), opset_version=form.opset, input_names=[INPUT], output_names=[OUTPUT],
        dynamic_axes={INPUT: axes | sides, OUTPUT: axes}, dynamo=False,
    )  # fmt: skip


def _dynamo(module: nn.Module, images: Tensor, form: Form, path: Path, optimize: bool = True) -> None:
    import torch

    automatic = torch.export.Dim.AUTO  # sides are multiples of the patch; which, the tracer finds out
    dims: dict[int, Any] = {0: torch.export.Dim("batch")} if form.free_batch else {}
    dims |= {2: automatic, 3: automatic} if form.free_size else {}
    program = torch.onnx.export(
        module, (images,), opset_version=form.opset, input_names=[INPUT], output_names=[OUTPUT],
        dynamic_shapes=(dims,), dynamo=True, optimize=optimize, verbose=False,
    )  # fmt: skip
    if program is None:
        raise RuntimeError("torch returned no program")
    program.save(str(path), external_data=False)


def _raw(module: nn.Module, images: Tensor, form: Form, path: Path) -> None:
    _dynamo(module, images, form, path, optimize=False)


EXPORTERS: dict[str, Exporter] = {
    "ts": Exporter(range(7, 21), _torchscript),
    "dynamo": Exporter(range(18, NEWEST + 1), _dynamo),
    "raw": Exporter(range(18, NEWEST + 1), _raw),  # dynamo with its optimiser off
}


def export(module: nn.Module, size: tuple[int, int], form: Form, path: Path) -> None:
    """Write `module` in this form; a file of another opset than the one asked for is a failure."""
    import torch
    from gradskip_onnx.exporters.quiet import silent

    images = torch.zeros((2 if form.free_batch else 1, 3, *size))  # a traced batch of 1 would be taken for a constant
    with silent(), torch.no_grad():
        EXPORTERS[form.exporter].write(module, images, form, path)
    model = onnx.load(path)
    written = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}["ai.onnx"]
    if written != form.opset:
        path.unlink()
        raise RuntimeError(f"torch wrote opset {written} where {form.opset} was asked for")
