"""Calls the command line within a process and records everything it says, also what goes past Python."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from click.testing import CliRunner

from .case import CACHE, Answer, Outcome, Trial
from .judge import place_of

LAST = 1500  # characters of a traceback worth keeping: the end says what happened
QUIET = 4  # ONNX Runtime: fatal errors only


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The command line of this process; `noise` is the file that stands in for the terminal."""

    noise: IO[bytes]

    @classmethod
    def open(cls) -> CommandLine:
        """Put a file in the place of the terminal: what libraries write there directly is part of the outcome."""
        noise = tempfile.TemporaryFile()  # noqa: SIM115 (stays open as long as the process)
        for stream in (sys.__stdout__, sys.__stderr__):
            if stream is not None:
                stream.flush()
        for number in (1, 2):
            os.dup2(noise.fileno(), number)
        return cls(noise)

    def call(self, arguments: Sequence[str]) -> Outcome:
        """`gradskip-onnx ARGUMENTS` in the working directory."""
        from gradskip_onnx.cli.main import cli

        self.noise.truncate(0)
        self.noise.seek(0)
        before = _reset_peak()
        with warnings.catch_warnings():  # each call warns anew, like a process of its own
            result = CliRunner().invoke(cli, list(arguments), env={"GRADSKIP_CACHE": str(Path.cwd() / CACHE)})
        peak = _peak() - before
        self.noise.seek(0)
        noise = self.noise.read().decode("utf-8", "backslashreplace")
        seen = Outcome(result.exit_code, result.stdout, result.stderr, noise, megabytes=peak)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            text = "".join(traceback.format_exception(result.exception))[-LAST:]
            return replace(seen, trace=text, place=place_of(result.exception))
        return replace(seen, answer=_answer(result.stdout) if result.exit_code == 0 else None)

    def tried(self, trial: Trial) -> Outcome:
        """The outcome of a trial, and whether ONNX Runtime refuses a file that was explained, or ought to be."""
        seen = self.call(trial.arguments)
        if trial.model is None or (seen.answer is None and trial.expect != "same"):
            return seen
        return replace(seen, runtime_refuses=_runtime_refuses(trial.model))


def _answer(stdout: str) -> Answer | None:
    """The answer in the JSON of one explained image, and in the map beside it."""
    try:
        document: Any = json.loads(stdout)
        logits = {entry["index"]: float(entry.get("logit", entry.get("share", 0.0))) for entry in document["top"]}
        return Answer(document["model"]["sha256"], logits, np.load(document["files"]["npy"], allow_pickle=False))
    except (ValueError, KeyError, TypeError, OSError):
        return None  # another command, several images, or no JSON asked for


def _runtime_refuses(model: str) -> str:
    """ONNX Runtime's reason for refusing a file; empty if it opens it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = QUIET
    options.intra_op_num_threads = 1
    options.enable_mem_reuse = False  # planned in time quadratic in the length of a chain
    try:
        onnxruntime.InferenceSession(
            model,
            options,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=["ConstantFolding"],  # computes what is constant, a bomb too, and keeps every step
        )
    except Exception as failure:  # noqa: BLE001 - ONNX Runtime's exceptions have no other common parent
        return " ".join(str(failure).split())[:300]
    return ""


def _reset_peak() -> float:
    """Forget the peak so far; returns the memory held now, in MB."""
    with suppress(OSError):  # not Linux, or not allowed: the peak then only grows
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> float:
    """The most memory held since the peak was forgotten, in MB; 0 where the system does not say."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0.0
    return float(status.partition("VmHWM:")[2].split()[0]) / 1024
