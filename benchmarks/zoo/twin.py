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
NEAR = 1.5  # a tensor and its rounded copies lie about equally near; the first of them is the block's output


def write(model: Path, reference: Path, path: Path) -> None:
    """Logits, block outputs and gradients of the twin, for the images and classes of the float reference.

    The file is taken at its word: ONNX Runtime's optimiser would fuse and round differently (measured: 5 % of a logit).
    Block outputs are the tensors whose values are nearest to those of the float model.
    """
    known = dict(np.load(reference))
    images = torch.from_numpy(known["images"]).requires_grad_()
    values, (output,) = _run(onnx.load(model), images)
    logits = values[output]
    far = gap(logits.detach().numpy(), logits_of(model, known["images"], optimise=False))
    if far > SAME:
        raise RuntimeError(f"the twin's logits are off the file's by {far:.2g} of the largest")
    torch.autograd.backward((logits * torch.from_numpy(seeds(known["logits"], known["classes"]))).sum())
    streams = [(tensor, _tokens(tensor)) for tensor in values.values() if tensor.grad is not None and tensor.ndim > 2]
    arrays: dict[str, Array] = {name: known[name] for name in ("images", "classes", "regions") if name in known}
    for number in range(sum(name.startswith("output_") for name in known)):
        expected = known[f"output_{number}"]
        gaps = [gap(tokens, expected) for _, tokens in streams]
        place = next(at for at, distance in enumerate(gaps) if distance <= NEAR * min(gaps))
        tensor, tokens = streams[place]
        arrays |= {f"output_{number}": tokens, f"gradient_{number}": _flat(tensor.grad)}
    np.savez(path, logits=logits.detach().numpy(), **arrays)  # type: ignore[arg-type]


def _tokens(tensor: torch.Tensor) -> Array:
    return _flat(tensor.detach())


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
