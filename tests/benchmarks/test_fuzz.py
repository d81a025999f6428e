"""The fuzzers: verdicts are right, mutants repeat, workers are watched, and a slice of all cases shows no new fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

from benchmarks.fuzz import page, watch
from benchmarks.fuzz.campaign import FAULTS, FILES, campaign, fault_class, latest
from benchmarks.fuzz.case import Answer, Case, Outcome, Trial
from benchmarks.fuzz.judge import FAULTS as CHECKS
from benchmarks.fuzz.judge import judge
from benchmarks.fuzz.kinds import KINDS, cases, counts

ROOT = Path(__file__).parent.parent.parent
SLICE = {"models": len(KINDS["models"].rows), "images": 20, "settings": len(KINDS["settings"].rows), "cache": 20}
SECONDS = 12.0  # no file here weighs more than 2 MB

# Faults of the slice that are known and not mended yet: class -> why. A fault that is not listed fails the test.
KNOWN: dict[str, str] = {}

ANSWER = Answer("aa", {0: 2.0, 1: -1.0}, np.ones((4, 4)))
OTHER = replace(ANSWER, map=ANSWER.map + 0.001)
FINE = Outcome(0, "{}", "", answer=ANSWER)
REFUSED = Outcome(2, "", "error: no such file\n")
PLAIN = Trial("nothing")
SAME = replace(PLAIN, expect="same", reference=ANSWER)

VERDICTS: tuple[tuple[str, Trial, Outcome], ...] = (
    ("ok", PLAIN, FINE),
    ("ok", SAME, FINE),
    ("ok", SAME, replace(FINE, answer=replace(ANSWER, map=ANSWER.map + 1e-6))),
    ("ok", replace(SAME, expect="changed"), replace(FINE, answer=replace(OTHER, sha256="bb"))),
    ("ok", PLAIN, replace(FINE, stderr="warning: assumed\n")),
    ("refused", PLAIN, REFUSED),
    ("refused", PLAIN, Outcome(2, "", "Usage: x\nTry 'x --help' for help.\n\nError: No such option: --y\n")),
    ("refused", SAME, replace(REFUSED, runtime_refuses="two nodes of one name")),
    ("refused", PLAIN, Outcome(6, "", "error: a.png: broken\nerror: 1 of 2 images failed\n")),
    ("traceback", PLAIN, replace(REFUSED, code=1, place="KeyError in graph/load.py:load")),
    ("exit 1", PLAIN, Outcome(1, "", "error: unforeseen\n")),
    ("memory", PLAIN, replace(FINE, megabytes=2500.0)),
    ("noise", PLAIN, replace(REFUSED, noise="\x1b[1;31m[E:onnxruntime:] failed\x1b[m")),
    ("noise", PLAIN, replace(FINE, stderr="x.py:3: RuntimeWarning: overflow\n")),
    ("escapes", PLAIN, replace(REFUSED, stderr="error: \x1b[31m\n")),
    ("message", PLAIN, replace(REFUSED, stderr="")),
    ("message", PLAIN, replace(REFUSED, stderr="error: a\nerror: b\n")),
    ("map-for-refused", PLAIN, replace(FINE, runtime_refuses="duplicate initialiser")),
    ("not-finite", PLAIN, replace(FINE, answer=replace(ANSWER, map=np.full((2, 2), np.nan)))),
    ("hash-same", replace(SAME, expect="changed"), replace(FINE, answer=OTHER)),
    ("equal-refused", SAME, REFUSED),
    ("map-differs", SAME, replace(FINE, answer=OTHER)),
    ("map-differs", SAME, replace(FINE, answer=replace(ANSWER, logits={0: 2.1, 1: -1.0}))),
    ("map-differs", SAME, replace(FINE, answer=replace(ANSWER, logits={0: 2.0, 3: -1.0}))),
)


@pytest.mark.parametrize(("expected", "trial", "seen"), VERDICTS)
def test_verdicts(expected: str, trial: Trial, seen: Outcome):
    assert judge(trial, seen).outcome == expected


def test_every_fault_has_a_verdict_and_a_meaning():
    assert {expected for expected, _, _ in VERDICTS} >= set(CHECKS)
    assert set(page.CLASSES) == set(page.WORDS)


def test_counts_are_those_promised():
    assert counts(10_000) == {"models": 10_000, "images": 1000, "settings": 1000, "cache": 500}
    assert len(cases({"models": 30, "cache": 5}, 0)) == 35


DIGESTS = """
import hashlib, os, sys, tempfile
from pathlib import Path
from benchmarks.fuzz.case import Answer, Outcome, Scene
from benchmarks.fuzz.kinds import KINDS, cases
for case in cases({"models": 150, "images": 40, "settings": 40}, 3):
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        scene = Scene(Path(place), case.rng(), lambda words: Outcome(0, "", ""), lambda name: None)
        trial = KINDS[case.kind].rows[KINDS[case.kind].row(case.number)](scene)
        digest = hashlib.sha256(repr((trial.what, trial.arguments)).encode())
        for path in sorted(Path(place).iterdir()):
            digest.update(ascii(path.name).encode())
            digest.update(path.read_bytes() if path.is_file() and path.stat().st_size < 1 << 24 else b"")
        os.chdir("/")
        print(case.name, digest.hexdigest())
"""


@pytest.mark.slow
def test_a_number_gives_the_same_mutant_in_any_process():
    """Sets and hashes differ between processes; mutants must not."""
    found = [
        subprocess.run(
            [sys.executable, "-c", DIGESTS], env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, check=True, cwd=ROOT,
        ).stdout.splitlines()
        for seed in ("1", "2")
    ]  # fmt: skip

    assert found[0] == found[1]
    assert len({line.split()[1] for line in found[0]}) > 180  # of 230; some tables are short and repeat themselves


def misbehave(line: Connection, scratch: Path) -> None:  # noqa: ARG001 (the signature of a worker)
    """A worker that hangs, grows or dies, by the number of the case."""
    line.send(("ready", {}))
    while (case := line.recv()) is not None:
        line.send(("trial", {"what": f"number {case.number}"}))
        match case.number:
            case 1:
                time.sleep(600)
            case 2:
                held = np.ones(400 << 20, np.uint8)
                time.sleep(600 + held[0])
            case 3:
                os._exit(7)
        line.send(("done", {"outcome": "ok", "detail": ""}))


@pytest.mark.slow
def test_workers_that_hang_grow_or_die_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(watch, "MEGABYTES", 200.0)
    numbered = [Case("models", number) for number in range(6)]
    found = {case.number: facts for case, facts in watch.run(numbered, tmp_path, 2, 4.0, misbehave)}

    assert {n: facts["outcome"] for n, facts in found.items()} == {
        0: "ok", 1: "hang", 2: "memory", 3: "crash", 4: "ok", 5: "ok",
    }  # fmt: skip
    assert found[1]["what"] == "number 1"


@pytest.mark.slow
def test_a_stopped_run_goes_on(tmp_path: Path):
    chosen = cases({"settings": 6}, 1)
    stopped = campaign(chosen, tmp_path, workers=1)
    first = [next(stopped)["key"] for _ in range(2)]
    stopped.close()
    rest = [record["key"] for record in campaign(chosen, tmp_path, workers=1)]

    assert sorted(first + rest) == sorted(case.key for case in chosen)
    assert list(campaign(chosen, tmp_path, workers=1)) == []


def test_the_page_holds_counts_command_and_examples():
    records = [
        {"kind": "models", "number": 4, "seed": 7, "row": "cycle", "outcome": "traceback", "error": "traceback"},
        {"kind": "models", "number": 5, "seed": 7, "row": "cycle", "outcome": "refused"},
        {"kind": "cache", "number": 0, "seed": 7, "row": "cut short", "outcome": "ok"},
    ]
    text = page.put_into("# Title\n\nWords.\n", page.render(records))
    again = page.put_into(text, page.render(records[1:]))

    assert "python -m benchmarks.fuzz --count 2 --seed 7" in text
    assert "| traceback | an exception that nobody caught | 1 | 0 |" in text
    assert "`models:4`, cycle" in text
    assert "No faults." in again
    assert again.startswith("# Title\n\nWords.\n")
    assert again.count(page.BEGIN) == again.count(page.END) == 1


@pytest.mark.slow
def test_no_new_faults(tmp_path: Path):
    """Every mutation of models once, and some of each other kind."""
    list(campaign(cases(SLICE, 0), tmp_path, workers=2, seconds=SECONDS))
    records = latest(tmp_path).values()
    faults = {fault_class(record): record for record in records if "error" in record}
    listed = [json.loads(line) for line in (tmp_path / FAULTS).read_text().splitlines()]
    new = {name: record for name, record in faults.items() if name not in KNOWN}

    assert len(records) == sum(SLICE.values())
    assert {record["key"] for record in listed} == {record["key"] for record in records if "error" in record}
    assert all((tmp_path / FILES / f"{record['kind']}-{record['number']}").is_dir() for record in listed)
    assert new == {}, "\n".join(f"{r['kind']}:{r['number']} {name}: {r.get('detail', '')}" for name, r in new.items())
