"""A file that explains itself, as a site needs it: its bytes, and what its maker wrote into it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.preprocess import Preprocess
from gradskip_onnx.model_file.mapped_weights import lies_elsewhere, weight_bytes
from gradskip_onnx.model_file.metadata import KEY
from gradskip_onnx.model_file.opening import ModelFile, open_model_file
from gradskip_onnx.model_file.wire_format import BYTES, MODEL_GRAPH, MalformedError, fields_of

MODEL_METADATA = 14  # field number in onnx.proto
# WebAssembly has 4 GiB of memory, in which the file, its weights once more and what is computed must fit.
LARGEST_MODEL = 1_000_000_000  # bytes
SKELETON = 100_000_000  # bytes; a larger file holds its weights
NEEDED = ("method", "task", "inputs", "outputs", "preprocessing", "image_size")


@dataclass(frozen=True, slots=True, eq=False)
class BuiltFile:
    """A model file with its description; `built` is what its maker says of the maps in it."""

    file: ModelFile
    built: dict[str, Any]
    labels: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return int(self.file.data.size)


def is_built(path: Path) -> bool:
    """Whether a file says that it explains itself; raises ModelError if it cannot be opened."""
    return "built" in _document(open_model_file(path))


def read_built_file(path: Path) -> BuiltFile:
    """The file; raises InputError for one that does not explain itself, or not as a page needs it."""
    file = open_model_file(path)
    document = _document(file)
    built = document.get("built")
    if not isinstance(built, dict):
        raise InputError(f"{file.name} does not explain itself; `gradskip-onnx build` makes a file that does")
    missing = [name for name in NEEDED if name not in built]
    if missing:
        raise InputError(f"{file.name}: its description lacks {missing[0]!r}; build it again with this version")
    if built["preprocessing"] == "outside":
        if document.get("preprocess") is None:
            raise InputError(
                f"{file.name} does not say how images are prepared; build it again with --preset or --mean"
            )
        Preprocess.from_dict(document["preprocess"])  # raises for settings that cannot be used
    return BuiltFile(_in_one_piece(file), built, tuple(str(label) for label in document.get("labels") or ()))


def _in_one_piece(file: ModelFile) -> ModelFile:
    """The file with the weights that lie beside it, which a browser could not find."""
    if file.data.size > SKELETON or file.folder is None:
        return file
    model = onnx.ModelProto.FromString(file.data.tobytes())
    if not any(lies_elsewhere(tensor) for tensor in model.graph.initializer):
        return file
    check_size(weight_bytes(model), file.name)
    onnx.load_external_data_for_model(model, str(file.folder))
    return replace(open_model_file(model.SerializeToString()), name=file.name)


def check_size(size: int, name: str) -> None:
    """Raise InputError for a model that a browser cannot hold."""
    if size > LARGEST_MODEL:
        raise InputError(
            f"{name} has {size / 1e6:,.0f} MB, a browser holds at most {LARGEST_MODEL / 1e6:,.0f} MB; "
            "a smaller or an fp16 model fits"
        )


def _document(file: ModelFile) -> dict[str, Any]:
    """The description in the metadata, without parsing the graph; empty where there is none of ours."""
    try:
        fields = list(fields_of(file.data, 0, len(file.data)))
        entries = [field for field in fields if (field.number, field.kind) == (MODEL_METADATA, BYTES)]
        for field in entries:
            entry = onnx.StringStringEntryProto.FromString(file.data[field.value : field.stop].tobytes())
            if entry.key == KEY:
                document = json.loads(entry.value)
                return document if isinstance(document, dict) else {}
    except (MalformedError, DecodeError, ValueError, RecursionError):
        return {}
    if not any(field.number == MODEL_GRAPH for field in fields):
        raise InputError(f"{file.name} is no ONNX model")
    return {}
