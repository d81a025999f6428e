"""Odd values of options, and commands that make no sense."""

from __future__ import annotations

import os

import numpy as np

from .case import EXPLAIN, IMAGE, MODEL, Mutator, Scene, Trial, pick
from .settings import set_scene

ODD = (
    "", "-1", "0", "1e309", "nan", "inf", "9" * 400, "2147483648", "\x1b[31m", "x" * 5000, "💥", "\udcff", "-", "0.5",
)  # fmt: skip
OPTIONS: dict[str, tuple[str, ...]] = {
    "--target": (*ODD, "top5", "top0", "top99999", "99999999", "class 1", "predicted"),
    "--score": (*ODD, "probability"),
    "--method": (*ODD, "gradskip", "rollout", "GRADSKIP"),
    "--alpha": ODD,
    "--gamma": ODD,
    "-O": (*ODD, "a=b", "share=nan", "agree=-1", "first=99999999999999999999", "last=-5", "="),
    "--batch-size": (*ODD, "1024", "1025"),
    "--preset": (*ODD, "none"),
    "--size": (*ODD, "99999", "1", "99999x1", "16384", "224x", "x", "32,32", "٣٢"),
    "--crop": (*ODD, "1e-9", "2", "1e9"),
    "--labels": (*ODD, "/dev/null"),
    "--device": (*ODD, "cuda", "cuda:999", "cpu", "cuda:-1"),
    "--threads": (*ODD, "2147483647", "10000", "99999999999"),
    "-o": (*ODD, "/dev/null", "/dev/full", IMAGE, MODEL, "a/" * 2000, "/proc/x", ".", "y" * 300),
    "--region": (*ODD, "1,1", IMAGE),
}  # fmt: skip
TRIPLES = ("--mean", "--std")


def _odd(rng: np.random.Generator, name: str) -> list[str]:
    return [name, *([pick(rng, ODD)] * 3 if name in TRIPLES else [pick(rng, OPTIONS[name])])]


def one_option(name: str) -> Mutator:
    """A row that gives one option an odd value; of an option that is given twice the last counts."""

    def trial(scene: Scene) -> Trial:
        set_scene(scene)
        words = _odd(scene.rng, name)
        return Trial(" ".join(word[:20] for word in words), (*EXPLAIN, *words))

    return trial


def several_options(scene: Scene) -> Trial:
    """Two or three options with odd values."""
    set_scene(scene)
    names = [pick(scene.rng, (*OPTIONS, *TRIPLES)) for _ in range(int(scene.rng.integers(2, 4)))]
    words = [word for name in names for word in _odd(scene.rng, name)]
    return Trial(" ".join(word[:20] for word in words), (*EXPLAIN, *words))


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("inspect",), ("inspect", IMAGE), ("inspect", ""), ("inspect", "."), ("inspect", MODEL, "--size", "99999"),
    ("inspect", "pipe"), ("explain", MODEL), ("explain", "", IMAGE), ("explain", ".", IMAGE), ("explain", IMAGE, MODEL),
    ("explain", "pipe", IMAGE), ("explain", "loop", IMAGE), ("explain", "/dev/zero", IMAGE),
    ("explain", "/dev/null", IMAGE), ("explain", "x" * 5000, IMAGE), ("explain", "\udcff", IMAGE),
    ("methods", "\x1b[31m"), ("methods", ""), ("methods", "gradskip"), ("cache", "nothing"), ("cache",), ("",),
    ("nonsense",), ("study", "no such", MODEL, "."), ("evaluate", MODEL, "missing"),
    ("evaluate", MODEL, "."),
    ("evaluate", "pipe", "."), ("evaluate", MODEL, "", "-o", "out"), ("evaluate", MODEL, "pipe", "-o", "out"),
    ("evaluate", MODEL, "folder", "--methods", "\x1b[31m", "-o", "out"),
)  # fmt: skip


def commands(scene: Scene) -> Trial:
    """Whole commands with arguments that make no sense."""
    set_scene(scene)
    os.mkfifo(scene.folder / "pipe")
    (scene.folder / "loop").symlink_to("loop")
    (scene.folder / "folder").mkdir()
    words = pick(scene.rng, COMMANDS)
    return Trial(" ".join(word[:20] for word in words), words)


ROWS: dict[str, Mutator] = {
    **{f"option {name}": one_option(name) for name in (*OPTIONS, *TRIPLES)},
    "several options": several_options,
    "commands": commands,
}
