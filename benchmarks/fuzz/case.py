"""What a case is: its number, the scene a mutator sets, the call that is tried, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np

from gradskip_onnx.types import Array

T = TypeVar("T")
Expect = Literal["any", "same", "changed"]  # of an answer, beside the reference: nothing, equal, another hash

MODEL, IMAGE, OUTPUT = "model.onnx", "image.png", "out"
CACHE = "cache"  # folder of the case that serves as the cache
SETTINGS = ("--preset", "half", "--crop", "1", "--threads", "1", "--json", "-o", OUTPUT)
EXPLAIN = ("explain", MODEL, IMAGE, *SETTINGS)


@dataclass(frozen=True, slots=True)
class Case:
    """A number of a kind; with the seed it decides the mutant, on any machine."""

    kind: str
    number: int
    seed: int = 0

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.number}"

    @property
    def key(self) -> str:
        return f"{self.seed}/{self.name}"

    def rng(self) -> np.random.Generator:
        return np.random.default_rng([self.seed, *self.kind.encode(), self.number])


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What a call of `explain` says: the hash of the model, its logits by class, and the map."""

    sha256: str
    logits: dict[int, float]
    map: Array  # (H, W)


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """A call of the command line in the folder of the case."""

    what: str  # the mutation in words
    arguments: tuple[str, ...] = EXPLAIN
    model: str | None = None  # a file that must not be explained if ONNX Runtime refuses it
    expect: Expect = "any"
    reference: Answer | None = None  # what `expect` compares with


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What came of a call."""

    code: int
    stdout: str
    stderr: str
    noise: str = ""  # written to the terminal past Python, as ONNX Runtime's log is
    trace: str = ""  # of an exception that nobody caught
    place: str = ""  # of that exception: type, file and function
    megabytes: float = 0.0  # peak beyond what the process held before
    answer: Answer | None = None
    runtime_refuses: str = ""  # what ONNX Runtime says about the file, if it refuses it


@dataclass(frozen=True, slots=True)
class Scene:
    """Where a mutator works: an empty folder (the working directory), a random generator, and the command line."""

    folder: Path
    rng: np.random.Generator
    call: Callable[[Sequence[str]], Outcome]
    seed_answer: Callable[[str], Answer]  # of an unchanged model, by its name in seeds.MODELS


@dataclass(frozen=True, slots=True)
class Verdict:
    """`outcome` is ok, refused or the class of a fault; `detail` says what was seen."""

    outcome: str
    detail: str = ""

    @property
    def fault(self) -> bool:
        return self.outcome not in ("ok", "refused")


Mutator = Callable[[Scene], Trial]


def pick(rng: np.random.Generator, items: Sequence[T]) -> T:
    """One of the items."""
    return items[int(rng.integers(len(items)))]
