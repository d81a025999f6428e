"""The twin of a quantised file: its own graph run in torch, quantised in the same places, gradients by autograd.

A value halfway between two steps may fall either way, and one that falls differently moves all that follow. So there
are two readings of a file. In the first the twin takes, wherever the file rounds, the integers that ONNX Runtime has
there, after seeing that its own are at most one step away. In the second, `free`, it rounds by itself: ONNX defines
quantised operators by real arithmetic, and kernels in fixed point fall to the other side now and then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper

from gradskip_onnx.runtime.session import open_session
from gradskip_onnx.types import Array

from .check import gap
from .reference import seeds
from .twin_ops import MOVERS, OPS, pinned

SAME = 1e-4  # of the largest: float32 sums in another order, from the last rounding on
EXACT = 1e-3  # of the largest value: a tensor of the float file is the block's output in torch
ROUNDERS = ("QuantizeLinear", "DynamicQuantizeLinear", "QGemm", "Resize")  # beside QLinear*; where they give integers
BEFORE, FREE = "before rounding: ", "free/"


def write(base: Path, model: Path, reference: Path, path: Path) -> None:
    """Block outputs and gradients of the twin, for the images and classes of the float reference.

    The file is taken at its word: ONNX Runtime's optimiser would fuse and round differently (measured: 5 % of a logit).
    """
    known = dict(np.load(reference))
    proto = onnx.load(model)
    own, integers = _look(proto, known["images"])
    named = _named(base, known)
    arrays: dict[str, Array] = {name: known[name] for name in ("images", "classes", "regions") if name in known}
    for reading, pins in (("", integers), (FREE, {})):
        values = _run(proto, torch.from_numpy(known["images"]).requires_grad_(), pins)
        logits = values[proto.graph.output[0].name]
        far = gap(logits.detach().numpy(), own)
        if not reading and far > SAME:
            raise RuntimeError(f"the twin's logits are off the file's by {far:.2g} of the largest")
        torch.autograd.backward((logits * torch.from_numpy(seeds(known["logits"], known["classes"]))).sum())
        for number, names in enumerate(named):
            offers = _offer(number, [values[place] for place in values if _stands_for(place, names)])
            arrays |= {reading + name: array for name, array in offers.items()}
    np.savez(path, **arrays)  # type: ignore[arg-type]


def _look(proto: onnx.ModelProto, images: Array) -> tuple[Array, dict[str, Array]]:
    """The file's own logits, and the integers it has wherever it rounds."""
    output = proto.graph.output[0].name
    shown = onnx.ModelProto()
    shown.CopyFrom(proto)
    rounders = [node for node in proto.graph.node if node.op_type in ROUNDERS or node.op_type.startswith("QLinear")]
    names = list(dict.fromkeys([output, *(node.output[0] for node in rounders)]))
    del shown.graph.output[:]
    shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    session = open_session(shown, None, "cpu", threads=1, optimise=False)
    seen = session.run(names, {proto.graph.input[0].name: images})
    return seen[output], {name: array for name, array in seen.items() if array.dtype.kind in "iu"}


def _named(base: Path, known: Mapping[str, Array]) -> list[list[str]]:
    """The tensors of the float file that hold each block's output; the quantisers keep their names, with endings."""
    values = _run(onnx.load(base), torch.from_numpy(known["images"]).requires_grad_(), {})
    streams = {
        name: _flat(tensor.detach()) for name, tensor in values.items() if tensor.requires_grad and tensor.ndim > 2
    }
    outputs = [known[f"output_{number}"] for number in range(sum(name.startswith("output_") for name in known))]
    return [[name for name, tokens in streams.items() if gap(tokens, output) < EXACT] for output in outputs]


def _stands_for(place: str, names: Sequence[str]) -> bool:
    bare = place.removeprefix(BEFORE)
    return any(bare == name or bare.startswith(f"{name}_") for name in names)


def _offer(number: int, tensors: Sequence[torch.Tensor]) -> dict[str, Array]:
    """What may rightly be called the output of a block: it before and after rounding, in whatever layout.

    The first comes from the residual add and has the whole gradient. One that has less, because others read the stream
    before it was rounded, is no block output.
    """
    pairs = [(_flat(tensor.detach()), _flat(tensor.grad)) for tensor in tensors if tensor.grad is not None]
    if not pairs:
        raise RuntimeError(f"the output of block {number} is not in the quantised file")
    (first, whole), *others = pairs
    values = [first]
    for value, gradient in others:
        if gap(gradient, whole) < EXACT and all(gap(value, other) > 0 for other in values):
            values.append(value)
    offers = {f"output_{number}": first, f"gradient_{number}": whole}
    return offers | {f"rounded_{number}_{place}": value for place, value in enumerate(values[1:])}


def _flat(tensor: Any) -> Array:
    array: Array = tensor.reshape(tensor.shape[0], -1, tensor.shape[-1]).numpy()
    return array


def _run(model: onnx.ModelProto, images: torch.Tensor, pins: Mapping[str, Array]) -> dict[str, torch.Tensor]:
    """Every tensor of a model by name, in order, the float ones keeping their gradients; also what rounding met."""
    values: dict[str, Any] = {weight.name: _tensor(weight) for weight in model.graph.initializer}
    values[model.graph.input[0].name] = images
    values[""] = None
    for node in model.graph.node:
        for name, tensor in _results(node, [values[name] for name in node.input], pins):
            before = tensor.grid.before if hasattr(tensor, "grid") else tensor
            for key, kept in ((BEFORE + name, before), (name, tensor)):
                if kept.requires_grad and kept.is_floating_point():
                    kept.retain_grad()
                values[key] = kept
    del values[""]
    return values


def _results(node: onnx.NodeProto, inputs: list[Any], pins: Mapping[str, Array]) -> Iterator[tuple[str, torch.Tensor]]:
    attrs = {entry.name: _attribute(entry) for entry in node.attribute} | {"outputs": len(node.output)}
    found = _constant(attrs) if node.op_type == "Constant" else OPS[node.op_type](attrs, *inputs)
    for name, tensor in zip(node.output, found if isinstance(found, tuple) else (found,), strict=False):
        if node.op_type in MOVERS and hasattr(inputs[0], "grid"):
            yield name, inputs[0].grid.moved(tensor)
        elif name not in pins:
            yield name, tensor
        else:
            try:
                yield name, pinned(tensor, _as_torch(pins[name]))
            except RuntimeError as failure:
                raise RuntimeError(f"the twin of {node.op_type} {node.name!r} is {failure}") from failure


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
