"""A contender in a process of its own that takes part in the rounds: asked by a line, it answers when it is done."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from gradskip_onnx.types import Array

from .cases import Case
from .torch_lrp import ANSWER


class Remote:
    """AttnLRP by lxt; calling it explains once more."""

    def __init__(self, case: Case, images: Array, threads: int) -> None:
        self._scratch = tempfile.TemporaryDirectory()
        folder = Path(self._scratch.name)
        (folder / "case").write_bytes(pickle.dumps(case))
        np.save(folder / "images.npy", images)
        module = f"{__package__}.torch_lrp"
        files = [str(folder / name) for name in ("case", "images.npy", "maps.npy")]
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *files, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / "errors").open("wb"),
            text=True,
        )
        try:
            self.seconds = self._await()  # of the first explanation
        except RuntimeError:
            self.__exit__()
            raise
        self.maps = np.load(folder / "maps.npy")

    def __call__(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self._await()

    def __enter__(self) -> Remote:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
        self._scratch.cleanup()

    def _await(self) -> float:
        assert self._process.stdout is not None
        for line in self._process.stdout:  # libraries may print lines of their own
            if line.startswith(ANSWER):
                return float(line.removeprefix(ANSWER))
        errors = (Path(self._scratch.name) / "errors").read_text(encoding="utf-8").strip().splitlines()
        raise RuntimeError(errors[-1] if errors else "the process ended without a word")
