"""Devices: what is asked for, what is there, what the user is told; CUDA itself is not needed to test the choice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import gradskip_onnx
from gradskip_onnx.errors import DeviceError, InputError, ModelError
from gradskip_onnx.runtime import session
from tests.support.models import Vit, vit

ROOT = Path(__file__).parent.parent.parent

CPU, CUDA = session.CPU, session.CUDA
WITH_CUDA, WITHOUT = ["TensorrtExecutionProvider", CUDA, CPU], [CPU]

CHOICES = {
    "auto on a plain box": ("auto", WITHOUT, [CPU]),
    "auto beside a GPU": ("auto", WITH_CUDA, [(CUDA, {"device_id": 0}), CPU]),
    "cpu beside a GPU": ("cpu", WITH_CUDA, [CPU]),
    "cuda": ("cuda", WITH_CUDA, [(CUDA, {"device_id": 0}), CPU]),
    "second GPU": ("cuda:1", WITH_CUDA, [(CUDA, {"device_id": 1}), CPU]),
    "cuda that is not there": ("cuda", WITHOUT, [CPU]),
}


@pytest.fixture
def one_runtime(monkeypatch):
    monkeypatch.setattr(session, "installed_runtimes", lambda: ("onnxruntime",))


@pytest.mark.usefixtures("one_runtime")
@pytest.mark.parametrize(("device", "available", "expected"), CHOICES.values(), ids=CHOICES.keys())
def test_choice_of_providers(device: str, available: list[str], expected):
    providers, warnings = session._providers(device, available, required=False)

    assert providers == expected
    assert bool(warnings) == (device == "cuda" and available == WITHOUT)


@pytest.mark.usefixtures("one_runtime")
def test_required_device_fails_instead_of_falling_back():
    with pytest.raises(DeviceError, match=r"gradskip-onnx\[gpu\]") as failure:
        session._providers("cuda", WITHOUT, required=True)
    assert failure.value.exit_code == 4


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "", "cpu:0"])
def test_unknown_devices_are_refused(device: str):
    with pytest.raises(InputError, match="cuda:N"):
        session._providers(device, WITHOUT, required=False)


def test_both_runtimes_are_pointed_out(monkeypatch):
    monkeypatch.setattr(session, "installed_runtimes", lambda: session.RUNTIMES)
    _, warnings = session._providers("auto", WITHOUT, required=False)

    assert "both installed" in warnings[0]
    with pytest.raises(DeviceError, match="both installed"):
        session._providers("cuda", WITHOUT, required=True)


def test_no_runtime_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(DeviceError, match=r"pip install 'gradskip-onnx\[cpu\]'") as failure:
        session.open_session(vit())
    assert failure.value.exit_code == 4


def test_cuda_that_does_not_start_is_said(monkeypatch):
    """ONNX Runtime offers CUDA and then quietly gives the CPU: the user must hear of it, or get an error."""
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: WITH_CUDA)
    monkeypatch.setattr(session, "installed_runtimes", lambda: ("onnxruntime-gpu",))
    opened = session.open_session(vit(), device="cuda")

    assert opened.provider == CPU
    assert "CUDA could not be started" in opened.warnings[-1]
    with pytest.raises(DeviceError, match="required"):
        session.open_session(vit(), device="cuda", require_device=True)


def test_threads_are_passed_on():
    opened = session.open_session(vit(), device="cpu", threads=1)

    assert opened.handle.get_session_options().intra_op_num_threads == 1


def test_models_that_onnx_runtime_refuses():
    model = vit()
    model.graph.node[3].op_type = "Frobnicate"
    with pytest.raises(ModelError, match="Frobnicate"):
        session.open_session(model)


def test_feeds_that_onnx_runtime_refuses():
    opened = session.open_session(vit())
    with pytest.raises(InputError, match="could not run"):
        opened.run(["logits"], {"image": np.zeros((1, 3, 31, 32), np.float32)})


def test_warnings_of_the_device_reach_the_result(monkeypatch):
    monkeypatch.setattr(session, "installed_runtimes", lambda: ("onnxruntime",))
    explainer = gradskip_onnx.load(vit(Vit()).SerializeToString(), device="cuda")
    (result,) = explainer.explain(np.zeros((1, 3, 32, 32), np.float32))

    assert result.provider == CPU
    assert any("not available" in warning for warning in result.warnings)


def test_threads_stop_when_a_run_ends(monkeypatch):
    """NumPy computes between the runs, and would find one core in place of two."""
    said: dict[str, str] = {}

    class Heard(onnxruntime.SessionOptions):  # type: ignore[misc]
        def add_session_config_entry(self, key: str, value: str) -> None:
            said[key] = value
            super().add_session_config_entry(key, value)

    monkeypatch.setattr(onnxruntime, "SessionOptions", Heard)
    session.open_session(vit(), device="cpu")
    assert said["session.force_spinning_stop"] == "1"


@pytest.mark.parametrize("first", [True, False])
def test_the_default_logger_is_silenced_unless_the_program_has_its_own(first: bool):
    """What ONNX Runtime has to say of a broken model comes as an error of ours."""
    code = f"""
{"" if first else "import onnxruntime"}
import pytest
from gradskip_onnx.errors import ModelError
from gradskip_onnx.runtime.session import open_bytes
from tests.support.models import vit
model = vit()
model.graph.initializer[0].dims[:] = [1 << 62]  # more than there can be, of which its logger speaks
with pytest.raises(ModelError):
    open_bytes(model.SerializeToString(), device="cpu")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)

    assert ("onnxruntime" in done.stderr) is not first
