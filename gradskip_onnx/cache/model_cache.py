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

from gradskip_onnx.instrument.pass_request import PassRequest
from gradskip_onnx.model_file.mapped_weights import WeightLocation, weight_location
from gradskip_onnx.model_file.metadata import Metadata
from gradskip_onnx.types import EMPTY, Architecture, Instrumented, Plan, TensorFact

from .dataclass_json import as_plain, encode, from_plain
from .folder import CacheFolder

FORMAT = 1
LIBRARIES = ("onnx", "onnx-graphsurgeon", "onnxruntime", "onnxruntime-gpu")  # a plan may depend on each


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What was found in a file."""

    sha256: str
    architecture: Architecture
    image: TensorFact
    scores: TensorFact
    metadata: Metadata
    weight_bytes: int  # what a session holds at least
    others: tuple[str, ...] = ()  # weight files beside the model


@dataclass(frozen=True, slots=True)
class CachedPlan:
    """An instrumented model: how to ask it, its bytes, and the places of the weights that are not among them."""

    plan: Plan
    places: tuple[WeightLocation, ...]
    model: bytes = b""

    @classmethod
    def of(cls, built: Instrumented) -> CachedPlan:
        plan = Plan(**{entry.name: getattr(built, entry.name) for entry in fields(Plan)})
        stored = built.model.graph.initializer
        places = tuple(place for tensor in stored if (place := weight_location(tensor)) is not None)
        return cls(plan, places, built.model.SerializeToString())


@dataclass(frozen=True, slots=True)
class ModelCache:
    """The entries of one file in a cache; with no cache nothing is found and nothing is kept."""

    cache: CacheFolder | None
    key: Mapping[str, Any] = field(default_factory=lambda: EMPTY)  # of the file and of the code that read it

    def facts(self, asked: Mapping[str, Any]) -> ModelFacts | None:
        """What an earlier call found in the file; `asked` is what the user said about it."""
        found: ModelFacts | None = self._get({"facts": asked}, lambda data: from_plain(ModelFacts, json.loads(data)))
        return found

    def keep_facts(self, asked: Mapping[str, Any], facts: ModelFacts) -> None:
        self._put({"facts": asked}, lambda: encode(facts))

    def plan(self, request: PassRequest, *, rows: bool, size: Any) -> CachedPlan | None:
        """The graph that an earlier call built for a request."""
        found: CachedPlan | None = self._get(_asked(request, rows, size), _parsed)
        return found

    def keep_plan(self, request: PassRequest, built: CachedPlan, *, rows: bool, size: Any) -> None:
        self._put(_asked(request, rows, size), lambda: encode((built.plan, built.places)) + b"\n" + built.model)

    def _get(self, more: Mapping[str, Any] | None, read: Callable[[bytes], Any]) -> Any:
        data = None if self.cache is None or more is None else self.cache.get({**self.key, **more})
        try:
            return None if data is None else read(data)
        except (ValueError, KeyError):  # an entry of another form: as good as none
            return None

    def _put(self, more: Mapping[str, Any] | None, written: Callable[[], bytes]) -> None:
        if self.cache is not None and more is not None:
            self.cache.put({**self.key, **more}, written())


def _parsed(data: bytes) -> CachedPlan:
    head, _, model = data.partition(b"\n")
    plan, places = json.loads(head)
    return CachedPlan(from_plain(Plan, plan), tuple(from_plain(WeightLocation, place) for place in places), model)


def open_model_cache(cache: CacheFolder | None, sha256: str, name: str | None) -> ModelCache:
    """The entries of a file by its own hash; its name is where its weights are said to lie."""
    if cache is None:
        return ModelCache(None)
    return ModelCache(cache, {"format": FORMAT, "sha256": sha256, "name": name, "code": _code()})


def _asked(request: PassRequest, rows: bool, size: Any) -> Mapping[str, Any] | None:
    """What a graph was built for, as a key; None where it cannot be told from another."""
    score = request.score
    if not isinstance(score, str):
        function = getattr(score, "__qualname__", "<")
        score = repr(score) if hasattr(score, "__dataclass_fields__") else f"{score.__module__}.{function}"
        if "<" in score:  # a function inside another, or an object: its name does not say what it does
            return None
    return {
        "needs": as_plain(request.needs), "score": score, "rules": as_plain(request.rules), "rows": rows, "size": size,
    }  # fmt: skip


@cache
def _code() -> str:
    """A hash of what reads files: versions, and names, sizes and times of this package's own files."""
    here = Path(__file__).parent.parent
    files = sorted((str(path.relative_to(here)), path.stat()) for path in here.rglob("*.py"))
    own = [(name, state.st_size, state.st_mtime_ns) for name, state in files]
    found = {name: _version(name) for name in LIBRARIES}
    return hashlib.sha256(json.dumps([own, found]).encode()).hexdigest()


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
