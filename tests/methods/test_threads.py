"""Work side by side: every job once, in order, failures told, and the same numbers as one after the other."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import gradskip_onnx
from gradskip_onnx.demo import demo_model
from gradskip_onnx.methods import threads
from gradskip_onnx.methods.gradskip import gini
from gradskip_onnx.methods.threads import WORTH_A_THREAD, side_by_side


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads for anything, however small."""
    monkeypatch.setattr(threads, "WORTH_A_THREAD", 1)
    monkeypatch.setattr(threads, "CORES", 4)
    monkeypatch.setattr(gini, "JOB", 1 << 10)
    monkeypatch.setattr(gini, "CHUNK", 1 << 10)


@pytest.mark.usefixtures("eager")
def test_results_are_in_the_order_of_the_jobs():
    def work(job: int) -> tuple[int, int]:
        time.sleep(0.002 * (9 - job))
        return job, threading.get_ident()

    found = side_by_side(work, range(9), 9)
    assert [job for job, _ in found] == list(range(9))
    assert len({who for _, who in found}) > 1


def test_little_work_is_done_here():
    found = side_by_side(lambda _: threading.get_ident(), range(5), WORTH_A_THREAD)
    assert set(found) == {threading.get_ident()}
    assert side_by_side(lambda job: job, [], 10 * WORTH_A_THREAD) == []


@pytest.mark.usefixtures("eager")
def test_a_failure_is_told():
    def work(job: int) -> None:
        if job == 3:
            raise KeyError("job 3")

    with pytest.raises(KeyError, match="job 3"):
        side_by_side(work, range(8), 100)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("path", ["demo", "tests/fixtures/segformer.onnx"])
def test_maps_are_the_same(path, request):
    """Sums are taken in the same parts and the same order, however many threads there are."""
    file = demo_model() if path == "demo" else request.config.rootpath / path
    explainer = gradskip_onnx.load(file)
    images = np.random.default_rng(0).standard_normal((1, *explainer.architecture.input_dims)).astype(np.float32)
    (many,) = explainer.explain(images, method="gradskip")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "CORES", 1)
        (one,) = explainer.explain(images, method="gradskip")
    np.testing.assert_array_equal(many.relevance.scores, one.relevance.scores)
    assert many.relevance.checks == one.relevance.checks
