"""The verdict on a case: the first fault of a table that holds, else ok or refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePath

import numpy as np

from .case import Outcome, Trial, Verdict

REFUSALS = (2, 3, 4, 5, 6)
SOME_FAILED = 6
TOLERANCE = 1e-4  # of the largest number: float32 sums in another order
MEGABYTES = 2000.0  # beyond what the process held before the call

# Lines that may stand on standard error: our own, and click's about wrong usage.
OWN_LINE = re.compile(r"(error: |warning: |Error: |Usage: |Try ').*")
ERROR_LINE = re.compile(r"[eE]rror: ")

Check = Callable[[Trial, Outcome], str]  # what is wrong, or nothing


def traceback(_: Trial, seen: Outcome) -> str:
    return seen.place


def exit_code(_: Trial, seen: Outcome) -> str:
    return "" if seen.code in (0, *REFUSALS) else f"exit {seen.code}: {seen.stderr[-200:]}"


def memory(_: Trial, seen: Outcome) -> str:
    return f"{seen.megabytes:.0f} MB" if seen.megabytes > MEGABYTES else ""


def escapes(_: Trial, seen: Outcome) -> str:
    text = seen.stdout + seen.stderr
    found = {c for c in text if not c.isprintable() and c not in "\n\t"}
    return f"characters {sorted(found)}" if found else ""


def noise(trial: Trial, seen: Outcome) -> str:
    """What ONNX Runtime or a library wrote past us; with --verbose our own details have no mark."""
    lines = [line for line in seen.stderr.splitlines() if line.strip() and not OWN_LINE.match(line)]
    return seen.noise[:200] or ("" if "-v" in trial.arguments else " / ".join(lines)[:200])


def message(_: Trial, seen: Outcome) -> str:
    """A refusal is one line; a run over several images has one for each that failed, and one for all."""
    count = sum(bool(ERROR_LINE.match(line)) for line in seen.stderr.splitlines())
    right = count == 0 if seen.code == 0 else count >= 1 if seen.code == SOME_FAILED else count == 1
    return "" if right else f"exit {seen.code} with {count} error lines: {seen.stderr[-200:]}"


def map_for_refused(trial: Trial, seen: Outcome) -> str:
    """A file that means the same is explained even where ONNX Runtime minds its names (nodes that are named alike)."""
    return seen.runtime_refuses if seen.answer and trial.expect != "same" else ""


def not_finite(_: Trial, seen: Outcome) -> str:
    return "" if seen.answer is None or np.isfinite(seen.answer.map).all() else "NaN or infinity in the map"


def hash_same(trial: Trial, seen: Outcome) -> str:
    known = trial.reference
    if trial.expect != "changed" or known is None or seen.answer is None:
        return ""
    return f"sha256 {known.sha256[:12]} as before" if seen.answer.sha256 == known.sha256 else ""


def equal_refused(trial: Trial, seen: Outcome) -> str:
    """What ONNX Runtime refuses may be refused, even if it means the same."""
    wrong = trial.expect == "same" and trial.reference is not None and seen.answer is None and not seen.runtime_refuses
    return f"exit {seen.code}: {seen.stderr[-200:]}" if wrong else ""


def map_differs(trial: Trial, seen: Outcome) -> str:
    known, now = trial.reference, seen.answer
    if trial.expect != "same" or known is None or now is None:
        return ""
    if known.logits.keys() != now.logits.keys():
        return f"classes {sorted(known.logits)} and {sorted(now.logits)}"
    logits = [np.array([answer.logits[index] for index in known.logits]) for answer in (known, now)]
    far = {"logits": _distance(*logits), "map": _distance(known.map, now.map)}
    return ", ".join(f"{name} differ by {apart:.1e} of the largest" for name, apart in far.items() if apart > TOLERANCE)


def _distance(known: np.ndarray, now: np.ndarray) -> float:
    if known.shape != now.shape:
        return np.inf
    return float(np.abs(known - now).max() / max(float(np.abs(known).max()), 1e-30))


FAULTS: dict[str, Check] = {
    "traceback": traceback,
    "exit 1": exit_code,
    "memory": memory,
    "noise": noise,
    "escapes": escapes,
    "message": message,
    "map-for-refused": map_for_refused,
    "not-finite": not_finite,
    "hash-same": hash_same,
    "equal-refused": equal_refused,
    "map-differs": map_differs,
}
# Found by the process that watches: the worker did not answer in time, took too much memory, or died.
WATCHED = ("hang", "memory", "crash")


def judge(trial: Trial, seen: Outcome) -> Verdict:
    for name, check in FAULTS.items():
        if detail := check(trial, seen):
            return Verdict(name, detail)
    return Verdict("refused", seen.stderr.strip()[-200:]) if seen.code else Verdict("ok")


def place_of(error: BaseException) -> str:
    """Where an exception came from: its type, and the innermost frame of our own code."""
    frame, found = error.__traceback__, "?"
    while frame is not None:
        code = frame.tb_frame.f_code
        parts = PurePath(code.co_filename).parts
        if "gradskip_onnx" in parts or "cli" in parts:
            found = f"{'/'.join(parts[-3:])}:{code.co_name}"
        frame = frame.tb_next
    return f"{type(error).__name__} in {found}: {str(error)[:120]!r}"
