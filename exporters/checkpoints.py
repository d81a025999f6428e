"""Reads state dicts from files of unknown origin: tensors only, no code is run."""

from __future__ import annotations

import os
import pickle
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from gradskip_onnx.errors import InputError
from gradskip_onnx.limits import TEXT_BYTES, UNPACKED_BYTES
from gradskip_onnx.untrusted_files import open_regular, read_bounded, shortened

if TYPE_CHECKING:
    import torch

# Keys under which training scripts store the state dict.
NESTS = ("state_dict", "model", "model_state_dict", "model_ema", "module", "teacher")
PREFIXES = ("module.", "model.", "_orig_mod.")  # DataParallel, Lightning, torch.compile
ARCHIVE = b"PK\x03\x04"  # how torch tells its archives from older pickles
# What zipfile is known to raise on archives that are broken.
BROKEN_ARCHIVE = (OSError, ValueError, NotImplementedError, zipfile.BadZipFile, struct.error)
SHOWN = 3  # most names of each kind in a message


def read(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a checkpoint by name, without the keys and prefixes that training tools add."""
    if not os.path.lexists(path):
        raise InputError(f"checkpoint {shortened(path)} does not exist")
    document = _safetensors(path) if path.suffix == ".safetensors" else _pickled(path)
    return _strip(_unnest(document, path))


def _safetensors(path: Path) -> Any:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        open_regular(path).close()
        return load_file(path)
    except (SafetensorError, OSError) as failure:
        raise InputError(f"checkpoint {path} is not a sound safetensors file: {failure}") from failure


def _pickled(path: Path) -> Any:
    import torch

    try:
        with open_regular(path) as stream:
            require_no_bomb(stream, path)
            return torch.load(stream, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as refused:
        raise InputError(
            f"checkpoint {path} holds more than tensors and was refused, because loading it could run code; "
            "save its state_dict alone, or as safetensors"
        ) from refused
    except (*BROKEN_ARCHIVE, EOFError, RuntimeError, KeyError) as failure:
        reason = (str(failure).strip() or type(failure).__name__).splitlines()[0][:160]
        raise InputError(f"checkpoint {path} cannot be read: {reason}") from failure


def require_no_bomb(stream: BinaryIO, path: Path) -> None:
    """Raise InputError for an archive whose entries hold much more than its file; the stream is at its start again."""
    if stream.read(len(ARCHIVE)) == ARCHIVE:
        with zipfile.ZipFile(stream) as archive:
            held = sum(entry.file_size for entry in archive.infolist())
        more = held - os.fstat(stream.fileno()).st_size
        if more > UNPACKED_BYTES.amount:
            raise InputError(
                f"checkpoint {path} holds {more:,} bytes more than its file has, limit {UNPACKED_BYTES.amount:,}; "
                f"torch does not compress; if the file is to be trusted, raise it by {UNPACKED_BYTES.variable}"
            )
    stream.seek(0)


def require_no_bombs(folder: Path) -> None:
    """`require_no_bomb` for every pickle in a folder of transformers; its texts must be small, too."""
    for path in sorted(folder.glob("*.bin")):
        try:
            with open_regular(path) as stream:
                require_no_bomb(stream, path)
        except BROKEN_ARCHIVE as failure:
            raise InputError(f"checkpoint {path} cannot be read: {failure}") from failure
    for path in sorted(folder.glob("*.json")):
        read_bounded(path, TEXT_BYTES)


def _unnest(document: Any, path: Path) -> dict[str, torch.Tensor]:
    """The innermost mapping of names to tensors."""
    import torch

    for _ in NESTS:
        if not isinstance(document, Mapping):
            break
        tensors = {str(name): value for name, value in document.items() if isinstance(value, torch.Tensor)}
        inner = next((document[key] for key in NESTS if isinstance(document.get(key), Mapping)), None)
        if inner is None:
            if tensors:
                return tensors
            break
        document = inner
    raise InputError(f"checkpoint {path} holds no state dict; expected tensors by name, or under {', '.join(NESTS)}")


def _strip(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Remove the prefixes that all names have."""
    common = next((prefix for prefix in PREFIXES if all(name.startswith(prefix) for name in state)), None)
    if common is None:
        return state
    return _strip({name.removeprefix(common): value for name, value in state.items()})


def fit(module: torch.nn.Module, state: Mapping[str, torch.Tensor], path: Path, model: str) -> None:
    """Load `state` into `module`; every name and shape must agree."""
    expected = module.state_dict()
    reshaped = [
        f"{name} is {tuple(state[name].shape)}, expected {tuple(expected[name].shape)}"
        for name in expected
        if name in state and state[name].shape != expected[name].shape
    ]
    missing, unexpected = [n for n in expected if n not in state], [n for n in state if n not in expected]
    require_match(path, model, missing, unexpected, reshaped)
    module.load_state_dict(dict(state), strict=True)


def require_match(
    path: Path, model: str, missing: Sequence[str], unexpected: Sequence[str], reshaped: Sequence[str]
) -> None:
    """Raise InputError with all differences between a checkpoint and a model, if there are any."""
    kinds = (("missing", missing), ("unexpected", unexpected), ("wrong shape", reshaped))
    parts = [
        f"{kind}: {', '.join(names[:SHOWN])}" + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
        for kind, names in kinds
        if names
    ]
    if parts:
        hint = "is it another model, or another number of classes (--classes) or size (--size)?"
        raise InputError(f"checkpoint {path} does not fit {model}: {'; '.join(parts)}; {hint}")
