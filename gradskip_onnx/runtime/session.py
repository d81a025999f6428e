"""ONNX Runtime sessions: choice of device, the provider that really runs, and errors a user can act on."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

from gradskip_onnx.errors import DeviceError, InputError, ModelError
from gradskip_onnx.limits import RUN_BYTES
from gradskip_onnx.model_file.mapped_weights import WeightLocation, weight_location
from gradskip_onnx.model_file.wire_format import count_nodes
from gradskip_onnx.types import EMPTY, Array

if TYPE_CHECKING:
    import onnx

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
RUNTIMES = ("onnxruntime", "onnxruntime-gpu")
SHARED = "shared"  # external "file" of a placeholder tensor; `open_session` gets its value as an array
QUIET = 4  # fatal only: what goes wrong comes as an exception, and its log lines carry names from the file unescaped
# Nodes above which no buffer is used twice: ONNX Runtime plans that in time quadratic in the length of a chain. Tensors
# are freed as early without the plan, and without an arena peak memory is the same. For ViT-B/16 it takes most of the
# time of opening, which a few passes do not bring back.
LONG = 4_000
# Nodes above which nothing is optimised: the optimisers, too, take more than linear time. A ViT of 40 blocks has 5,000.
VERY_LONG = 20_000
SHORTEST_NODE = 8  # bytes of a node in a file, at least
EXHAUSTED = "is smaller than requested bytes"  # ONNX Runtime, of an arena that may not grow
AS_REQUESTED = 1  # an arena grows by what is asked for, not to the next power of two


@dataclass(frozen=True, slots=True, eq=False)
class Session:
    """An open model; `provider` is the one ONNX Runtime chose, which may differ from the one requested."""

    handle: Any
    provider: str
    warnings: tuple[str, ...] = ()
    weights: tuple[Any, ...] = ()  # OrtValues, kept alive with the session: ONNX Runtime reads them in place
    most_bytes: int | None = None  # what its tensors may take; None: all there is
    gives_back: bool = False  # whether it keeps no memory for its next run
    beside: Callable[[bytes], Session] | None = None  # opens another small model: same device, files and threads

    @property
    def inputs(self) -> set[str]:
        """The names of the inputs that must be fed."""
        return {port.name for port in self.handle.get_inputs()}

    @property
    def outputs(self) -> set[str]:
        return {port.name for port in self.handle.get_outputs()}

    def run(
        self, outputs: Sequence[str], feeds: Mapping[str, Array], most_seconds: float | None = None
    ) -> dict[str, Array]:
        """Run the model and return the named outputs; a run of more than `most_seconds` is ended with an error."""
        if not outputs:  # for ONNX Runtime an empty list means all outputs
            return {}
        options = import_runtime().RunOptions()
        options.log_severity_level = QUIET
        if self.gives_back:
            options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        try:
            with _ended_after(most_seconds, options):
                return dict(zip(outputs, self.handle.run(list(outputs), dict(feeds), options), strict=True))
        except _runtime_errors() as failure:
            if options.terminate:
                raise ModelError(f"a run of the model took more than {most_seconds} seconds and was ended") from failure
            if self.most_bytes is not None and EXHAUSTED in str(failure):
                raise _too_much(self.most_bytes) from failure
            raise InputError(f"ONNX Runtime could not run the model: {_first_line(failure)}") from failure


@contextmanager
def _ended_after(seconds: float | None, options: Any) -> Iterator[None]:
    """Let a run with these options end after some time; ONNX Runtime looks at the flag between two nodes."""
    if seconds is None:
        yield
        return
    timer = Timer(seconds, setattr, (options, "terminate", True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@cache  # needed for every session, and searches every folder of sys.path
def installed_runtimes() -> tuple[str, ...]:
    """The ONNX Runtime distributions present in this environment."""
    return tuple(name for name in RUNTIMES if any(metadata.Distribution.discover(name=name)))


def open_session(
    model: onnx.ModelProto,
    folder: Path | None = None,
    device: str = "auto",
    *,
    shared_weights: Mapping[str, Array] = EMPTY,
    **settings: Any,
) -> Session:
    """Open `model`. Weights come from `shared_weights` by name, else from files in `folder`.

    `settings` are the other options of `open_bytes`.
    """
    stored = (tensor for tensor in model.graph.initializer if tensor.name not in shared_weights)
    places = [place for tensor in stored if (place := weight_location(tensor))]
    return open_bytes(model.SerializeToString(), places, folder, device, shared_weights=shared_weights, **settings)


def open_bytes(
    model: bytes,
    places: Sequence[WeightLocation] = (),
    folder: Path | None = None,
    device: str = "auto",
    *,
    require_device: bool = False,
    threads: int | None = None,
    optimise: bool = True,
    low_memory: bool = False,
    large: bool = False,
    most_bytes: int | None = None,
    shared_weights: Mapping[str, Array] = EMPTY,
) -> Session:
    """Open a serialised model on `device` (auto, cpu or cuda[:N]); `places` locates its weights in files of `folder`.

    `low_memory` saves memory and time when opening and makes each run a little slower. Tensors that are `large` are not
    laid out together, which takes more memory from the second run on and saves no time. Without `optimise` the nodes
    are also run exactly as written, without graph optimisation. A session on the CPU with `most_bytes` ends a run whose
    tensors would take more.
    """
    ort = import_runtime()
    providers, warnings = _providers(device, ort.get_available_providers(), require_device)
    options = ort.SessionOptions()
    options.log_severity_level = QUIET
    options.add_session_config_entry("session.force_spinning_stop", "1")  # NumPy needs the cores after a run
    options.add_session_config_entry("session.qdqisint8allowed", "1")  # int8 activations have integer kernels here too
    if threads is not None:
        options.intra_op_num_threads = threads
    if low_memory or not optimise:
        options.enable_cpu_mem_arena = False
        options.enable_mem_pattern = False
        options.add_session_config_entry("session.disable_prepacking", "1")  # would copy every weight
    if large:
        options.enable_mem_pattern = False
    if most_bytes is not None:
        _bound_memory(options, most_bytes)
    nodes = _count_nodes(model)
    options.enable_mem_reuse = optimise and nodes <= LONG and not low_memory
    if not optimise or nodes > VERY_LONG:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.execution_order = ort.ExecutionOrder.PRIORITY_BASED  # Shape nodes first: frees their inputs
    if folder is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    weights = [ort.OrtValue.ortvalue_from_numpy(value) for value in shared_weights.values()]
    if weights:
        options.add_external_initializers(list(shared_weights), weights)
    if providers == [CPU]:
        for place in places:
            weights.append(ort.OrtValue.ortvalue_from_numpy(place.array(folder)))
            try:
                options.add_initializer(place.name, weights[-1])  # read in place; external initializers are copied
            except RuntimeError as failure:
                raise ModelError(f"tensor {place.name!r} is stored twice") from failure
    try:
        handle = ort.InferenceSession(model, options, providers=providers)
    except _runtime_errors() as failure:
        raise ModelError(f"ONNX Runtime cannot load the model: {_first_line(failure)}") from failure
    provider = handle.get_providers()[0]
    if CUDA in _names(providers) and provider != CUDA:
        message = f"CUDA could not be started, running on {provider}; see ONNX Runtime's CUDA requirements"
        if require_device:
            raise DeviceError(f"device {device!r} was required: {message}")
        warnings = (*warnings, message)
    beside = partial(
        open_bytes, folder=folder, device=device, require_device=require_device, threads=threads, low_memory=True
    )
    return Session(handle, provider, warnings, tuple(weights), most_bytes, most_bytes is not None, beside)


def _bound_memory(options: Any, most_bytes: int) -> None:
    """Let a session take the memory of its tensors from an arena that does not grow beyond `most_bytes`.

    Python can set the limit only of an arena that sessions share; each such session gets a new one.
    """
    ort = import_runtime()
    place = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    arena = ort.OrtArenaCfg({"max_mem": most_bytes, "arena_extend_strategy": AS_REQUESTED})
    with suppress(RuntimeError):  # older versions keep the first, which has the same limit
        ort.create_and_register_allocator(place, arena)
    options.enable_cpu_mem_arena = True
    options.add_session_config_entry("session.use_env_allocators", "1")


def _too_much(most_bytes: int) -> ModelError:
    return ModelError(
        f"a run of the model needs more than the limit of {most_bytes:,} bytes of tensors at once; "
        f"if the file is to be trusted, raise it by {RUN_BYTES.variable}"
    )


def _count_nodes(model: bytes) -> int:
    """The nodes of a graph, 0 for one that is too small to have many."""
    return count_nodes(model) if len(model) > LONG * SHORTEST_NODE else 0


def import_runtime() -> Any:
    """Import ONNX Runtime; raise DeviceError with the install command if it is missing.

    Its default logger writes to standard error what we say ourselves, such as a CUDA library that is missing. Where we
    are the first to import it, it is silenced; a program that uses ONNX Runtime itself keeps its own setting.
    """
    first = "onnxruntime" not in sys.modules
    try:
        import onnxruntime
    except ImportError as missing:
        raise DeviceError(
            "ONNX Runtime is not installed; run: pip install 'gradskip-onnx[cpu]' (or 'gradskip-onnx[gpu]' for CUDA)"
        ) from missing
    if first:
        onnxruntime.set_default_logger_severity(QUIET)
    return onnxruntime


def provider_for(device: str, require_device: bool = False) -> str:
    """The provider that would be requested for `device`; opens no session."""
    providers, _ = _providers(device, import_runtime().get_available_providers(), require_device)
    return str(providers[0] if isinstance(providers[0], str) else providers[0][0])


def _providers(device: str, available: Sequence[str], required: bool) -> tuple[list[Any], tuple[str, ...]]:
    """The provider list for `device`, and warnings for the user."""
    parsed = re.fullmatch(r"(auto|cpu)|cuda(?::(\d+))?", device)
    if parsed is None:
        raise InputError(f"unknown device {device!r}; use auto, cpu, cuda or cuda:N")
    both = installed_runtimes() == RUNTIMES
    clash = (
        "onnxruntime and onnxruntime-gpu are both installed and overwrite each other; uninstall both, then install one"
    )
    warnings = (clash,) if both else ()
    if device == "cpu" or (device == "auto" and CUDA not in available):
        return [CPU], warnings
    if CUDA in available:
        return [(CUDA, {"device_id": int(parsed[2] or 0)}), CPU], warnings
    message = f"device {device!r} is not available (ONNX Runtime offers {', '.join(available)}); " + (
        clash if both else "install 'gradskip-onnx[gpu]' in place of [cpu]"
    )
    if required:
        raise DeviceError(message)
    return [CPU], (*warnings, f"{message}; running on the CPU")


def _names(providers: Sequence[Any]) -> set[str]:
    return {p if isinstance(p, str) else p[0] for p in providers}


def _runtime_errors() -> tuple[type[Exception], ...]:
    """ONNX Runtime's own exception types; their only common parent is Exception."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    kinds = (getattr(state, name) for name in dir(state))
    return tuple(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Exception))


def _first_line(failure: Exception) -> str:
    return str(failure).strip().splitlines()[0][:300]
