"""Writes a model repository for Triton Inference Server, or KServe, around a file of `gradskip-onnx build`.

    python make_repository.py explained.onnx repository [--name explained]

Needs ONNX Runtime alone. Inputs with a default value, such as the class to explain, become optional ones; Triton takes
those from models that it does not batch by itself, which therefore state their batch as an axis (`max_batch_size: 0`).
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import onnxruntime

TYPES = {
    "tensor(float)": "TYPE_FP32",
    "tensor(float16)": "TYPE_FP16",
    "tensor(int64)": "TYPE_INT64",
    "tensor(bool)": "TYPE_BOOL",
    "tensor(uint8)": "TYPE_UINT8",
}


def tensor(kind: str, entry: onnxruntime.NodeArg, *, optional: bool = False) -> str:
    """One input or output; axes of any size are -1, and a scalar becomes an axis of one."""
    dims = ", ".join(str(size) if isinstance(size, int) else "-1" for size in entry.shape)
    lines = [f'  name: "{entry.name}"', f"  data_type: {TYPES[entry.type]}", f"  dims: [ {dims or 1} ]"]
    lines += ["  reshape { shape: [ ] }"] if not dims else []
    lines += ["  optional: true"] if optional else []
    return "\n".join([f"{kind} {{", *lines, "}"])


def config(path: Path, name: str) -> str:
    """The text of config.pbtxt."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    parts = [f'name: "{name}"\nbackend: "onnxruntime"\nmax_batch_size: 0']
    parts += [tensor("input", entry) for entry in session.get_inputs()]
    parts += [tensor("input", entry, optional=True) for entry in session.get_overridable_initializers()]
    parts += [tensor("output", entry) for entry in session.get_outputs()]
    return "\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("repository", type=Path)
    parser.add_argument("--name", default="explained", help="of the model on the server")
    arguments = parser.parse_args()
    text = config(arguments.model, arguments.name)
    folder = arguments.repository / arguments.name
    (folder / "1").mkdir(parents=True, exist_ok=True)
    (folder / "config.pbtxt").write_text(text, encoding="utf-8")
    shutil.copyfile(arguments.model, folder / "1" / "model.onnx")
    weights = arguments.model.with_name(f"{arguments.model.name}.data")  # of a model that one file cannot hold
    if weights.exists():
        shutil.copyfile(weights, folder / "1" / weights.name)
    print(folder)


if __name__ == "__main__":
    main()
