"""Damage to weights: element types, lengths, dims, copies, and data in other files."""

from __future__ import annotations

import os

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from .case import EXPLAIN, MODEL, Scene, Trial, pick
from .model_table import damage, place, whole, write
from .seeds import MODELS, model_bytes

Rng = np.random.Generator
WEIGHTS = "weights.bin"


def tensor_of(model: onnx.ModelProto, rng: Rng) -> onnx.TensorProto:
    tensor: onnx.TensorProto = pick(rng, model.graph.initializer)
    return tensor


def floats(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    return [tensor for tensor in model.graph.initializer if tensor.data_type == TensorProto.FLOAT]


@damage("element type of a weight")
def element_type(model: onnx.ModelProto, rng: Rng) -> str:
    tensor = tensor_of(model, rng)
    tensor.data_type = int(rng.integers(0, 26))
    return f"{tensor.name} of type {tensor.data_type}"


@damage("length of raw data")
def raw_length(model: onnx.ModelProto, rng: Rng) -> str:
    tensor = tensor_of(model, rng)
    data = bytes(tensor.raw_data)
    tensor.raw_data = pick(rng, (b"", data[:-1], data + b"\0", data * 2, data[: len(data) // 2]))
    return f"{tensor.name} with {len(tensor.raw_data)} bytes instead of {len(data)}"


@damage("two kinds of data")
def two_kinds(model: onnx.ModelProto, rng: Rng) -> str:
    tensor = tensor_of(model, rng)
    tensor.float_data.extend([1.0, float("nan")])
    if rng.random() < 0.3:
        tensor.ClearField("raw_data")
    return f"{tensor.name} with float_data beside raw_data"


@damage("dims of a weight")
def dims(model: onnx.ModelProto, rng: Rng) -> str:
    tensor = pick(rng, [tensor for tensor in model.graph.initializer if tensor.dims])
    where = int(rng.integers(len(tensor.dims)))
    tensor.dims[where] = int(pick(rng, (-1, 0, 1, 2**31, 2**32, 2**62, tensor.dims[where] + 1)))
    return f"{tensor.name} of shape {list(tensor.dims)}"


@damage("numbers of a weight")
def numbers(model: onnx.ModelProto, rng: Rng) -> str:
    tensor = tensor_of(model, rng)
    array = numpy_helper.to_array(tensor).copy()
    odd = (np.nan, np.inf, 0, 1e30) if array.dtype.kind == "f" else (-1, 0, 2**31, -(2**62), 7)
    array.reshape(-1)[int(rng.integers(array.size))] = pick(rng, odd)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return f"an odd number in {tensor.name}"


@damage("duplicate initialiser")
def duplicate_initialiser(model: onnx.ModelProto, rng: Rng) -> str:
    tensor = tensor_of(model, rng)
    copy = model.graph.initializer.add()
    copy.CopyFrom(tensor)
    if rng.random() < 0.5 and copy.raw_data:
        copy.raw_data = bytes(len(copy.raw_data))
    return f"{tensor.name} twice"


@damage("initialiser and node output")
def initialiser_and_output(model: onnx.ModelProto, rng: Rng) -> str:
    tensor = tensor_of(model, rng)
    tensor.name = pick(rng, model.graph.node).output[0]
    return f"a weight named like the value {tensor.name}"


@damage("drop initialiser")
def drop_initialiser(model: onnx.ModelProto, rng: Rng) -> str:
    tensor = model.graph.initializer.pop(int(rng.integers(len(model.graph.initializer))))
    return f"dropped {tensor.name}"


@damage("sparse initialiser")
def sparse(model: onnx.ModelProto, rng: Rng) -> str:
    tensor = model.graph.initializer.pop(int(rng.integers(len(model.graph.initializer))))
    entry = model.graph.sparse_initializer.add()
    entry.values.CopyFrom(tensor)
    entry.dims.extend(tensor.dims)
    return f"{tensor.name} as a sparse tensor without indices"


def outside(tensor: onnx.TensorProto, **entries: str) -> None:
    """The tensor's data said to lie in another file."""
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    del tensor.external_data[:]
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)


def spread(model: onnx.ModelProto) -> bytes:
    """Every float weight moved to one file; returns its bytes. ONNX Runtime wants shapes in the model itself."""
    data = bytearray()
    for tensor in floats(model):
        raw = numpy_helper.to_array(tensor).tobytes()
        tensor.ClearField("float_data")
        outside(tensor, location=WEIGHTS, offset=str(len(data)), length=str(len(raw)))
        data += raw
    return bytes(data)


ODD_ENTRIES: dict[str, tuple[str, ...]] = {
    "location": ("", ".", "..", "/dev/zero", "/etc/passwd", "../outside.bin", "missing.bin", "loop", "pipe", "folder",
                 "a\x1b[31m", "x" * 5000, "./" + WEIGHTS, "C:\\weights", "*/_ORT_MEM_ADDR_/*"),
    "offset": ("-1", "text", "1e3", "9" * 30, "18446744073709551615", "", "٣", "0x10", "4096"),
    "length": ("-1", "text", "0", "9" * 30, "18446744073709551615", "", "1", "1e3"),
    "checksum": ("0" * 40, "\x1b[0m"),
    "basepath": ("/", ".."),
}  # fmt: skip


@whole("external data")
def external_data(scene: Scene) -> Trial:
    seed = pick(scene.rng, tuple(MODELS))
    model = onnx.ModelProto.FromString(model_bytes(seed))
    data = spread(model)
    tensor, key = pick(scene.rng, floats(model)), pick(scene.rng, tuple(ODD_ENTRIES))
    entries = {entry.key: entry.value for entry in tensor.external_data} | {key: pick(scene.rng, ODD_ENTRIES[key])}
    outside(tensor, **entries)
    cut = scene.rng.random() < 0.2
    (scene.folder / WEIGHTS).write_bytes(data[: len(data) // 2] if cut else data)
    (scene.folder / "folder").mkdir()
    os.mkfifo(scene.folder / "pipe")
    (scene.folder / "loop").symlink_to("loop")
    what = f"{tensor.name} with {key} {entries[key][:40]!r}" + (", file cut short" if cut else "")
    return place(scene, seed, model.SerializeToString(), what)


@whole("weights changed beside the model")
def weights_changed(scene: Scene) -> Trial:
    """Explained and kept in the cache; then one number of one tensor in the other file changes."""
    seed = pick(scene.rng, tuple(MODELS))
    model = onnx.ModelProto.FromString(model_bytes(seed))
    data = bytearray(spread(model))
    write(scene, model.SerializeToString())
    (scene.folder / WEIGHTS).write_bytes(data)
    before = scene.call(EXPLAIN).answer
    tensor = pick(scene.rng, floats(model))
    start = int({entry.key: entry.value for entry in tensor.external_data}["offset"])
    data[start : start + 4] = np.float32(3.5).tobytes()
    (scene.folder / WEIGHTS).write_bytes(data)
    return Trial(f"{seed}: a number of {tensor.name}", (*EXPLAIN, "--force"), MODEL, "changed", before)


@whole("weights changed, against no cache")
def weights_changed_uncached(scene: Scene) -> Trial:
    """The same, and the answer must be that of a call without a cache."""
    trial = weights_changed(scene)
    fresh = scene.call((*EXPLAIN, "--force", "--no-cache")).answer
    return Trial(trial.what, trial.arguments, MODEL, "same", fresh)
