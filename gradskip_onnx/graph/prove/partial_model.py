"""A model without its weights, of which many parts are opened; the sessions share the weight arrays.

Copying hundreds of megabytes into each of these models would take longer than running it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from gradskip_onnx.graph.read.assemble import frame, stored
from gradskip_onnx.model_file.mapped_weights import LARGE
from gradskip_onnx.runtime.session import SHARED, Session, open_session
from gradskip_onnx.surgeon.element_types import numpy_type, onnx_type
from gradskip_onnx.surgeon.private_names import held_as, node_proto, peek, port_proto, unread_proto
from gradskip_onnx.types import EMPTY, Array

SHAREABLE = frozenset("fiub")  # NumPy kinds of element types that ONNX Runtime takes as an array


@dataclass(frozen=True, slots=True, eq=False)
class PartialModel:
    """Nodes in topological order and stored tensors; large values are in `weights`, with placeholders in `stored`."""

    nodes: Sequence[onnx.NodeProto]
    inputs: Mapping[str, onnx.ValueInfoProto]
    stored: Mapping[str, onnx.TensorProto]
    weights: Mapping[str, Array]
    frame: onnx.ModelProto  # IR version and opsets, without a graph
    folder: Path | None

    def open(
        self,
        outputs: Sequence[str],
        cuts: Mapping[str, str] = EMPTY,
        fed: Mapping[str, Array] = EMPTY,
        most_bytes: int | None = None,
    ) -> Session:
        """Open the part of the model that computes `outputs`.

        `cuts` maps a tensor to the name of an input that replaces it where it is read; `fed` holds an example value
        of each such input, for its type and rank. A run that takes more than `most_bytes` is ended with an error.
        """
        nodes, read = _part(self.nodes, outputs, cuts)
        model = onnx.ModelProto()
        model.CopyFrom(self.frame)
        model.graph.name = "part"
        model.graph.node.extend(nodes)
        model.graph.initializer.extend(tensor for name, tensor in self.stored.items() if name in read)
        model.graph.input.extend(info for name, info in self.inputs.items() if name in read)
        model.graph.input.extend(_open_info(name, value) for name, value in fed.items() if name in read)
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
        placeholders = (name for name, tensor in self.stored.items() if name in read and _is_placeholder(tensor))
        shared_weights = {name: self.weights[name] for name in placeholders}
        return open_session(
            model, self.folder, "cpu", optimise=False, most_bytes=most_bytes, shared_weights=shared_weights
        )

    def with_values(self, values: Mapping[str, Array]) -> PartialModel:
        """The model with nodes replaced by stored tensors where `values` has all their outputs."""
        replaced = [node for node in self.nodes if node.output and all(name in values for name in node.output)]
        names = {name for node in replaced for name in node.output}
        nodes = [node for node in self.nodes if not names.issuperset(node.output)]
        tensors = {name: onnx.numpy_helper.from_array(np.asarray(values[name]), name) for name in names}
        return replace(self, nodes=nodes, stored={**self.stored, **tensors})


def partial_model(graph: gs.Graph, folder: Path | None, earlier_weights: Mapping[str, Array] = EMPTY) -> PartialModel:
    """A sorted graph without its weights; `earlier_weights` are those of an earlier partial model of the same file."""
    kept, weights = {}, {}
    for name, tensor in graph.tensors().items():
        if isinstance(tensor, gs.Constant):
            earlier = earlier_weights.get(name) if held_as(tensor) != "array" else None
            array = _large(tensor) if earlier is None else earlier
            if array is None:
                kept[name] = stored(tensor)
            else:
                weights[name] = array
                kept[name] = stored(tensor) if held_as(tensor) == "file" else _placeholder(name, array)
    return PartialModel(
        nodes=[node_proto(node) for node in graph.nodes],
        inputs={tensor.name: port_proto(tensor) for tensor in graph.inputs},
        stored=kept,
        weights=weights,
        frame=frame(graph),
        folder=folder,
    )


def _large(tensor: gs.Constant) -> Array | None:
    """The value of a constant if it is large enough to be shared, else None."""
    proto = unread_proto(tensor)
    if proto is not None and held_as(tensor) == "proto":
        kind = numpy_type(proto.data_type)
        raw = proto.raw_data  # each access copies it
        return np.frombuffer(raw, kind).reshape(tuple(proto.dims)) if len(raw) > LARGE and _shareable(kind) else None
    value = peek(tensor)
    if held_as(tensor) != "array":
        return value
    # ONNX Runtime reads in row-major order; the array may be a transposed view
    return np.ascontiguousarray(value) if value.nbytes > LARGE and _shareable(value.dtype) else None


def _shareable(kind: np.dtype[np.generic]) -> bool:
    return kind.isbuiltin == 1 and kind.kind in SHAREABLE


def _placeholder(name: str, array: Array) -> onnx.TensorProto:
    """An external tensor without a file; `open_session` passes its value to ONNX Runtime."""
    kind = onnx_type(array.dtype)
    proto = onnx.TensorProto(name=name, dims=array.shape, data_type=kind, data_location=onnx.TensorProto.EXTERNAL)
    entries = {"location": SHARED, "offset": "0", "length": str(array.nbytes)}
    proto.external_data.extend(onnx.StringStringEntryProto(key=key, value=value) for key, value in entries.items())
    return proto


def _is_placeholder(tensor: onnx.TensorProto) -> bool:
    return any((entry.key, entry.value) == ("location", SHARED) for entry in tensor.external_data)


def _open_info(name: str, value: Array) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, onnx_type(value.dtype), [None] * value.ndim)


def _part(
    nodes: Sequence[onnx.NodeProto], outputs: Iterable[str], cuts: Mapping[str, str]
) -> tuple[list[onnx.NodeProto], set[str]]:
    """The nodes that compute `outputs`, with inputs renamed by `cuts`, and all names they read."""
    read = set(outputs)
    kept = []
    for node in reversed(nodes):
        if not read.isdisjoint(node.output):
            if not cuts.keys().isdisjoint(node.input):
                original, node = node, onnx.NodeProto()
                node.CopyFrom(original)
                node.input[:] = [cuts.get(name, name) for name in original.input]
            read.update(read_by(node))
            kept.append(node)
    return kept[::-1], read


def read_by(node: onnx.NodeProto) -> Iterator[str]:
    """Names a node reads: its inputs, and names that the bodies of If, Loop and Scan may take from outside."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for body in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            for inner in body.node:
                yield from read_by(inner)
            yield from (output.name for output in body.output)
