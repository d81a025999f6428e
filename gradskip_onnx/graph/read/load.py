"""Loads a file or bytes as a `Source`; large weights stay in their files, only small ones are read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path, PurePosixPath

import onnx
from google.protobuf.message import DecodeError
from onnx.external_data_helper import load_external_data_for_tensor

from gradskip_onnx.errors import ModelError
from gradskip_onnx.model_file.opening import ModelFile, open_model_file
from gradskip_onnx.types import Source
from gradskip_onnx.untrusted_files import shortened

from .accepted import require_accepted
from .bounds import check_bounds
from .upgrade import too_old, upgrade
from .weightless_parse import skeleton

SMALL = 4096  # elements; shapes, axes and scales are small, and shape inference must be able to read them


def load(model: str | os.PathLike[str] | bytes | ModelFile) -> Source:
    """Parse a model and hash it; an old opset is converted, large weights stay in their files."""
    file = model if isinstance(model, ModelFile) else open_model_file(model)
    name, folder = file.name, file.folder
    light = _without_weights(file)
    proto = _parse(light, name)
    check_bounds(proto, name)
    others = tuple(path for path in _external_files(proto, folder, name) if path != file.path)
    require_accepted(file, light, proto)
    sha256 = file.sha256(others)
    _fetch_small(proto, folder)  # behind the hash, and looked at again: what is read is what was hashed
    file.require_unchanged()
    newer = None
    if too_old(proto):  # the converter needs the weights
        proto = _parse(file.data.tobytes(), name)
        newer = upgrade(proto, name)
    given = None if newer is None else proto
    return Source(name, sha256, _opsets(newer or proto), newer or proto, folder, given, others)


def in_memory(model: onnx.ModelProto, name: str) -> Source:
    """A model that was just made and holds its weights; with no file it has no hash."""
    return Source(name, "", _opsets(model), model)


def _opsets(model: onnx.ModelProto) -> dict[str, int]:
    return {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}


def _without_weights(file: ModelFile) -> bytes:
    """The bytes of the model; large weights of a file become references to their place in it."""
    light = skeleton(file.data, file.path.name) if file.path else None
    return file.data.tobytes() if light is None else light


def _parse(data: bytes, name: str) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError as broken:
        raise ModelError(f"{name} is not an ONNX file, or it is cut short ({len(data)} bytes): {broken}") from broken
    if not proto.graph.node or not proto.opset_import:
        raise ModelError(f"{name} holds no ONNX graph ({len(data)} bytes); is it really an ONNX file?")
    return proto


def tensors_of(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every stored tensor of a model: of its graph, of its functions, and of the graphs inside their nodes."""
    yield from _tensors_of_graph(model.graph)
    for function in model.functions:
        yield from _tensors_of_nodes(function.node)


def _tensors_of_graph(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _tensors_of_nodes(graph.node)


def _tensors_of_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for attribute in (attribute for node in nodes for attribute in node.attribute):
        yield from [attribute.t] if attribute.HasField("t") else attribute.tensors
        for sparse in [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else attribute.sparse_tensors:
            yield from (sparse.values, sparse.indices)
        for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            yield from _tensors_of_graph(inner)


def _external_files(proto: onnx.ModelProto, folder: Path | None, name: str) -> list[Path]:
    """The weight files beside the model; a location outside its folder is refused, since the file is untrusted."""
    locations: dict[str, str] = {}
    for tensor in tensors_of(proto):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            entry = {item.key: item.value for item in tensor.external_data}
            if not all(isinstance(text, str) for text in (*entry, *entry.values())):  # protobuf gives it as bytes
                raise ModelError(f"{name}: where tensor {tensor.name!r} lies is not UTF-8; is the file damaged?")
            locations.setdefault(entry.get("location", ""), tensor.name)
    found = []
    for location, tensor_name in sorted(locations.items()):
        relative, shown = PurePosixPath(location), shortened(location)
        if not location or relative.is_absolute() or ".." in relative.parts:
            raise ModelError(f"{name}: tensor {tensor_name!r} points outside the model's folder ({shown!r}); refused")
        if folder is None:
            raise ModelError(f"{name}: weights are in a separate file ({shown!r}); load the model by its path instead")
        if not os.path.isfile(folder / relative):  # unlike Path.is_file, it takes names that no file can have
            raise ModelError(f"{name}: weight file {shown!r} is missing; it must lie beside the model")
        found.append(folder / relative)
    return found


def _fetch_small(proto: onnx.ModelProto, folder: Path | None) -> None:
    """Load small external tensors into the model: some tools move even shapes out, and shape inference needs them."""
    for tensor in tensors_of(proto):
        if tensor.data_location == onnx.TensorProto.EXTERNAL and prod(tensor.dims) <= SMALL:
            try:
                load_external_data_for_tensor(tensor, str(folder))
            except (ValueError, OSError, RuntimeError, onnx.checker.ValidationError) as failure:
                reason = str(failure).strip().splitlines()[0][:200]
                raise ModelError(f"tensor {tensor.name!r} cannot be read from its file: {reason}") from failure
            tensor.data_location = onnx.TensorProto.DEFAULT
            del tensor.external_data[:]
