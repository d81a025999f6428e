"""A graph as a model without its weights: parts of it are opened many times, and the weights are lent to each session.

Writing hundreds of megabytes into every model that is looked at would take longer than looking.
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
from gradskip_onnx.runtime.session import LENT, Session, open_session
from gradskip_onnx.surgeon.element_types import numpy_type, onnx_type
from gradskip_onnx.surgeon.private_names import held_as, node_proto, peek, port_proto, unread_proto
from gradskip_onnx.types import EMPTY, Array

LENDABLE = frozenset("fiub")  # kinds of element types that NumPy has too


@dataclass(frozen=True, slots=True, eq=False)
class PartialModel:
    """Nodes in topological order and stored tensors, of which `weights` holds the large ones."""

    nodes: Sequence[onnx.NodeProto]
    inputs: Mapping[str, onnx.ValueInfoProto]
    stored: Mapping[str, onnx.TensorProto]
    weights: Mapping[str, Array]
    frame: onnx.ModelProto  # versions, and no graph
    folder: Path | None

    def open(
        self, outputs: Sequence[str], cuts: Mapping[str, str] = EMPTY, fed: Mapping[str, Array] = EMPTY
    ) -> Session:
        """A session on what `outputs` follow from; tensors in `cuts` are read under another name, which is fed.

        `fed` gives values like those that will be fed.
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
        lent = {name: self.weights[name] for name, tensor in self.stored.items() if name in read and _promised(tensor)}
        return open_session(model, self.folder, "cpu", optimise=False, lent=lent)

    def knowing(self, known: Mapping[str, Array]) -> PartialModel:
        """With values in place of the nodes that compute them."""
        settled = [node for node in self.nodes if node.output and all(name in known for name in node.output)]
        names = {name for node in settled for name in node.output}
        nodes = [node for node in self.nodes if not names.issuperset(node.output)]
        values = {name: onnx.numpy_helper.from_array(np.asarray(known[name]), name) for name in names}
        return replace(self, nodes=nodes, stored={**self.stored, **values})


def partial_model(graph: gs.Graph, folder: Path | None, held: Mapping[str, Array] = EMPTY) -> PartialModel:
    """A sorted graph without its weights; `held` are weights of the same file that were taken out before."""
    kept, weights = {}, {}
    for name, tensor in graph.tensors().items():
        if isinstance(tensor, gs.Constant):
            known = held.get(name) if held_as(tensor) != "array" else None
            array = _large(tensor) if known is None else known
            if array is None:
                kept[name] = stored(tensor)
            else:
                weights[name] = array
                kept[name] = stored(tensor) if held_as(tensor) == "file" else _promise(name, array)
    return PartialModel(
        nodes=[node_proto(node) for node in graph.nodes],
        inputs={tensor.name: port_proto(tensor) for tensor in graph.inputs},
        stored=kept,
        weights=weights,
        frame=frame(graph),
        folder=folder,
    )


def _large(tensor: gs.Constant) -> Array | None:
    """The value of a constant that is worth lending."""
    proto = unread_proto(tensor)
    if proto is not None and held_as(tensor) == "proto":
        kind = numpy_type(proto.data_type)
        raw = proto.raw_data  # each look copies it
        return np.frombuffer(raw, kind).reshape(tuple(proto.dims)) if len(raw) > LARGE and _lendable(kind) else None
    value = peek(tensor)
    if held_as(tensor) != "array":
        return value
    # ONNX Runtime reads rows; an array may be a turned view
    return np.ascontiguousarray(value) if value.nbytes > LARGE and _lendable(value.dtype) else None


def _lendable(kind: np.dtype[np.generic]) -> bool:
    return kind.isbuiltin == 1 and kind.kind in LENDABLE


def _promise(name: str, array: Array) -> onnx.TensorProto:
    """A tensor that is said to lie elsewhere: ONNX Runtime is given it when the session is opened."""
    kind = onnx_type(array.dtype)
    proto = onnx.TensorProto(name=name, dims=array.shape, data_type=kind, data_location=onnx.TensorProto.EXTERNAL)
    entries = {"location": LENT, "offset": "0", "length": str(array.nbytes)}
    proto.external_data.extend(onnx.StringStringEntryProto(key=key, value=value) for key, value in entries.items())
    return proto


def _promised(tensor: onnx.TensorProto) -> bool:
    return any((entry.key, entry.value) == ("location", LENT) for entry in tensor.external_data)


def _open_info(name: str, value: Array) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, onnx_type(value.dtype), [None] * value.ndim)


def _part(
    nodes: Sequence[onnx.NodeProto], outputs: Iterable[str], cuts: Mapping[str, str]
) -> tuple[list[onnx.NodeProto], set[str]]:
    """The nodes that `outputs` follow from, and all names they read."""
    wanted = set(outputs)
    kept = []
    for node in reversed(nodes):
        if not wanted.isdisjoint(node.output):
            if not cuts.keys().isdisjoint(node.input):
                given, node = node, onnx.NodeProto()
                node.CopyFrom(given)
                node.input[:] = [cuts.get(name, name) for name in given.input]
            wanted.update(read_by(node))
            kept.append(node)
    return kept[::-1], wanted


def read_by(node: onnx.NodeProto) -> Iterator[str]:
    """What a node reads: its inputs, and whatever the bodies of If, Loop and Scan may take from outside."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for body in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            for inner in body.node:
                yield from read_by(inner)
            yield from (output.name for output in body.output)
