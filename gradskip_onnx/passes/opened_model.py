"""One opened model file: facts about it, and the sessions opened so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from gradskip_onnx.cache.dataclass_json import as_plain
from gradskip_onnx.cache.folder import CacheFolder
from gradskip_onnx.cache.model_cache import CachedPlan, ModelCache, ModelFacts, open_model_cache
from gradskip_onnx.errors import InputError, ModelError, UnsupportedModelError
from gradskip_onnx.instrument.pass_request import PassRequest
from gradskip_onnx.limits import THREADS
from gradskip_onnx.model_file.metadata import taking_prepared_images
from gradskip_onnx.model_file.opening import ModelFile, digest_of
from gradskip_onnx.runtime.session import CPU, Session, import_runtime, open_bytes, open_session, provider_for
from gradskip_onnx.types import Architecture, Array, Plan, Source, TensorFact, Trace

from .class_sharing import share_forward_pass
from .reading import Hints, facts_of, read_model
from .run_plan import output_names, run_plan, whole_batches

if TYPE_CHECKING:
    import onnx

    from gradskip_onnx.graph.architecture import Reading
    from gradskip_onnx.graph.shorten.shorten import Short

Opened = tuple[Plan, Session]
Read = Callable[[], "tuple[Source, Reading]"]
Regions = Sequence[Array] | None


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """How every session of a model is opened; see `runtime.session.open_bytes`."""

    device: str = "auto"
    require_device: bool = False
    threads: int | None = None
    low_memory: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.device, str):
            raise InputError(f"device: got {self.device!r:.80}; use auto, cpu, cuda or cuda:N")
        if self.threads is not None and not (isinstance(self.threads, int) and 1 <= self.threads <= THREADS.amount):
            raise InputError(f"threads: got {self.threads!r:.80}, allowed: 1 to {THREADS.amount}")


class OpenedModel:
    """One model file on one device.

    The only object of the library whose state grows. It creates on first use: the parsed graph (not needed if the
    cache has the facts about it), a session per request, one that serves several classes at once, and the shortened
    model, from which tokens can be left out. Several threads may use it at once. `close` frees all of it.
    """

    def __init__(
        self, file: ModelFile, facts: ModelFacts, read: Read, cache: ModelCache, settings: SessionSettings,
        hints: Hints | None = None,
    ) -> None:  # fmt: skip
        self.name, self.folder, self.facts = file.name, file.folder, facts
        self._file, self._read, self._cache, self._settings = file, read, cache.with_weights(facts), settings
        self._hints = hints  # by which the file is read again after pickling; None: this is not the model of a file
        self._lock = RLock()  # re-entrant: creating one session may need another, or the graph
        self._whole: tuple[Source, Reading] | None = None
        self._opened: dict[PassRequest, Opened] = {}
        self._sharing: dict[PassRequest, Opened | None] = {}  # None: each class needs its own pass
        self._as_is: Session | None = None
        self._shortened: tuple[Short, Session] | UnsupportedModelError | None = None

    @property
    def architecture(self) -> Architecture:
        return self.facts.architecture

    @property
    def image(self) -> TensorFact:
        """Shape and element type of the input."""
        return self.facts.image

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights, which every session holds at least."""
        return self.facts.weight_bytes

    @property
    def threads(self) -> int | None:
        """How many threads a session uses; None: one for each core."""
        return self._settings.threads

    @property
    def provider(self) -> str:
        """The provider that runs the model; before a session is open, the one that will be requested."""
        with self._lock:
            opened = next(iter(self._opened.values()), None)
        return opened[1].provider if opened else provider_for(self._settings.device, self._settings.require_device)

    @property
    def source(self) -> Source:
        return self._get()[0]

    @property
    def reading(self) -> Reading:
        return self._get()[1]

    def open(self, request: PassRequest) -> Opened:
        """The plan and session for a request; created once."""
        with self._lock:
            if request not in self._opened:
                self._opened[request] = self._make(request, rows=False)
            return self._opened[request]

    def run(self, images: Array, targets: Sequence[int | None], regions: Regions, request: PassRequest) -> list[Trace]:
        """One trace per target, from images (B, channels, H, W): one target per image, or several for a single image.

        Several classes of one image share a forward pass if the model is proven to allow it; otherwise the image is
        repeated once per class.
        """
        several = len(targets) > len(images)
        if several and self.image.dims[0] is None:
            shared = self._run_together(images.astype(self.image.dtype), targets, regions, request)
            if shared is not None:
                return shared
        plan, session = self.open(request)
        copies = np.repeat(images, len(targets) // len(images), axis=0) if several else images
        found: list[Trace] = []
        size = self.image.dims[0] or (1 if plan.makers else None)  # images of a batch would be held together
        for batch in whole_batches(copies.astype(self.image.dtype), targets, regions, size):
            found += run_plan(session, plan, self.architecture, *batch)
        self._file.require_unchanged(mapped=True)
        return found[: len(targets)]

    def shorten(self, trace: Trace) -> tuple[Short, Session]:
        """The model from its first block on, for any number of tokens; created, or refused, once."""
        from gradskip_onnx.graph.shorten.shorten_proof import proven_short

        with self._lock:
            if self._shortened is None:
                try:
                    short = proven_short(self.source, self.reading, trace)
                    session = self._session(partial(open_session, short.model, short.folder))
                    self._shortened = replace(short, model=type(short.model)()), session
                except UnsupportedModelError as refusal:
                    self._shortened = refusal
            found = self._shortened
        if isinstance(found, UnsupportedModelError):
            raise found
        return found

    def open_file(self) -> Session:
        """A new session of the file as it is, with no node of ours in it."""
        return self._session(partial(open_bytes, bytes(self._file.data), (), self.folder))

    def file_session(self) -> Session:
        """The session of the file as it is, opened once; of one that prepares images itself, without these nodes."""
        built = self.facts.metadata.built
        with self._lock:
            if self._as_is is None and built is not None and built.preprocessing == "inside":
                from gradskip_onnx.graph.read.load import load

                model = taking_prepared_images(load(self._file)).model
                self._as_is = self._session(partial(open_session, model, self.folder))
            if self._as_is is None:
                self._as_is = self.open_file()
            return self._as_is

    def file_hashes(self) -> dict[str, str]:
        """SHA-256 of the model file and of each weight file beside it, by name."""
        folder = self.folder or Path()
        return {self.name: self._file.sha256()} | {name: digest_of(folder / name).hex() for name in self.facts.others}

    def require_unchanged(self) -> None:
        """Raise ModelError if the files are no longer those that were hashed."""
        self._file.require_unchanged(mapped=True)

    def with_threads(self, threads: int) -> OpenedModel:
        """The same model with so many threads a pass, in sessions of its own; what was read is shared."""
        settings = replace(self._settings, threads=threads)
        return OpenedModel(self._file, self.facts, self._get, self._cache, settings, self._hints)

    def with_graph(self, graph: Any) -> OpenedModel:
        """The same model with the weights of `graph`; the facts still hold, and nothing is written to the cache."""
        source, reading = self._get()
        other = source, replace(reading, graph=graph)
        return OpenedModel(self._file, self.facts, lambda: other, ModelCache(None), self._settings)

    def with_model(self, model: onnx.ModelProto) -> OpenedModel:
        """Another graph with its weights in the same places, read from the start; nothing is written to the cache."""
        from gradskip_onnx.graph.architecture import read
        from gradskip_onnx.graph.find.head import Told

        source = replace(self.source, model=model, before_upgrade=None)
        told = Told(self.architecture.task, (self.architecture.classes,))
        other = source, read(source, size=self.architecture.input_dims.size, told=told)
        return OpenedModel(self._file, facts_of(*other), lambda: other, ModelCache(None), self._settings)

    def close(self) -> None:
        """Free the graph and all sessions; passes that are running finish normally."""
        with self._lock:
            self._whole = self._shortened = self._as_is = None
            self._opened.clear()
            self._sharing.clear()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as the name of the file, or the bytes, and what it was opened with; sessions are opened anew."""
        from .reopening import place_of, reopen

        if self._hints is None:
            raise TypeError(f"{self.name} has changed weights, which are in no file; it cannot be pickled")
        place, cached = place_of(self._file), self._cache.cache is not None
        return reopen, (place, self._hints, cached, self._settings, self.facts.sha256)

    def _get(self) -> tuple[Source, Reading]:
        with self._lock:
            if self._whole is None:
                whole = self._read()
                if whole[0].sha256 != self.facts.sha256:  # the facts may be older, from the cache
                    raise ModelError(f"{self.name} or its weights changed while they were in use; start again")
                self._whole = whole
            return self._whole

    def _run_together(
        self, image: Array, targets: Sequence[int | None], regions: Regions, request: PassRequest
    ) -> list[Trace] | None:
        with self._lock:
            if request not in self._sharing:
                opened, traces = share_forward_pass(
                    image, targets, regions, request, self.architecture, self.open, self._open_rows
                )
                self._sharing[request] = opened
                return traces
            opened = self._sharing[request]
        if opened is None:
            return None
        traces = run_plan(opened[1], opened[0], self.architecture, image, targets, regions)
        self._file.require_unchanged(mapped=True)
        return traces

    def _open_rows(self, request: PassRequest) -> Opened:
        """A graph with a row per class, for one image; used if the graph for one class cannot serve several."""
        return self._make(request, rows=True)

    def _make(self, request: PassRequest, *, rows: bool) -> Opened:
        key: Mapping[str, Any] = {"rows": rows, "size": self.architecture.input_dims}
        found = self._cache.plan(request, **key)
        session = None if found is None else self._open_cached(found)
        if found is None or session is None:
            from gradskip_onnx.instrument.build_plan import build_plan

            needs, score, rules = request.needs, request.score, request.rules
            built = build_plan(self.source, self.reading, needs, score=score, rules=rules, rows=rows, on_demand=True)
            found = CachedPlan.of(built)
            self._cache.keep_plan(request, found, **key)
            session = self._session(partial(open_bytes, found.model, found.places, self.folder, large=found.plan.large))
        return found.plan, replace(session, gives_back=bool(found.plan.makers) and session.provider == CPU)

    def _open_cached(self, found: CachedPlan) -> Session | None:
        """The session of a cached graph; None if it does not run or lacks what its plan names, and so is not ours."""
        try:
            session = self._session(partial(open_bytes, found.model, found.places, self.folder, large=found.plan.large))
        except ModelError:  # if the model itself has changed, building the graph anew says so
            return None
        fed = {self.architecture.input, found.plan.target_input, found.plan.region_input}
        return session if session.inputs <= fed and session.outputs >= set(output_names(found.plan)) else None

    def _session(self, opening: Callable[..., Session]) -> Session:
        use = self._settings
        try:
            session = opening(
                device=use.device, require_device=use.require_device, threads=use.threads, low_memory=use.low_memory
            )
        except OSError as failure:
            raise ModelError(f"the weights of {self.name} cannot be read ({failure.strerror or failure})") from None
        self._file.require_unchanged()  # what was opened is what was hashed
        return session


def open_model(file: ModelFile, hints: Hints, cache: CacheFolder | None, settings: SessionSettings) -> OpenedModel:
    """Open a model file; the facts about it come from the cache, or from reading the file."""
    import_runtime()  # takes a while, during which the file is hashed
    entries = open_model_cache(cache, file.sha256() if cache else "", None if file.path is None else file.path.name)
    facts, read = entries.facts(as_plain(hints)), partial(read_model, file, hints)
    if facts is not None and _unchanged(facts, file):
        return OpenedModel(file, facts, read, entries, settings, hints)
    whole = read()
    facts = facts_of(*whole)
    entries.keep_facts(as_plain(hints), facts)
    opened = OpenedModel(file, facts, read, entries, settings, hints)
    opened._whole = whole
    return opened


def _unchanged(facts: ModelFacts, file: ModelFile) -> bool:
    """Whether the model and its weight files still have the hash of the cached facts."""
    folder = file.folder or Path()
    if any(Path(name).is_absolute() or ".." in Path(name).parts for name in facts.others):
        return False  # reading would refuse such a model
    try:
        return file.sha256(folder / name for name in facts.others) == facts.sha256
    except (OSError, ValueError):
        return False
