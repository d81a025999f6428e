"""Kills `explain`, `evaluate` and `export` at random moments, lets them go on, and compares with undisturbed runs.

python -m benchmarks.kills --count 200 --seed 0

Each round starts a command in a new folder, kills it (SIGKILL) after a random part of the time that it takes, starts it
again in the same folder, and so on; the last start of a round is left alone. What the round leaves must be what an
undisturbed run leaves, and in between there may be no half file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gradskip_onnx.demo import demo_model
from gradskip_onnx.demo.scenes import scene

IMAGES = 4
KILLS_A_ROUND = 4  # each killed run is resumed by the next, the last by one that ends
QUICK = ("--threads", "1", "-q")
EXPORTED = ("vit_tiny_patch16_224", "--random-weights", "--size", "64")
TIMES = ("timings", "seconds")  # what differs from run to run


@dataclass(frozen=True, slots=True)
class Command:
    """A command that can be killed: its words but for the folder, and what its folder comes to."""

    name: str
    words: tuple[str, ...]
    results: Callable[[Path], dict[str, Any]]
    file: str = ""  # that it writes in the folder, where it takes a file
    share: float = 0.7  # of the time of a whole first run within which kills fall: later runs have less to do


def commands(scratch: Path) -> tuple[Command, ...]:
    """`explain` and `evaluate` on the embedded model and a few scenes; `export` of a small model, where torch is."""
    data = scratch / "data"
    data.mkdir()
    for seed in range(IMAGES):
        Image.fromarray(scene(20_000 + seed).image).save(data / f"{seed}.png")
    model = str(demo_model())
    chosen = ("--methods=gradskip,rollout", "--metrics=insertion[steps=4]", "--resamples=100", "--batch-size=1")
    return (
        Command("explain", ("explain", model, str(data), "--method", "gradskip", *QUICK), explained),
        Command("evaluate", ("evaluate", model, str(data), *chosen, *QUICK), evaluated),
        *(
            [Command("export", ("export", *EXPORTED, "--force"), exported, "model.onnx", 1.0)]
            if find_spec("timm")
            else []
        ),
    )


def start(command: Command, output: Path, cache: Path) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-P", "-m", "gradskip_onnx.cli", *command.words, "-o", str(output / command.file)]
    return subprocess.Popen(
        words, env=os.environ | {"GRADSKIP_CACHE": str(cache)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def finish(command: Command, output: Path, cache: Path) -> float:
    """Run to the end; seconds it took."""
    began = time.perf_counter()
    process = start(command, output, cache)
    said, _ = process.communicate(timeout=300)
    if process.returncode:
        raise AssertionError(f"{command.name} ended with {process.returncode}: {said.decode(errors='replace')}")
    return time.perf_counter() - began


def kill(command: Command, output: Path, cache: Path, after: float) -> bool:
    """Start, wait, kill; whether it was still running."""
    process = start(command, output, cache)
    try:
        process.communicate(timeout=after)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return True
    return False


def explained(output: Path) -> dict[str, Any]:
    """Every result that has its JSON, which is written last: map, picture and facts."""
    found: dict[str, Any] = {}
    for path in sorted(output.glob("*.json")):
        facts = without_times(json.loads(path.read_bytes()))
        np.load(path.with_suffix(".npy"), allow_pickle=False)
        found[path.stem] = (facts, path.with_suffix(".npy").read_bytes(), path.with_suffix(".png").read_bytes())
    return found


def evaluated(output: Path) -> dict[str, Any]:
    """Tables, records by key and pictures, as far as they are there."""
    found: dict[str, Any] = {path.name: path.read_bytes() for path in sorted(output.glob("pictures/*.jpg"))}
    lines = (output / "results.jsonl").read_bytes().split(b"\n") if (output / "results.jsonl").exists() else [b""]
    found |= {record["key"]: record for record in map(json.loads, lines[:-1])}  # the last may be cut
    if (output / "results.json").exists():
        found["results.json"] = without_times(json.loads((output / "results.json").read_bytes()))
    if (output / "results.csv").exists():
        found["results.csv"] = (output / "results.csv").read_bytes()
    return found


def exported(output: Path) -> dict[str, Any]:
    """The model and its weights, if they are there, each as a hash."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(output.glob("model.onnx*"))}


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(entry) for key, entry in value.items() if key not in TIMES}
    return [without_times(entry) for entry in value] if isinstance(value, list) else value


def rounds(count: int, seed: int, scratch: Path, names: Sequence[str] = ()) -> Iterator[tuple[str, int]]:
    """Yield (command, kills that hit) round by round; AssertionError names the round that left something else.

    The commands take turns: all of them, or those named.
    """
    rng, cache = random.Random(seed), scratch / "cache"
    known: dict[str, tuple[dict[str, Any], float]] = {}
    turns = [command for command in commands(scratch) if not names or command.name in names]
    for command in turns:
        seconds = finish(command, scratch / f"whole-{command.name}", cache)
        known[command.name] = command.results(scratch / f"whole-{command.name}"), seconds
    killed = number = 0
    while killed < count:
        command, number = turns[number % len(turns)], number + 1
        (expected, seconds), output = known[command.name], scratch / f"round-{number}"
        if rng.random() < 0.25:
            cache = scratch / f"cache-{number}"  # a new one, so that writing it is interrupted, too
        hits = 0
        for _ in range(min(KILLS_A_ROUND, count - killed)):
            hits += kill(command, output, cache, rng.uniform(0, command.share * seconds))
            partly = command.results(output)
            assert same(partly, expected), f"round {number}, {command.name}: half a result"
        finish(command, output, cache)
        assert same(command.results(output), expected, whole=True), f"round {number}, {command.name}: other results"
        left = [path.name for path in output.rglob("*.tmp")]
        assert not left, f"round {number}, {command.name}: {left} left behind"
        killed += hits
        yield command.name, hits


def same(found: dict[str, Any], expected: dict[str, Any], *, whole: bool = False) -> bool:
    """Whether everything found is as expected; with `whole`, whether everything expected was found."""
    equal = all(key in expected and found[key] == expected[key] for key in found)
    return equal and (not whole or found.keys() == expected.keys())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200, help="kills that hit a running command")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        totals: dict[str, list[int]] = {}
        for name, hits in rounds(asked.count, asked.seed, Path(scratch)):
            held = totals.setdefault(name, [0, 0])
            held[0] += hits
            held[1] += 1
            print(f"{sum(kills for kills, _ in totals.values())} kills", end="\r", flush=True)
    for name, (kills, many) in totals.items():
        print(f"{name}: {kills} kills in {many} rounds, all resumed; results identical")


if __name__ == "__main__":
    main()
