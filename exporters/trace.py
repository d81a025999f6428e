"""Traces a torch module to a plain ONNX model: standard operators, dynamic batch, fixed height and width."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
from onnx.external_data_helper import load_external_data_for_model

from gradskip_onnx.errors import InputError
from gradskip_onnx.selfcontained.save import LARGEST_INLINE
from gradskip_onnx.surgeon.opsets import OLDEST_OPSET

from .fold_shapes import tidy
from .quiet import silent

if TYPE_CHECKING:
    import torch

BATCH = 2  # images in the trace; exporters take a batch of 1 for a constant
DEFAULT_OPSET = 18


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of one torch export."""

    module: torch.nn.Module
    images: torch.Tensor
    path: Path
    opset: int
    input_name: str
    output_name: str


@dataclass(frozen=True, slots=True)
class Tracer:
    """One of torch's exporters, and the opsets that it writes without falling back to another."""

    opsets: range
    write: Callable[[Call], None]


def _torchscript(call: Call) -> None:
    import torch

    torch.onnx.export(
        call.module,
        (call.images,),
        str(call.path),
        opset_version=call.opset,
        input_names=[call.input_name],
        output_names=[call.output_name],
        dynamic_axes={call.input_name: {0: "batch"}, call.output_name: {0: "batch"}},
        do_constant_folding=True,
        dynamo=False,
    )


def _dynamo(call: Call) -> None:
    import torch

    program = torch.onnx.export(
        call.module,
        (call.images,),
        opset_version=call.opset,
        input_names=[call.input_name],
        output_names=[call.output_name],
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        dynamo=True,
        verbose=False,
    )
    if program is None:
        raise RuntimeError("torch returned no program")
    program.save(str(call.path), external_data=_bytes(call.module) > LARGEST_INLINE)


# In order of preference. TorchScript is five to ten times faster, and the only one below opset 18, where the other
# converts down and fails at LayerNormalization. It writes nothing newer than 20 and lacks a few operators of the other.
TRACERS = (Tracer(range(OLDEST_OPSET, 21), _torchscript), Tracer(range(18, 24), _dynamo))
OPSETS = range(TRACERS[0].opsets.start, TRACERS[-1].opsets.stop)


def tracers(opset: int) -> list[Tracer]:
    """The exporters that write this opset."""
    able = [tracer for tracer in TRACERS if opset in tracer.opsets]
    if not able:
        raise InputError(f"opset {opset} cannot be written; choose {OPSETS.start} to {OPSETS.stop - 1}")
    return able


def trace(
    module: torch.nn.Module,
    example: torch.Tensor,
    *,
    opset: int = DEFAULT_OPSET,
    input_name: str = "pixel_values",
    output_name: str = "logits",
    scratch: Path | None = None,
) -> onnx.ModelProto:
    """The module as ONNX, for any number of images with the shape of those in `example` (B, C, H, W).

    torch writes it to a file first: in the folder `scratch`, else in the system's temporary one.
    """
    import torch

    images = torch.zeros((BATCH, *example.shape[1:]), dtype=example.dtype)
    with tempfile.TemporaryDirectory(dir=scratch) as folder, torch.no_grad():
        call = Call(module.eval(), images, Path(folder) / "model.onnx", opset, input_name, output_name)
        model = _written(call)
        logits = tuple(module(images).shape)
        model = tidy(model, Path(folder), tuple(images.shape), logits)
        load_external_data_for_model(model, folder)
    return model


def _written(call: Call) -> onnx.ModelProto:
    """The model as written by the first tracer that can write it at this opset."""
    from torch.onnx.errors import OnnxExporterError

    reasons = []
    for tracer in tracers(call.opset):
        try:
            with silent():
                tracer.write(call)
        except (OnnxExporterError, RuntimeError) as failure:
            reasons.append((str(failure).strip() or type(failure).__name__).splitlines()[0][:200])
        else:
            model = onnx.load(call.path, load_external_data=False)
            _check_opset(model, call.opset)
            return model
    raise InputError(f"torch cannot write this model at opset {call.opset} ({'; '.join(reasons)}); try --opset 20")


def _check_opset(model: onnx.ModelProto, opset: int) -> None:
    """Raise InputError if the exporter silently wrote another opset or operators of its own."""
    found = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}
    foreign = sorted({node.domain for node in model.graph.node} - {"", "ai.onnx"})
    if found.get("ai.onnx") != opset or foreign:
        got = f"opset {found.get('ai.onnx')}" + (f" with operators of {', '.join(foreign)}" if foreign else "")
        raise InputError(f"torch wrote {got} where opset {opset} was asked for; try another --opset")


def _bytes(module: torch.nn.Module) -> int:
    return sum(p.numel() * p.element_size() for p in module.parameters())
