"""What is measured in processes of their own: peak memory, and the time from the shell to a map."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from .cases import Case

SCRIPT = """
import sys, resource, json
import numpy as np, torch
from benchmarks.speed.cases import Case
from gradskip_onnx.exporters import load
from gradskip_onnx.types import Architecture
import pickle
torch.set_num_threads(int(sys.argv[3]))
case, architecture = pickle.load(open(sys.argv[1], "rb"))
from benchmarks.speed.torch_gradskip import TorchGradSkip
model = load(case.request)
pixels = torch.from_numpy(np.load(sys.argv[2]))
TorchGradSkip(model.module, model.blocks, architecture)(pixels)
print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))
"""


def seconds_and_megabytes(command: list[str]) -> tuple[float, float]:
    """Wall time and peak memory of one command."""
    began = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, errors = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{command[:3]} failed: {errors.decode()[-500:]}")
    peak = max(before, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
    return time.perf_counter() - began, peak / 1024


def apart(case: Case, file: Path, folder: Path, threads: int) -> dict[str, tuple[float, float]]:
    """By name (seconds, megabytes); each command runs in a process that starts another, so that peaks do not mix."""
    import pickle

    import numpy as np
    from PIL import Image

    from gradskip_onnx import api

    architecture = api.inspect(file)
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (256, 256, 3), dtype=np.uint8)).save(folder / "image.png")
    np.save(folder / "image.npy", rng.standard_normal((1, *architecture.input_dims)).astype(np.float32))
    (folder / "case.pickle").write_bytes(pickle.dumps((case, architecture)))
    ours = [sys.executable, "-m", "gradskip_onnx.cli", "explain", str(file), str(folder / "image.png"), "--method",
            "gradskip", "--threads", str(threads), "-q", "-o", str(folder / "out")]  # fmt: skip
    theirs = [sys.executable, "-c", SCRIPT, str(folder / "case.pickle"), str(folder / "image.npy"), str(threads)]
    return {name: _in_its_own_process(command) for name, command in {"ours": ours, "PyTorch": theirs}.items()}


def _in_its_own_process(command: list[str]) -> tuple[float, float]:
    code = (
        f"import json; from benchmarks.speed.apart import seconds_and_megabytes as f; print(json.dumps(f({command!r})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-1000:])
    seconds, megabytes = json.loads(done.stdout)
    return float(seconds), float(megabytes)
