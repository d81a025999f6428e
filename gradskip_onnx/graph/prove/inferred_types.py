"""Element types and sizes of tensors as onnx infers them: without a run, in hardly any time, and with gaps.

What a model would take is refused here, before any of it is allocated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from math import prod

import onnx

from gradskip_onnx.graph.read.image_input import ImageInput
from gradskip_onnx.limits import ELEMENTS, RUN_BYTES
from gradskip_onnx.surgeon.element_types import numpy_type
from gradskip_onnx.types import Size

from .partial_model import PartialModel, read_by

Tensors = Mapping[str, onnx.TypeProto.Tensor]


def infer(model: PartialModel, image: ImageInput, size: Size) -> Tensors:
    """What is known of each tensor for one picture of this size; tensors of unknown type are left out."""
    proto = onnx.ModelProto()
    proto.CopyFrom(model.frame)
    proto.graph.name = "inferred"
    proto.graph.node.extend(model.nodes)
    proto.graph.initializer.extend(model.stored.values())
    proto.graph.input.extend(model.inputs.values())
    for entry in proto.graph.input:
        if entry.name == image.name:
            dims = (image.batch or 1, *image.dims(size))
            entry.type.tensor_type.shape.CopyFrom(
                onnx.TensorShapeProto(dim=[onnx.TensorShapeProto.Dimension(dim_value=length) for length in dims])
            )
    try:
        # without data_prop, which holds a message for each number of a tensor that may be a shape, however long it is
        found = onnx.shape_inference.infer_shapes(proto).graph.value_info
    except (RuntimeError, ValueError, onnx.shape_inference.InferenceError):  # of onnx's C++; a run tells more
        return {}
    return {entry.name: entry.type.tensor_type for entry in found if entry.type.tensor_type.elem_type}


def refuse_large(model: PartialModel, sizes: Mapping[str, Sequence[object]]) -> None:
    """Refuse a tensor that would be too large; a size that is no number is unknown and counts as 1."""
    most = ELEMENTS.amount
    for name, dims in sizes.items():
        count = prod(size for size in dims if isinstance(size, int))
        if count > most:
            maker = next(node for node in model.nodes if name in node.output)
            ELEMENTS.check(count, f"node {maker.name!r} ({maker.op_type}): its output {name!r}")


def refuse_memory(model: PartialModel, tensors: Tensors) -> None:
    """Refuse a model that would hold too much at once, as far as sizes are known."""
    sizes = {name: [size.dim_value for size in kind.shape.dim if size.dim_value > 0] for name, kind in tensors.items()}
    refuse_large(model, sizes)
    length = {name: prod(sizes[name]) * _width(kind.elem_type) for name, kind in tensors.items()}
    last_read = {name: at for at, node in enumerate(model.nodes) for name in read_by(node)}
    held = most = 0
    for at, node in enumerate(model.nodes):
        held += sum(length.get(name, 0) for name in node.output)
        most = max(most, held)
        held -= sum(length.get(name, 0) for name in {*read_by(node), *node.output} if last_read.get(name, at) == at)
    RUN_BYTES.check(most, "a run of the model")


def foreseen(tensors: Tensors, names: Iterable[str]) -> bool:
    """Whether the sizes of all these tensors are known."""
    return all(
        name in tensors
        and tensors[name].HasField("shape")
        and all(size.HasField("dim_value") for size in tensors[name].shape.dim)
        for name in names
    )


@cache
def _width(element_type: int) -> int:
    """Bytes of one element; 0 for text."""
    return 0 if element_type == onnx.TensorProto.STRING else int(numpy_type(element_type).itemsize)
