"""A model that can be asked: what it is, and sessions that show what a method needs.

The file itself is read when that is first needed, which it is not where an earlier call kept what it found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradskip_onnx.cache.dataclass_json import as_plain
from gradskip_onnx.cache.folder import CacheFolder
from gradskip_onnx.cache.model_cache import CachedPlan, ModelCache, ModelFacts, open_model_cache
from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.instrument.pass_request import PassRequest
from gradskip_onnx.model_file.mapped_weights import weight_bytes
from gradskip_onnx.model_file.metadata import read_metadata
from gradskip_onnx.model_file.opening import ModelFile
from gradskip_onnx.runtime.session import Session, import_runtime, open_bytes, open_session
from gradskip_onnx.types import Architecture, Plan, Source, TensorFact, Trace

if TYPE_CHECKING:
    from gradskip_onnx.graph.architecture import Reading
    from gradskip_onnx.graph.shorten.shorten import Short

Size = tuple[int, int]
Opened = tuple[Plan, Session]


@dataclass(slots=True, eq=False)
class LazyReading:
    """The file as it was read, or how to read it."""

    read: Callable[[], tuple[Source, Reading]]
    found: tuple[Source, Reading] | None = None

    def get(self) -> tuple[Source, Reading]:
        if self.found is None:
            self.found = self.read()
        return self.found


@dataclass(frozen=True, slots=True, eq=False)
class OpenedModel:
    """One file on one device; sessions are opened when first needed and held."""

    name: str
    folder: Path | None
    portrait: ModelFacts
    whole: LazyReading
    cache: ModelCache
    device: str = "auto"
    require_device: bool = False
    threads: int | None = None
    low_memory: bool = False  # little memory and a quick start, for few images
    opened: dict[PassRequest, Opened] = field(default_factory=dict)
    shortened: list[Any] = field(default_factory=list)  # none yet, or one: (Short, Session) or the refusal

    @property
    def architecture(self) -> Architecture:
        return self.portrait.architecture

    @property
    def image(self) -> TensorFact:
        """Shape and element type of the input."""
        return self.portrait.image

    @property
    def source(self) -> Source:
        return self.whole.get()[0]

    @property
    def reading(self) -> Reading:
        return self.whole.get()[1]

    @property
    def weight_bytes(self) -> int:
        """What a session holds at least."""
        return weight_bytes(self.source.model)

    def open(self, request: PassRequest) -> Opened:
        """The plan and session for a request; made once."""
        if request not in self.opened:
            self.opened[request] = self._made(request, rows=False)
        return self.opened[request]

    def open_rows(self, request: PassRequest) -> Opened:
        """The same for one image and several classes, where the plan for one class does not serve them."""
        return self._made(request, rows=True)

    def shorten(self, trace: Trace) -> tuple[Short, Session]:
        """The model behind its positional embedding, for any number of tokens; made or refused once."""
        from gradskip_onnx.graph.shorten.shorten_proof import proven_short

        if not self.shortened:
            try:
                short = proven_short(self.source, self.reading, trace)
                session = self._session(partial(open_session, short.model, short.folder))
                self.shortened.append((replace(short, model=type(short.model)()), session))
            except UnsupportedModelError as refusal:
                self.shortened.append(refusal)
        (found,) = self.shortened
        if isinstance(found, UnsupportedModelError):
            raise found
        made: tuple[Short, Session] = found
        return made

    def with_graph(self, graph: Any) -> OpenedModel:
        """The same model with other weights: what was found is about the graph; nothing is kept of it."""
        source, reading = self.whole.get()
        whole = LazyReading(self.whole.read, (source, replace(reading, graph=graph)))
        return replace(self, whole=whole, cache=ModelCache(None), opened={}, shortened=[])

    def _made(self, request: PassRequest, *, rows: bool) -> Opened:
        key: Mapping[str, Any] = {"rows": rows, "size": self.architecture.input_dims}
        graph = self.cache.graph(request, **key)
        if graph is None:
            from gradskip_onnx.instrument.build_plan import build_plan

            needs, score, rules = request.needs, request.score, request.rules
            graph = CachedPlan.of(build_plan(self.source, self.reading, needs, score=score, rules=rules, rows=rows))
            self.cache.keep_graph(request, graph, **key)
        session = self._session(partial(open_bytes, graph.model, graph.places, self.folder))
        return graph.plan, session

    def _session(self, opening: Callable[..., Session]) -> Session:
        return opening(
            device=self.device, require_device=self.require_device, threads=self.threads, low_memory=self.low_memory
        )


@dataclass(frozen=True, slots=True)
class Sizes:
    """The size of the image where the file leaves it open, by those who were asked before and after the file itself."""

    asked: Size | None
    beside: Size | None


def open_model(file: ModelFile, sizes: Sizes, cache: CacheFolder | None, **how: Any) -> OpenedModel:
    """What is known of a file, from the cache or by reading it; `how` are the fields of OpenedModel about sessions."""
    import_runtime()  # it will be needed, and the file is still being hashed
    entries = open_model_cache(cache, file.sha256() if cache else "", None if file.path is None else file.path.name)
    whole = LazyReading(lambda: _read(file, sizes))
    portrait = entries.portrait(as_plain(sizes))
    if portrait is None or not _unchanged(portrait, file):
        portrait = _portrait(*whole.get())
        entries.keep_portrait(as_plain(sizes), portrait)
    return OpenedModel(file.name, file.folder, portrait, whole, entries, **how)


def _read(file: ModelFile, sizes: Sizes) -> tuple[Source, Reading]:
    from gradskip_onnx.graph.architecture import read
    from gradskip_onnx.graph.read.load import load

    source = load(file)
    told = read_metadata(source)
    size = sizes.asked or getattr(told.preprocess, "size", None) or sizes.beside
    return source, read(source, size=size, outputs=told.forward_outputs)


def _unchanged(portrait: ModelFacts, file: ModelFile) -> bool:
    """Whether the weight files beside a model are still those that were read with it."""
    folder = file.folder or Path()
    try:
        return file.sha256(folder / name for name in portrait.others) == portrait.sha256
    except OSError:
        return False


def _portrait(source: Source, reading: Reading) -> ModelFacts:
    architecture, facts = reading.architecture, reading.facts
    return ModelFacts(
        sha256=source.sha256,
        architecture=architecture,
        image=facts[architecture.input],
        scores=facts[architecture.logits],
        notes=read_metadata(source),
        others=tuple(path.relative_to(source.folder or Path()).as_posix() for path in source.others),
    )
