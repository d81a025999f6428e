"""Damaged and forged entries of the cache: what is damaged must not matter, what is forged must not crash."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gradskip_onnx.cache.folder import DIGEST, ENDING

from .case import CACHE, EXPLAIN, Expect, Mutator, Scene, Trial, pick
from .model_table import write
from .seeds import model_bytes
from .settings import nested, raw_json

ROWS: dict[str, Mutator] = {}
Draw = np.random.Generator
ODD: tuple[Any, ...] = (
    None, -1, 0, 2**70, 1e300, "", "\x1b[31m", "../../etc/passwd", [], {}, [[]], True, "x" * 1000,
)  # fmt: skip
Damage = Callable[[Path, Draw], str]  # of one entry


def row(name: str, expect: Expect) -> Callable[[Damage], Damage]:
    """A row that damages one or all entries that a first call left."""

    def register(damage: Damage) -> Damage:
        def trial(scene: Scene) -> Trial:
            seed = pick(scene.rng, ("vit", "vit-pooled", "segmenter"))
            write(scene, model_bytes(seed))
            first = scene.call(EXPLAIN).answer
            entries = sorted((scene.folder / CACHE).glob(f"*{ENDING}"), key=lambda path: path.stat().st_size)
            chosen = entries if scene.rng.random() < 0.3 else [pick(scene.rng, entries)]
            what = [damage(path, scene.rng) for path in chosen]
            return Trial(f"{seed}: {'; '.join(what)}", (*EXPLAIN, "--force"), None, expect, first)

        ROWS[name] = trial
        return damage

    return register


def sealed(data: bytes) -> bytes:
    """Data with the checksum that makes an entry believed."""
    return hashlib.sha256(data).digest() + data


@row("flipped bits", "same")
def flipped(path: Path, rng: Draw) -> str:
    data = np.frombuffer(path.read_bytes(), np.uint8).copy()
    places = rng.integers(0, len(data), int(pick(rng, (1, 5, 50))))
    data[places[0]] ^= 1 << int(rng.integers(8))
    data[places[1:]] = 0
    path.write_bytes(data.tobytes())
    return f"{len(places)} places, the first byte {places[0]}"


@row("cut short", "same")
def cut(path: Path, rng: Draw) -> str:
    data = path.read_bytes()
    length = int(pick(rng, (0, 1, DIGEST - 1, DIGEST, int(rng.integers(len(data))))))
    path.write_bytes(data[:length])
    return f"{length} of {len(data)} bytes"


@row("not a file", "same")
def not_a_file(path: Path, rng: Draw) -> str:
    what = pick(rng, ("pipe", "folder", "loop", "/dev/zero", "/dev/null", "dangling", "huge"))
    path.unlink()
    match what:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "loop":
            path.symlink_to(path.name)
        case "huge":
            with path.open("wb") as stream:
                stream.truncate(6 << 30)  # sparse: takes no room on the disk
        case _:
            path.symlink_to(what)
    return what


@row("no rights", "same")
def no_rights(path: Path, rng: Draw) -> str:
    mode = int(pick(rng, (0o000, 0o200, 0o444)))
    path.chmod(mode)
    return f"mode {mode:o}"


@row("empty but sealed", "same")
def empty(path: Path, rng: Draw) -> str:
    data = pick(rng, (b"", b"\n", b"null", b"[]", b"{}", b"[[],[]]\n", b"[null,null]\n"))
    path.write_bytes(sealed(data))
    return f"{data!r}"


@row("forged: deep or random JSON", "any")
def forged_json(path: Path, rng: Draw) -> str:
    text = nested(rng) if rng.random() < 0.4 else raw_json(rng)
    path.write_bytes(sealed(text.encode("utf-8", "replace") + pick(rng, (b"", b"\n", b"\n" + rng.bytes(100)))))
    return f"{text[:40]!r}"


@row("forged: one value of the header", "any")
def forged_value(path: Path, rng: Draw) -> str:
    head, newline, rest = path.read_bytes()[DIGEST:].partition(b"\n")
    document = json.loads(head)
    leaves = list(_leaves(document))
    holder, key = pick(rng, leaves)
    odd: Any = pick(rng, ODD)
    was, holder[key] = holder[key], odd
    path.write_bytes(sealed(json.dumps(document).encode() + newline + rest))
    return f"{key!r} from {str(was)[:30]!r} to {str(odd)[:30]!r}"


def _leaves(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a JSON document that holds no further places, as its holder and key."""
    found: list[tuple[Any, Any]] = []
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        deeper = _leaves(inner)
        found += deeper or [(value, key)]
    return found


@row("forged: another graph", "any")
def forged_graph(path: Path, rng: Draw) -> str:
    head, newline, _ = path.read_bytes()[DIGEST:].partition(b"\n")
    name = pick(rng, ("vit", "segmenter", "demo"))
    data = model_bytes(name)
    data = data if rng.random() < 0.6 else data[: int(rng.integers(len(data)))]
    path.write_bytes(sealed(head + (newline or b"\n") + data))
    return f"the graph of {name}, {len(data)} bytes"


@row("forged: entries exchanged", "any")
def exchanged(path: Path, rng: Draw) -> str:
    others = sorted(entry for entry in path.parent.glob(f"*{ENDING}") if entry != path)
    other = pick(rng, others)
    mine, theirs = path.read_bytes(), other.read_bytes()
    path.write_bytes(theirs)
    other.write_bytes(mine)
    return "two entries exchanged"


@row("open to others", "same")
def open_folder(path: Path, rng: Draw) -> str:
    mode = int(pick(rng, (0o777, 0o770, 0o1777, 0o500)))
    path.parent.chmod(mode)
    return f"folder of mode {mode:o}"
