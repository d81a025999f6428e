"""Caches the analysis of a model file and its instrumented graphs on disk.

Keys contain the hash of the file, a hash of the code that read it, and the request. That of a graph also contains the
hash of all weight files, because small weights are in the graph; large ones stay in the model's files.
"""

from __future__ import annotations

import hashlib
import json
import os
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

from gradskip_onnx.imports.installed import version_of
from gradskip_onnx.instrument.pass_request import PassRequest
from gradskip_onnx.model_file.mapped_weights import WeightLocation, weight_location
from gradskip_onnx.model_file.metadata import Metadata
from gradskip_onnx.types import EMPTY, Architecture, Instrumented, Plan, TensorFact

from .dataclass_json import as_plain, encode, from_plain
from .external_names import external_names
from .folder import CacheFolder

FORMAT = 2
LIBRARIES = ("onnx", "onnx-graphsurgeon", "onnxruntime", "onnxruntime-gpu")  # a plan may depend on each


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The result of analysing a model file."""

    sha256: str
    architecture: Architecture
    image: TensorFact
    scores: TensorFact
    metadata: Metadata
    weight_bytes: int  # lower bound of the memory of a session
    others: tuple[str, ...] = ()  # weight files beside the model


@dataclass(frozen=True, slots=True)
class CachedPlan:
    """An instrumented model: its plan, its bytes, and the locations of the weights that are not in them."""

    plan: Plan
    places: tuple[WeightLocation, ...]
    model: bytes = b""

    @classmethod
    def of(cls, built: Instrumented) -> CachedPlan:
        """The cache entry of an instrumented model."""
        plan = Plan(**{entry.name: getattr(built, entry.name) for entry in fields(Plan)})
        stored = built.model.graph.initializer
        places = tuple(place for tensor in stored if (place := weight_location(tensor)) is not None)
        return cls(plan, places, built.model.SerializeToString())


@dataclass(frozen=True, slots=True)
class ModelCache:
    """The cache entries of one model file; without a cache folder it finds and stores nothing."""

    cache: CacheFolder | None
    key: Mapping[str, Any] = field(default_factory=lambda: EMPTY)  # identifies the file and the code that read it
    files: frozenset[str] = frozenset()  # the names of the model's files: a stored graph may read no other

    def with_weights(self, facts: ModelFacts) -> ModelCache:
        """The entries for exactly the weights that the facts were found with."""
        own = self.key.get("name")  # None: the model came as bytes and names no files
        names = facts.others if own is None else (own, *facts.others)
        return replace(self, key={**self.key, "weights": facts.sha256}, files=frozenset(names))

    def facts(self, settings: Mapping[str, Any]) -> ModelFacts | None:
        """The stored analysis of the file under the user's `settings`, or None."""
        found: ModelFacts | None = self._get({"facts": settings}, lambda data: from_plain(ModelFacts, json.loads(data)))
        return found

    def keep_facts(self, settings: Mapping[str, Any], facts: ModelFacts) -> None:
        self._put({"facts": settings}, lambda: encode(facts))

    def plan(self, request: PassRequest, *, rows: bool, size: Any) -> CachedPlan | None:
        """The stored graph for a request, or None; one that names files other than the model's is not used."""
        found: CachedPlan | None = self._get(_plan_key(request, rows, size), _parse_plan)
        if found is None or not {place.location for place in found.places} <= self.files:
            return None
        models = [found.model, *(b64decode(maker.model) for maker in found.plan.makers.values())]
        return found if all(external_names(model) <= self.files for model in models) else None

    def keep_plan(self, request: PassRequest, built: CachedPlan, *, rows: bool, size: Any) -> None:
        self._put(_plan_key(request, rows, size), lambda: encode((built.plan, built.places)) + b"\n" + built.model)

    def _get(self, key: Mapping[str, Any] | None, read: Callable[[bytes], Any]) -> Any:
        data = None if self.cache is None or key is None else self.cache.get({**self.key, **key})
        try:
            return None if data is None else read(data)
        except (ValueError, KeyError, TypeError, RecursionError):  # an entry in an unknown format counts as missing
            return None

    def _put(self, key: Mapping[str, Any] | None, write: Callable[[], bytes]) -> None:
        if self.cache is not None and key is not None:
            self.cache.put({**self.key, **key}, write())


def _parse_plan(data: bytes) -> CachedPlan:
    head, _, model = data.partition(b"\n")
    plan, places = json.loads(head)
    return CachedPlan(from_plain(Plan, plan), tuple(from_plain(WeightLocation, place) for place in places), model)


def open_model_cache(cache: CacheFolder | None, sha256: str, name: str | None) -> ModelCache:
    """The cache of the file with this hash; `name` is in the key because external weights lie relative to the file."""
    if cache is None:
        return ModelCache(None)
    return ModelCache(cache, {"format": FORMAT, "sha256": sha256, "name": name, "code": _code()})


def _plan_key(request: PassRequest, rows: bool, size: Any) -> Mapping[str, Any] | None:
    """The part of the key that identifies a graph; None if no key identifies the score function."""
    score = request.score
    if not isinstance(score, str):
        kind = type(score) if hasattr(score, "__dataclass_fields__") else score
        if not kind.__module__.startswith("gradskip_onnx."):  # of another package, whose code is not in the key
            return None
        function = getattr(score, "__qualname__", "<")
        score = repr(score) if hasattr(score, "__dataclass_fields__") else f"{score.__module__}.{function}"
        if "<" in score:  # a nested function or an object: its name does not identify it
            return None
    return {
        "needs": as_plain(request.needs), "score": score, "rules": as_plain(request.rules), "rows": rows, "size": size,
    }  # fmt: skip


@cache
def _code() -> str:
    """A hash of the code that reads files: library versions, and names, sizes and times of this package's files."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    own = sorted(
        (os.path.relpath(entry.path, here), entry.stat().st_size, entry.stat().st_mtime_ns) for entry in _sources(here)
    )
    found = {name: version_of(name) for name in LIBRARIES}
    return hashlib.sha256(json.dumps([own, found]).encode()).hexdigest()


def _sources(folder: str) -> Iterator[os.DirEntry[str]]:
    """The Python files below a folder; a tenth of the time of `Path.rglob`, which every command would wait for."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _sources(entry.path)
            elif entry.name.endswith(".py"):
                yield entry
