"""Refuses what the file's own runtime refuses: an answer is about these bytes, or there is none."""

from __future__ import annotations

from collections import Counter

import onnx

from gradskip_onnx.errors import ModelError, UnsupportedModelError
from gradskip_onnx.model_file.mapped_weights import weight_location
from gradskip_onnx.model_file.opening import ModelFile
from gradskip_onnx.runtime.session import open_bytes

from .bfloat16 import first_bfloat16_node, refusal

# What ONNX Runtime says of files that are sound, but of operators that it does not have -> our code.
MISSING = {
    "NOT_IMPLEMENTED": "no-kernel",
    "No Op registered": "unknown-operator",
    "not a registered function/op": "unknown-operator",
    "No opset import for domain": "unknown-operator",
}
ADVICE = {
    "Cannot parse data from external tensors": "; keep small tensors in the model: onnx.save_model(size_threshold=1024)"
}


def require_accepted(file: ModelFile, light: bytes, model: onnx.ModelProto) -> None:
    """Open the file as it was given, with nothing optimised, and refuse it as ONNX Runtime does.

    `light` are the bytes of the file, large weights in it replaced by references to their place; `model` is the same,
    parsed. Weights in other files are left to ONNX Runtime, which has its own rules for them.
    """
    _refuse_stored_twice(model.graph, file.name)
    inside = "" if file.path is None else file.path.name
    places = [place for tensor in model.graph.initializer if (place := weight_location(tensor))]
    for place in places:
        place.array(file.folder)  # says which file is too short
    own = [place for place in places if place.location == inside]
    try:
        open_bytes(_with_node_names_apart(light, model), own, file.folder, "cpu", optimise=False)
    except ModelError as failure:
        node = first_bfloat16_node(model.graph)
        if node is not None:
            raise refusal(node.name, node.op_type) from failure
        for words, code in MISSING.items():
            if words in str(failure):
                raise UnsupportedModelError(code, f"{file.name}: {failure}") from failure
        advice = next((advice for words, advice in ADVICE.items() if words in str(failure)), "")
        raise ModelError(f"{file.name}: {failure}{advice}") from failure


def _refuse_stored_twice(graph: onnx.GraphProto, name: str) -> None:
    """ONNX Runtime takes some of these, and nothing says which of the two values counts."""
    counted = Counter(tensor.name for tensor in graph.initializer)
    counted.update(tensor.values.name for tensor in graph.sparse_initializer)
    twice = next((tensor for tensor, count in counted.items() if count > 1), None)
    if twice is not None:
        raise ModelError(f"{name}: tensor {twice!r} is stored twice")


def _with_node_names_apart(data: bytes, model: onnx.ModelProto) -> bytes:
    """The model, without the names of its nodes where they repeat: a name means nothing, yet ONNX Runtime refuses."""
    names = [node.name for node in model.graph.node if node.name]
    if len(set(names)) == len(names):
        return data
    unnamed = onnx.ModelProto()
    unnamed.CopyFrom(model)
    for node in unnamed.graph.node:
        node.ClearField("name")
    return bytes(unnamed.SerializeToString())
