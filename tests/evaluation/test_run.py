"""Runs: what is measured equals a slow twin, nothing is measured twice, one bad image stops nobody."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from gradskip_onnx import api
from gradskip_onnx.datasets import Selection, load
from gradskip_onnx.errors import GradskipError, InputError
from gradskip_onnx.evaluation import Report, choose_method, choose_metric, evaluate, set_up, write
from gradskip_onnx.evaluation.forward import Forward
from gradskip_onnx.images import interpolate
from gradskip_onnx.images.preprocess import prepare
from gradskip_onnx.images.read import open_picture
from gradskip_onnx.passes.opened_model import OpenedModel
from gradskip_onnx.types import Array
from tests.support.evaluation_data import PREPROCESS, explainer, model_bytes, pictures

STEPS = 4


@pytest.fixture(scope="module")
def model():
    return explainer()


def run(
    model,
    data: Path,
    folder: Path,
    *,
    methods=("gradskip", "rollout"),
    metrics=None,
    limit=None,
    force=False,
    **settings,
):
    chosen = metrics or [choose_metric("insertion-deletion", steps=STEPS, substrate="random")]
    dataset = Selection(limit=limit).of(load(str(data)))
    evaluation, _ = set_up(model, dataset, [choose_method(name) for name in methods], chosen, **settings)
    return evaluate(evaluation, folder, resamples=100, force=force)


@pytest.fixture
def asked(monkeypatch):
    """The number of images the plain model was asked about, batch by batch."""
    batches: list[int] = []
    original = Forward.logits

    def counting(self, images):
        batches.append(len(images))
        return original(self, images)

    monkeypatch.setattr(Forward, "logits", counting)
    return batches


def values(report: Report, metric: str) -> dict[str, float]:
    found = {m: report.summary.cells[m, metric].found for m in report.summary.methods}
    return {method: each.value for method, each in found.items() if each is not None}


def twin(path: Path, method: str, seed: int) -> float:
    """Insertion minus Deletion of one image, pixel by pixel, on a session of the file itself."""
    session = ort.InferenceSession(model_bytes())
    image, _ = prepare(open_picture(path).image, PREPROCESS)

    def probabilities(x: Array) -> Array:
        (logits,) = session.run(None, {session.get_inputs()[0].name: x[None]})
        powers = np.exp(logits[0].astype(np.float64))
        return np.asarray(powers / powers.sum())

    target = int(probabilities(image).argmax())
    scores = explainer().explain(image[None], target, method=method)[0].relevance.scores
    saliency = interpolate.resize(scores, image.shape[1:]).reshape(-1).astype(np.float64)
    ties = np.random.default_rng((seed, 2)).permutation(saliency.size)
    order = sorted(range(saliency.size), key=lambda at: (-saliency[at], ties[at]))
    noise = np.asarray(np.random.default_rng((seed, 1)).standard_normal(image.shape), np.float32)
    areas = []
    for start, finish in ((noise, image), (image, noise)):
        heights = []
        for step in range(STEPS + 1):
            now = start.copy().reshape(3, -1)
            part = order[: step * len(order) // STEPS]
            now[:, part] = finish.reshape(3, -1)[:, part]
            heights.append(float(probabilities(now.reshape(image.shape))[target]))
        areas.append((sum(heights) - heights[0] / 2 - heights[-1] / 2) / STEPS)
    return float(areas[0] - areas[1])


def test_numbers_are_those_of_a_slow_twin(model, tmp_path):
    from hashlib import sha256

    data = pictures(tmp_path / "data", 3)
    report = run(model, data, tmp_path / "out")
    for method in ("gradskip", "rollout"):
        seeds = {f"{at:02}.png": int(sha256(f"{at:02}.png".encode()).hexdigest()[:8], 16) for at in range(3)}
        expected = np.mean([twin(data / name, method, seed) for name, seed in seeds.items()])
        assert values(report, report.summary.columns[0].label)[method] == pytest.approx(expected, abs=1e-5)


def test_ends_of_curves_are_asked_for_once(model, tmp_path, asked):
    run(model, pictures(tmp_path / "data", 1), tmp_path / "out", methods=("gradskip", "rollout", "grad-cam"))

    inner = 2 * (STEPS - 1)
    assert asked == [1, 1 + inner, inner, inner]  # the image, its substrate with the first curves, curves


def test_a_second_run_measures_nothing(model, tmp_path, asked):
    data = pictures(tmp_path / "data", 3)
    first = run(model, data, tmp_path / "out")
    lines = (tmp_path / "out" / "results.jsonl").read_bytes()
    asked.clear()
    second = run(model, data, tmp_path / "out")

    assert asked == []
    assert (tmp_path / "out" / "results.jsonl").read_bytes() == lines
    assert second.summary.cells == first.summary.cells


def test_a_run_that_was_stopped_goes_on(model, tmp_path, asked):
    """StopErrorped after some images, in the middle of writing a line: only what is missing is measured."""
    data = pictures(tmp_path / "data", 4)
    whole = run(model, data, tmp_path / "whole", batch=1)

    class StopError(Exception):
        pass

    seen: list[str] = []

    def step(name: str) -> None:
        seen.append(name)
        if len(seen) == 5:
            raise StopError

    evaluation = whole.evaluation
    with pytest.raises(StopError):
        evaluate(evaluation, tmp_path / "cut", step=step, resamples=100)
    ledger = tmp_path / "cut" / "results.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    assert len(lines) == 5
    ledger.write_bytes(b"".join(lines[:4]) + lines[4][:37])
    asked.clear()
    resumed = evaluate(evaluation, tmp_path / "cut", resamples=100)

    assert len(asked) == 2 * (1 + 2)  # the last two images: read, then both methods
    assert resumed.summary.cells == whole.summary.cells
    assert [json.loads(line)["image"] for line in ledger.read_text().splitlines()] == [
        f"{at:02}.png" for at in range(4) for _ in range(2)
    ]


def test_a_changed_image_or_option_is_measured_again(model, tmp_path, asked):
    data = pictures(tmp_path / "data", 2)
    run(model, data, tmp_path / "out", methods=("rollout",))
    asked.clear()
    (data / "01.png").write_bytes((data / "00.png").read_bytes())
    run(model, data, tmp_path / "out", methods=("rollout",))
    assert sum(asked) == 2 + (2 * STEPS - 1)  # the group is read, one image is measured
    asked.clear()
    run(model, data, tmp_path / "out", methods=("rollout",), target="label", force=True)
    assert sum(asked) == 2 + 2 * (2 * STEPS - 1)


def test_one_bad_image_stops_nobody(model, tmp_path):
    data = pictures(tmp_path / "data", 3)
    good = run(model, data, tmp_path / "good")
    (data / "01.png").write_bytes(b"no picture")
    report = run(model, data, tmp_path / "out")

    label = report.summary.columns[0].label
    cell = report.summary.cells["gradskip", label]
    assert (cell.found.count, cell.failed, cell.excluded) == (2, 1, 0)
    assert {(each.image, each.method) for each in report.summary.failures} == {
        ("01.png", "gradskip"),
        ("01.png", "rollout"),
    }
    assert "01.png" in report.summary.failures[0].reason
    assert good.summary.cells["gradskip", label].found.count == 3


def test_failures_are_kept_until_they_are_retried(model, tmp_path):
    data = pictures(tmp_path / "data", 2)
    image = (data / "01.png").read_bytes()
    (data / "01.png").write_bytes(b"no picture")
    run(model, data, tmp_path / "out")
    assert run(model, data, tmp_path / "out", retry=True).summary.failures
    (data / "01.png").write_bytes(image)  # another digest: measured without being asked to
    assert not run(model, data, tmp_path / "out").summary.failures


def test_a_method_that_fails_on_an_image_is_a_failure_there(model, tmp_path, monkeypatch):
    from gradskip_onnx.methods import METHODS

    original = METHODS["rollout"].run

    def fragile(trace, architecture, options, passes):
        if trace.input.mean() < worst:
            raise InputError("too dark for this method")
        return original(trace, architecture, options, passes)

    data = pictures(tmp_path / "data", 3)
    means = sorted(prepare(open_picture(path).image, PREPROCESS)[0].mean() for path in data.glob("*.png"))
    worst = (means[0] + means[1]) / 2
    monkeypatch.setitem(METHODS, "rollout", replace(METHODS["rollout"], run=fragile))
    report = run(model, data, tmp_path / "out")

    label = report.summary.columns[0].label
    assert report.summary.cells["rollout", label].failed == 1
    assert report.summary.cells["gradskip", label].failed == 0
    assert report.summary.cells["rollout", label].gap.count == 2  # compared where both have a value
    assert "too dark" in report.summary.failures[0].reason


def test_nothing_measured_is_an_error(model, tmp_path):
    data = pictures(tmp_path / "data", 1)
    (data / "00.png").write_bytes(b"no picture")
    with pytest.raises(GradskipError, match="nothing could be measured"):
        run(model, data, tmp_path / "out")


def test_a_foreign_ledger_is_refused(model, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "results.jsonl").write_text('{"key": 3}\n')
    with pytest.raises(InputError, match="line 1 is not a result of this program"):
        run(model, pictures(tmp_path / "data", 1), tmp_path / "out")


def test_labels_and_methods_are_checked_first(model, tmp_path):
    data = pictures(tmp_path / "data", 2)
    (data / "labels.csv").write_text("file,label\n00.png,7\n01.png,1\n")
    with pytest.raises(InputError, match=r"00\.png.*7"):
        run(model, data, tmp_path / "out", target="label")
    evaluation, _ = set_up(model, load(str(data)), [choose_method("rollout")], [])
    with pytest.raises(InputError, match="not among the methods"):
        evaluate(evaluation, tmp_path / "out", reference="gradskip")


def test_randomisation_is_resumed_too(model, tmp_path):
    data = pictures(tmp_path / "data", 3)
    metrics = [choose_metric("randomisation", images=2)]
    first = run(model, data, tmp_path / "out", methods=("grad-cam",), metrics=metrics)
    lines = (tmp_path / "out" / "results.jsonl").read_bytes()
    second = run(model, data, tmp_path / "out", methods=("grad-cam",), metrics=metrics)

    assert (tmp_path / "out" / "results.jsonl").read_bytes() == lines
    found = first.summary.cells["grad-cam", "randomisation[images=2]"].found
    assert found.count == 2
    assert -1 <= found.value < 0.99  # random weights move the map
    assert second.summary.cells == first.summary.cells


def test_checks_of_maps_are_resumed_too(model, tmp_path):
    data = pictures(tmp_path / "data", 3)
    names = ("class-sensitivity[images=2]", "noise-stability[images=2]", "zero-shift[images=2]")
    metrics = [choose_metric(name.removesuffix("[images=2]"), images=2) for name in names]
    first = run(model, data, tmp_path / "out", methods=("rollout",), metrics=metrics)
    lines = (tmp_path / "out" / "results.jsonl").read_bytes()
    second = run(model, data, tmp_path / "out", methods=("rollout",), metrics=metrics)

    assert (tmp_path / "out" / "results.jsonl").read_bytes() == lines
    other_class, noise, zero = (first.summary.cells["rollout", name].found for name in names)
    assert (other_class.count, noise.count, zero.count) == (2, 2, 2)
    assert other_class.value == 1  # rollout knows no classes
    assert 0.9 < noise.value < 1
    assert 0 <= zero.value < 1e-4  # nor pixels: only rounding is left
    assert second.summary.cells == first.summary.cells


def test_flops_are_counted_once(model, tmp_path, monkeypatch):
    """They belong to the method: kept among the results, and never among those of an image."""
    data = pictures(tmp_path / "data", 2)
    metrics = [choose_metric("insertion", steps=2), choose_metric("gflops")]
    first = run(model, data, tmp_path / "out", metrics=metrics)
    assert [column.label for column in first.summary.columns] == ["insertion[steps=2]"]
    assert first.prices["gradskip"].giga > first.prices["rollout"].giga > 0

    monkeypatch.setattr("gradskip_onnx.evaluation.cost.of_plan", lambda *_: pytest.fail("counted again"))
    second = run(model, data, tmp_path / "out", metrics=metrics)
    assert second.prices == first.prices
    assert run(model, data, tmp_path / "out", metrics=metrics[:1]).prices["gradskip"].giga is None


def test_a_run_that_is_done_reads_no_model(tmp_path, monkeypatch):
    """With a warm cache and every result there, the file is neither read nor opened in a session."""
    monkeypatch.setenv("GRADSKIP_CACHE", str(tmp_path / "cache"))
    (tmp_path / "model.onnx").write_bytes(model_bytes())
    data = pictures(tmp_path / "data", 2)
    chosen = [choose_metric("insertion", steps=2), choose_metric("gflops"), choose_metric("randomisation", images=1)]

    def again() -> Report:
        opened = api.load(tmp_path / "model.onnx", preprocess=PREPROCESS, threads=1)
        report: Report = run(opened, data, tmp_path / "out", methods=("gradskip", "grad-cam"), metrics=chosen)
        write(report, title="again")
        return report

    first = again()
    monkeypatch.setattr("gradskip_onnx.graph.architecture.read", lambda *_, **__: pytest.fail("the model was read"))
    monkeypatch.setattr(OpenedModel, "_session", lambda *_: pytest.fail("a session was opened"))
    second = again()

    assert second.summary.cells == first.summary.cells
    assert second.prices == first.prices


def test_the_progress_of_a_run_that_is_done_is_whole(model, tmp_path):
    data = pictures(tmp_path / "data", 2)
    told: list[list[str]] = [[], []]
    evaluation = run(model, data, tmp_path / "out").evaluation
    for folder, steps in zip(("new", "out"), told, strict=True):
        evaluate(evaluation, tmp_path / folder, step=steps.append, resamples=100)

    assert len(told[0]) == evaluation.steps
    assert sorted(told[0]) == sorted(told[1])
