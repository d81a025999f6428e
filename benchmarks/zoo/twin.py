"""The twin of a quantised file: its own graph run in torch, quantised in the same places, gradients by autograd."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper

from gradskip_onnx.types import Array

from .build import logits_of
from .check import gap
from .reference import seeds
from .twin_ops import OPS

SAME = 1e-2  # of the largest logit; mostly they are equal to the bit, but a sum near a step may fall either way
EXACT = 1e-3  # of the largest value: a tensor of the float file is the block's output in torch


def write(base: Path, model: Path, reference: Path, path: Path) -> None:
    """Logits, block outputs and gradients of the twin, for the images and classes of the float reference.

    The file is taken at its word: ONNX Runtime's optimiser would fuse and round differently (measured: 5 % of a logit).
    Block outputs are found by value in the float file `base`; the quantisers keep the names, with endings of their own.
    """
    known = dict(np.load(reference))
    images = torch.from_numpy(known["images"]).requires_grad_()
    values, (output,) = _run(onnx.load(model), images)
    logits = values[output]
    far = gap(logits.detach().numpy(), logits_of(model, known["images"], optimise=False))
    if far > SAME:
        raise RuntimeError(f"the twin's logits are off the file's by {far:.2g} of the largest")
    torch.autograd.backward((logits * torch.from_numpy(seeds(known["logits"], known["classes"]))).sum())
    arrays: dict[str, Array] = {name: known[name] for name in ("images", "classes", "regions") if name in known}
    streams = [name for name, tensor in values.items() if tensor.requires_grad]
    for number, name in enumerate(_named(base, known)):
        place = next((other for other in streams if other == name or other.startswith(f"{name}_")), None)
        if place is None:
            raise RuntimeError(f"the output of block {number}, {name!r} before, is not in the quantised file")
        arrays |= {f"output_{number}": _flat(values[place].detach()), f"gradient_{number}": _flat(values[place].grad)}
    np.savez(path, logits=logits.detach().numpy(), **arrays)  # type: ignore[arg-type]


def _named(base: Path, known: dict[str, Array]) -> list[str]:
    """The tensor of the float file that is each block's output."""
    values, _ = _run(onnx.load(base), torch.from_numpy(known["images"]).requires_grad_())
    streams = {
        name: _flat(tensor.detach()) for name, tensor in values.items() if tensor.requires_grad and tensor.ndim > 2
    }
    outputs = [known[f"output_{number}"] for number in range(sum(name.startswith("output_") for name in known))]
    return [next(name for name, tokens in streams.items() if gap(tokens, output) < EXACT) for output in outputs]


def _flat(tensor: Any) -> Array:
    array: Array = tensor.reshape(tensor.shape[0], -1, tensor.shape[-1]).numpy()
    return array


def _run(model: onnx.ModelProto, images: torch.Tensor) -> tuple[dict[str, torch.Tensor], list[str]]:
    """Every tensor of a model by name, the float ones keeping their gradients, and the names of the outputs."""
    values: dict[str, Any] = {weight.name: _tensor(weight) for weight in model.graph.initializer}
    values[model.graph.input[0].name] = images
    values[""] = None
    for node in model.graph.node:
        attrs = {entry.name: _attribute(entry) for entry in node.attribute} | {"outputs": len(node.output)}
        inputs = [values[name] for name in node.input]
        found = _constant(attrs) if node.op_type == "Constant" else OPS[node.op_type](attrs, *inputs)
        for name, tensor in zip(node.output, found if isinstance(found, tuple) else (found,), strict=False):
            if tensor.requires_grad and tensor.is_floating_point():
                tensor.retain_grad()
            values[name] = tensor
    del values[""]
    return values, [entry.name for entry in model.graph.output]


def _attribute(entry: onnx.AttributeProto) -> Any:
    value = helper.get_attribute_value(entry)
    if isinstance(value, bytes):
        return value.decode()
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _constant(attrs: dict[str, Any]) -> torch.Tensor:
    value = next(value for name, value in attrs.items() if name != "outputs")
    return _as_torch(np.asarray(value))


def _tensor(weight: onnx.TensorProto) -> torch.Tensor:
    return _as_torch(numpy_helper.to_array(weight))


def _as_torch(array: Array) -> torch.Tensor:
    """Four-bit integers, which torch lacks, become eight-bit ones."""
    return torch.from_numpy(np.array(array.astype(np.int8) if array.dtype.name in ("int4", "uint4") else array))
