"""What is measured in processes of their own: peak memory, and the time from the shell to a picture.

Our first call reads a plain file and finds what is in it; later ones may use what the first left in its cache.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .cases import Case
from .measure import Timing, quartiles

FIRST, LATER, SCRIPT = "ours, first call", "ours, later calls", "PyTorch script"
CACHE = "GRADSKIP_CACHE"


@dataclass(frozen=True, slots=True)
class Process:
    """A command from start to end: seconds, and the largest of its peaks of memory."""

    seconds: Timing
    megabytes: float


def apart(case: Case, file: Path, folder: Path, threads: int, rounds: int) -> dict[str, Process]:
    """The first call in an empty cache; then rounds of later calls and of the script, in changing order."""
    from PIL import Image

    photograph, weights = folder / "image.png", folder / f"{file.stem}.pt"
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (256, 256, 3), dtype=np.uint8)).save(photograph)
    _save_weights(case, weights)
    ours = [str(Path(sys.executable).with_name("gradskip-onnx")), "explain", str(file), str(photograph), "--method",
            "gradskip", "--threads", str(threads), "-q", "--force", "-o", str(folder / "out")]  # fmt: skip
    shape = [str(number) for number in (*case.size, case.classes)] if case.size and case.classes else []
    script = [sys.executable, "-m", f"{__package__}.torch_script", case.name, str(weights), str(photograph),
              str(folder / "out" / "torch.png"), str(threads), *shape]  # fmt: skip
    with tempfile.TemporaryDirectory() as cache:
        environment = {CACHE: cache}
        measured = {FIRST: [_in_its_own_process(ours, environment)], LATER: [], SCRIPT: []}
        commands = {LATER: ours, SCRIPT: script}
        for _ in range(rounds):
            for name in rng.permutation(list(commands)):
                measured[name].append(_in_its_own_process(commands[name], environment))
    return {
        name: Process(quartiles([seconds for seconds, _ in runs]), max(megabytes for _, megabytes in runs))
        for name, runs in measured.items()
    }


def seconds_and_megabytes(command: list[str]) -> tuple[float, float]:
    """Wall time and peak memory of one command; for a process that starts no other."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, errors = process.communicate()
    seconds = time.perf_counter() - began
    if process.returncode:
        raise RuntimeError(f"{command[:4]} failed: {errors.decode()[-500:]}")
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def _in_its_own_process(command: list[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Peaks of memory are known of all children together: each command gets a parent of its own."""
    code = f"import json; from {__name__} import seconds_and_megabytes as f; print(json.dumps(f({command!r})))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=os.environ | dict(environment)
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-1000:])
    seconds, megabytes = json.loads(done.stdout)
    return float(seconds), float(megabytes)


def _save_weights(case: Case, path: Path) -> None:
    if not path.exists():
        import torch
        from gradskip_onnx.exporters import load

        torch.save(load(case.request).module.state_dict(), path)
