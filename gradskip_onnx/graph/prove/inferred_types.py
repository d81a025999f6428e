"""Element types and sizes of tensors as onnx infers them: no run, hardly any time, and gaps behind custom operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import onnx

from gradskip_onnx.graph.read.image_input import ImageInput
from gradskip_onnx.limits import ELEMENTS
from gradskip_onnx.types import Size

from .partial_model import PartialModel

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
        found = onnx.shape_inference.infer_shapes(proto, data_prop=True).graph.value_info
    except (RuntimeError, ValueError, onnx.shape_inference.InferenceError):  # of onnx's C++; a run tells more
        return {}
    return {entry.name: entry.type.tensor_type for entry in found if entry.type.tensor_type.elem_type}


def refuse_large(model: PartialModel, sizes: Mapping[str, Sequence[object]]) -> None:
    """Refuse a tensor that would be too large; a size that is no number is unknown and counts as 1."""
    for name, dims in sizes.items():
        count = prod(size for size in dims if isinstance(size, int))
        if count > ELEMENTS.amount:
            maker = next(node for node in model.nodes if name in node.output)
            ELEMENTS.check(count, f"node {maker.name!r} ({maker.op_type}): its output {name!r}")


def known_sizes(tensors: Tensors) -> dict[str, list[int]]:
    """The sizes of tensors that are numbers."""
    return {name: [size.dim_value for size in kind.shape.dim if size.dim_value > 0] for name, kind in tensors.items()}
