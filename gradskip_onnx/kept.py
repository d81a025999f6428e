"""What is kept of a model between calls: what was found in it, and its graphs as they were instrumented.

Keys hold the content of the file, the code that read it and what was asked. Weights are not kept: their file has them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from .cache import Cache
from .mapped import Place, place_of
from .notes import Notes
from .records import dump, from_json, to_json
from .repeats import Request
from .types import EMPTY, Architecture, Instrumented, Plan, TensorFact

FORMAT = 1
LIBRARIES = ("onnx", "onnx-graphsurgeon", "onnxruntime", "onnxruntime-gpu")  # a plan may depend on each


@dataclass(frozen=True, slots=True)
class Portrait:
    """What was found in a file."""

    sha256: str
    architecture: Architecture
    image: TensorFact
    scores: TensorFact
    notes: Notes
    others: tuple[str, ...] = ()  # weight files beside the model


@dataclass(frozen=True, slots=True)
class Graph:
    """An instrumented model: how to ask it, its bytes, and the places of the weights that are not among them."""

    plan: Plan
    places: tuple[Place, ...]
    model: bytes = b""

    @classmethod
    def of(cls, built: Instrumented) -> Graph:
        plan = Plan(**{entry.name: getattr(built, entry.name) for entry in fields(Plan)})
        stored = built.model.graph.initializer
        places = tuple(place for tensor in stored if (place := place_of(tensor)) is not None)
        return cls(plan, places, built.model.SerializeToString())


@dataclass(frozen=True, slots=True)
class Kept:
    """The entries of one file in a cache; with no cache nothing is found and nothing is kept."""

    cache: Cache | None
    facts: Mapping[str, Any] = field(default_factory=lambda: EMPTY)  # of the file and of the code

    def portrait(self, asked: Mapping[str, Any]) -> Portrait | None:
        found: Portrait | None = self._get({"portrait": asked}, lambda data: from_json(Portrait, json.loads(data)))
        return found

    def keep_portrait(self, asked: Mapping[str, Any], portrait: Portrait) -> None:
        self._put({"portrait": asked}, lambda: dump(portrait))

    def graph(self, request: Request, *, rows: bool, size: Any) -> Graph | None:
        found: Graph | None = self._get(_asked(request, rows, size), _parsed)
        return found

    def keep_graph(self, request: Request, graph: Graph, *, rows: bool, size: Any) -> None:
        self._put(_asked(request, rows, size), lambda: dump((graph.plan, graph.places)) + b"\n" + graph.model)

    def _get(self, more: Mapping[str, Any] | None, read: Callable[[bytes], Any]) -> Any:
        data = None if self.cache is None or more is None else self.cache.get({**self.facts, **more})
        try:
            return None if data is None else read(data)
        except (ValueError, TypeError, KeyError):  # an entry of another form: as good as none
            return None

    def _put(self, more: Mapping[str, Any] | None, written: Callable[[], bytes]) -> None:
        if self.cache is not None and more is not None:
            self.cache.put({**self.facts, **more}, written())


def _parsed(data: bytes) -> Graph:
    head, _, model = data.partition(b"\n")
    plan, places = json.loads(head)
    return Graph(from_json(Plan, plan), tuple(from_json(Place, place) for place in places), model)


def kept(cache: Cache | None, sha256: str, name: str | None) -> Kept:
    """The entries of a file by its own hash; its name is where its weights are said to lie."""
    if cache is None:
        return Kept(None)
    return Kept(cache, {"format": FORMAT, "sha256": sha256, "name": name, "code": _code()})


def _asked(request: Request, rows: bool, size: Any) -> Mapping[str, Any] | None:
    """What a graph was built for, as a key; None where it cannot be told from another."""
    score = request.score
    if not isinstance(score, str):
        function = getattr(score, "__qualname__", "<")
        score = repr(score) if hasattr(score, "__dataclass_fields__") else f"{score.__module__}.{function}"
        if "<" in score:  # a function inside another, or an object: its name does not say what it does
            return None
    return {
        "needs": to_json(request.needs), "score": score, "rules": to_json(request.rules), "rows": rows, "size": size,
    }  # fmt: skip


@cache
def _code() -> str:
    """A hash of what reads files: versions, and names, sizes and times of this package's own files."""
    here = Path(__file__).parent
    files = sorted((str(path.relative_to(here)), path.stat()) for path in here.rglob("*.py"))
    own = [(name, state.st_size, state.st_mtime_ns) for name, state in files]
    found = {name: _version(name) for name in LIBRARIES}
    return hashlib.sha256(json.dumps([own, found]).encode()).hexdigest()


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
