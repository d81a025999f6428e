"""Large tensors computed again in the backward pass: equal maps, nothing large kept, and less memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import gradskip_onnx
from gradskip_onnx.api import Explainer
from gradskip_onnx.demo import demo_model
from gradskip_onnx.instrument import chains
from gradskip_onnx.instrument.build_plan import build_plan
from gradskip_onnx.methods.choice import choose_method
from gradskip_onnx.surgeon.node_writer import PREFIX
from gradskip_onnx.types import Array, Instrumented
from tests.support.models import Vit, vit

FIXTURES = Path(__file__).parent.parent / "fixtures"
MODELS = ("vit", "distilled", "segformer")


def maps(model: str, method: str) -> Array:
    files = {"distilled": FIXTURES / "deit_distilled.onnx", "segformer": FIXTURES / "segformer.onnx"}
    explainer = gradskip_onnx.load(files.get(model) or demo_model(), cache=False, threads=1)
    image = np.random.default_rng(3).normal(size=(1, *explainer.architecture.input_dims)).astype(np.float32)
    return np.asarray(explainer.explain(image, 1, method=method)[0].relevance.scores)


def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors of a small model count as large, too."""
    monkeypatch.setattr(chains, "HELD", 0)
    monkeypatch.setattr(chains, "LARGE", 1)
    monkeypatch.setattr(chains, "TIMES_SMALLER", 1.01)


@pytest.mark.parametrize("method", ["gradskip+", "input-x-gradient", "pe-lrp", "attnlrp"])
@pytest.mark.parametrize("model", MODELS)
def test_maps_are_those_of_kept_tensors(model: str, method: str, monkeypatch: pytest.MonkeyPatch):
    kept = maps(model, method)
    always(monkeypatch)
    assert np.abs(maps(model, method) - kept).max() <= 1e-5 * np.abs(kept).max()


def plan_of(explainer: Explainer, method: str) -> Instrumented:
    request = choose_method(method).request(explainer.architecture, "logit")
    opened = explainer.model
    return build_plan(opened.source, opened.reading, request.needs, score=request.score, rules=request.rules)


@pytest.mark.parametrize("method", ["gradskip+", "input-x-gradient"])
def test_the_backward_pass_reads_no_attention_of_the_forward_pass(method: str, monkeypatch: pytest.MonkeyPatch):
    explainer = gradskip_onnx.load(demo_model(), cache=False)
    attentions = {block.attention for block in explainer.architecture.blocks[:-1]}  # of the last one row is left

    def back_readers() -> list[onnx.NodeProto]:
        nodes = plan_of(explainer, method).model.graph.node
        return [node for node in nodes if node.name.startswith(PREFIX) and attentions.intersection(node.input)]

    assert back_readers()
    always(monkeypatch)
    assert not back_readers()


def test_small_models_keep_what_they_have():
    plan = plan_of(gradskip_onnx.load(demo_model(), cache=False), "gradskip+")
    assert not any(node.name.startswith(f"{PREFIX}again/") for node in plan.model.graph.node)


AT_ONCE = {"MALLOC_MMAP_THRESHOLD_": str(1 << 20)}  # glibc gives back what is freed; else it may keep up to 32 MB each
PEAK = """
import sys
from pathlib import Path
import numpy as np
import onnxruntime

def peak():  # in kB; what `resource` says includes the process that started this one
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])

options = onnxruntime.SessionOptions()
options.enable_cpu_mem_arena = options.enable_mem_pattern = False
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
before = peak()
session.run(None, {"image": np.random.default_rng(0).normal(size=(1, 3, 160, 160)).astype(np.float32)})
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_backward_pass_holds_one_attention_not_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Eight blocks of 1,600 tokens and two heads: 20 MB an attention."""
    explainer = gradskip_onnx.load(vit(Vit(size=(160, 160), patch=4, depth=8)).SerializeToString(), cache=False)
    peaks = []
    for held in (chains.HELD, 1 << 60):
        monkeypatch.setattr(chains, "HELD", held)
        onnx.save(plan_of(explainer, "gradskip+").model, tmp_path / "plan.onnx")
        words = [sys.executable, "-c", PEAK, str(tmp_path / "plan.onnx")]
        run = subprocess.run(words, capture_output=True, text=True, check=True, env=os.environ | AT_ONCE)
        peaks.append(int(run.stdout) / 1024)
    again, kept = peaks
    assert kept - again > 4 * 20
