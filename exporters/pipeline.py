"""The export of a model: load, trace, add the gradient graph, write, verify."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import onnx

from gradskip_onnx.errors import InputError, VerificationError
from gradskip_onnx.graph.architecture import read
from gradskip_onnx.graph.read.load import in_memory
from gradskip_onnx.graph.read.load import load as load_source
from gradskip_onnx.methods import DEFAULT, choose_method
from gradskip_onnx.model_file.mapped_weights import weight_bytes
from gradskip_onnx.model_file.opening import digest_of
from gradskip_onnx.output.atomic import scratch_folder
from gradskip_onnx.output.folder import Folder
from gradskip_onnx.selfcontained.describe import annotate
from gradskip_onnx.selfcontained.method_file import BuildSettings, build
from gradskip_onnx.selfcontained.save import LARGEST_INLINE, refuse_overwriting, save
from gradskip_onnx.selfcontained.tensors import show_tensors
from gradskip_onnx.types import Source

from . import EXTRA, load
from .request import Exportable, ExportRequest
from .trace import DEFAULT_OPSET, trace, tracers
from .verify import Difference, verify, verify_map

if TYPE_CHECKING:
    import torch

Shown = Literal["map", "tensors"]
Step = Callable[[str], None]  # called with a line of text before each step


@dataclass(frozen=True, slots=True)
class Report:
    """The files of an export, and their differences from the torch model."""

    name: str
    files: tuple[Path, ...]
    opset: int
    size: tuple[int, int]
    labels: int
    differences: tuple[Difference, ...]

    def require_sound(self) -> None:
        """Raise unless every difference is within its bound; the file stays where it is."""
        failed = [d for d in self.differences if not d.passes]
        if failed:
            worst = max(failed, key=lambda d: d.relative)
            raise VerificationError(
                f"{self.files[0]} was written but does not agree with the torch model: {worst.quantity} "
                f"{worst.where} differs by {worst.relative:.1e} relative (bound {worst.bound:.0e}); do not use it"
            )


def export(
    request: ExportRequest,
    output: Path,
    *,
    opset: int = DEFAULT_OPSET,
    plain: bool = False,
    show: Shown = "map",
    force: bool = False,
    step: Step = lambda _text: None,
) -> Report:
    """Write the model that `request` names to `output` and compare the file with it.

    The file shows the map of the default method, or the tensors that maps are made of; a `plain` one neither.
    """
    refuse_overwriting(output, force)  # fails before weights are fetched; `save` checks again
    Folder(output.parent).open()  # also fails early, for a folder that cannot be written to
    tracers(opset)  # and for an opset that cannot
    step(f"loading {request.name}")
    exportable = load(request)
    try:
        with scratch_folder(output.parent) as scratch:
            step(f"tracing at opset {opset}, {exportable.size[0]}x{exportable.size[1]}")
            name, sha256 = _origin(request)
            source = replace(_as_source(_traced(exportable, opset, scratch), scratch), name=name, sha256=sha256)
            files, compared = _write(
                source, exportable, output, scratch, show="" if plain else show, force=force, step=step
            )
            step("verifying against torch")
            differences = verify(compared, exportable)
            if compared != output:
                differences += verify_map(output, compared, exportable)
    except OSError as failure:  # of torch and onnx, which write their own files
        raise InputError(f"{output} cannot be written: {failure.strerror or failure}") from failure
    return Report(exportable.name, tuple(files), opset, exportable.size, len(exportable.labels), differences)


def _write(
    source: Source, exportable: Exportable, output: Path, scratch: Path, *, show: Shown | Literal[""], force: bool,
    step: Step,
) -> tuple[list[Path], Path]:  # fmt: skip
    """Write the files, and say which one to compare with torch: a map is made of tensors, which another file shows."""
    described: dict[str, Any] = {"preprocess": exportable.preprocess, "labels": exportable.labels}
    compared = output
    if not show:
        model = annotate(source.model, **described)
    else:
        step("finding the blocks and adding their gradients")
        reading = read(source)
        model = show_tensors(source, reading, **described)
        if show == "map":
            compared = scratch / "tensors.onnx"
            save(model, compared, source)
            model = build(source, reading, BuildSettings(choose_method(DEFAULT)), **described)
    step(f"writing {output}")
    return save(model, output, source, force=force), compared


def _origin(request: ExportRequest) -> tuple[str, str]:
    """Name and hash of what the file is made from: the checkpoint; of weights from a hub or at random only the name."""
    if request.checkpoint is None:
        return Path(request.name).name, ""
    return request.checkpoint.name, digest_of(request.checkpoint).hex()


def _traced(exportable: Exportable, opset: int, scratch: Path) -> onnx.ModelProto:
    """The forward graph; for float16 that of a copy in half precision, with pixels and logits in float32."""
    import torch

    example = torch.zeros(1, 3, *exportable.size)
    if exportable.dtype == "float32":
        return _trace(exportable.module, example, opset, scratch)
    return _trace(_half_inside(copy.deepcopy(exportable.module).half()), example, opset, scratch)


def _trace(module: torch.nn.Module, example: torch.Tensor, opset: int, scratch: Path) -> onnx.ModelProto:
    try:
        return trace(module, example, opset=opset, scratch=scratch)
    except ModuleNotFoundError as missing:
        raise InputError(f"export needs {missing.name}, which is not installed; run: {EXTRA}") from missing


def _half_inside(module: torch.nn.Module) -> torch.nn.Module:
    import torch

    class HalfInside(torch.nn.Module):
        """Half precision between two casts, so that callers pass and get float32."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.inner(pixel_values.half())
            return logits.float()

    return HalfInside()


def _as_source(model: onnx.ModelProto, scratch: Path) -> Source:
    """The traced model as a Source; weights too large for one protobuf message go to a second file."""
    if weight_bytes(model) < LARGEST_INLINE:
        return in_memory(model, "model.onnx")
    path = scratch / "model.onnx"
    onnx.save_model(model, path, save_as_external_data=True, location="model.onnx.data")
    return load_source(path)
