"""What is timed side by side for one model and one batch size; maps are compared before anything is timed."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gradskip_onnx import api
from gradskip_onnx.methods import choose_method
from gradskip_onnx.passes.run_plan import run_plan
from gradskip_onnx.types import Array

from .cases import Case, inputs
from .measure import Contender

PLAIN, DEFAULT = "ONNX Runtime, forward", "ONNX Runtime, default options"
PLUS_GRAPH, PLUS = "ours, gradskip+, graph alone", "ours, gradskip+"
GRAPH, WHOLE = "ours, gradskip, graph alone", "ours, gradskip"
TORCH, COMPILED, CAM = "PyTorch, explanation", "torch.compile, explanation", "grad-cam, Grad-CAM"
OUR_LRP, LXT = "ours, AttnLRP", "lxt, AttnLRP"
SHARED, SEPARATE = "ours, five classes", "ours, five classes one by one"
PLUS_METHOD, METHOD = "gradskip+", "gradskip"
PATIENCE = 15.0  # seconds a call may take to be timed in rounds


@dataclass(slots=True)
class Field:
    """The calls by name; how far maps are from ours, as a share of their maximum; and who is missing, and why."""

    calls: dict[str, Contender] = field(default_factory=dict)
    differences: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    compile_seconds: float | None = None

    def compare(self, name: str, maps: Any, with_ours: list[Array]) -> None:
        theirs, ours = (np.stack([np.asarray(each) for each in found]) for found in (maps, with_ours))
        self.differences[name] = float(np.abs(ours - theirs).max() / np.abs(theirs).max())


@dataclass(frozen=True, slots=True)
class Setting:
    """One model at one batch size, and what every contender is made from."""

    case: Case
    explainer: api.Explainer
    images: Array
    file: Path
    threads: int

    def maps(self, **options: Any) -> list[Array]:
        return [explanation.map for explanation in self.explainer.explain(self.images, **options)]


def contenders(setting: Setting, stack: ExitStack, *, compiled: bool) -> Field:
    """Everybody who can take part; processes they start end with `stack`."""
    found = Field(_ours(setting))
    if setting.case.several and len(setting.images) == 1:
        found.calls |= _several(setting)
    _torch(setting, found)
    if compiled:
        _compiled(setting, found)
    else:
        found.missing[COMPILED] = "not asked for"
    if setting.explainer.architecture.task == "classification":
        _lxt(setting, found, stack)
    else:
        found.missing |= dict.fromkeys((CAM, LXT), "made for classification")
    return found


def setting(case: Case, file: Path, batch: int, threads: int) -> Setting:
    explainer = api.load(file, "cpu", threads=threads, cache=False)
    return Setting(case, explainer, inputs(case, explainer, batch), file, threads)


def _ours(given: Setting) -> dict[str, Contender]:
    explainer, images = given.explainer, given.images
    plain, default = plain_session(given.file, given.threads), plain_session(given.file, None)
    feeds = {plain.get_inputs()[0].name: images}

    def graph(method: str) -> Contender:
        plan, session = explainer.model.open(choose_method(method).request(explainer.architecture, "logit"))
        return lambda: run_plan(session, plan, explainer.architecture, images)

    return {
        PLAIN: lambda: plain.run(None, feeds),
        DEFAULT: lambda: default.run(None, feeds),
        PLUS_GRAPH: graph(PLUS_METHOD),
        PLUS: lambda: explainer.explain(images, method=PLUS_METHOD),
        GRAPH: graph(METHOD),
        WHOLE: lambda: explainer.explain(images, method=METHOD),
    }


def plain_session(file: Path, threads: int | None) -> Any:
    """The plain model as our sessions run it; without a number of threads, with the default options of ONNX Runtime."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 3
    if threads is not None:
        options.intra_op_num_threads = threads
        # As in our own sessions: threads that spin on after a run would take the cores from whoever comes next.
        options.add_session_config_entry("session.force_spinning_stop", "1")
    return ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def _several(given: Setting) -> dict[str, Contender]:
    """Five classes of one image: with one forward pass, and each with its own."""
    explainer, image = given.explainer, given.images
    (found,) = explainer.explain(image, method=METHOD)
    classes = [candidate.index for candidate in found.top]
    return {
        SHARED: lambda: explainer.explain(image, classes, method=METHOD),
        SEPARATE: lambda: [explainer.explain(image, target, method=METHOD) for target in classes],
    }


def _torch(given: Setting, found: Field) -> None:
    import torch
    from gradskip_onnx.exporters import load

    from .torch_gradskip import TorchGradSkip

    torch.set_num_threads(given.threads)
    model = load(given.case.request)
    pixels = torch.from_numpy(given.images)
    explain = TorchGradSkip(model.module, model.blocks, given.explainer.architecture)
    found.compare(TORCH, explain(pixels), given.maps(method=METHOD))
    found.calls[TORCH] = lambda: explain(pixels)
    if given.explainer.architecture.task == "classification":
        found.calls[CAM] = _grad_cam(model, given.explainer, pixels)


def _compiled(given: Setting, found: Field) -> None:
    import torch
    from gradskip_onnx.exporters import load

    from .torch_compiled import CompiledGradSkip

    model = load(given.case.request)
    pixels = torch.from_numpy(given.images)
    began = time.perf_counter()
    try:
        explain = CompiledGradSkip(model.module, model.blocks, given.explainer.architecture, pixels)
        maps = explain(pixels)
    except Exception as failure:  # noqa: BLE001 (a compiler fails in many ways; the page says in which)
        found.missing[COMPILED] = f"{type(failure).__name__}: {_first_line(failure)}"
        return
    found.compile_seconds = time.perf_counter() - began
    found.compare(COMPILED, maps, given.maps(method=METHOD))
    found.calls[COMPILED] = lambda: explain(pixels)


def _lxt(given: Setting, found: Field, stack: ExitStack) -> None:
    from .remote import Remote

    try:
        remote = stack.enter_context(Remote(given.case, given.images, given.threads))
    except RuntimeError as failure:
        found.missing[LXT] = _first_line(failure)
        return
    ours = [each.relevance.scores for each in given.explainer.explain(given.images, method="attnlrp")]
    found.compare(LXT, remote.maps, ours)
    found.calls[OUR_LRP] = lambda: given.explainer.explain(given.images, method="attnlrp")
    if remote.seconds > PATIENCE:
        found.missing[LXT] = f"not timed in rounds: its first call took {remote.seconds:.0f} s"
    else:
        found.calls[LXT] = remote


def _first_line(failure: Exception) -> str:
    return (str(failure).strip() or "no message").splitlines()[0][:200]


def _grad_cam(model: Any, explainer: api.Explainer, pixels: Any) -> Any:
    from pytorch_grad_cam import GradCAM

    last = explainer.architecture.blocks[-1]

    def reshape(tokens: Any) -> Any:
        patches = tokens[:, len(last.special) :]
        return patches.reshape(len(patches), *last.grid, -1).permute(0, 3, 1, 2)

    cam = GradCAM(model=model.module, target_layers=[model.blocks[-1].norm1], reshape_transform=reshape)
    return lambda: cam(input_tensor=pixels, targets=None)
