"""Fitting gradskip+ to a model: halves, values tried, what is kept, and the command on the demo."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

from gradskip_onnx import api
from gradskip_onnx.datasets import load
from gradskip_onnx.demo import demo_model
from gradskip_onnx.errors import GradskipError, InputError
from gradskip_onnx.evaluation import choose_method
from gradskip_onnx.evaluation.coordinate_search import Axis
from gradskip_onnx.evaluation.fit import DEFAULT, TOGETHER, Fit, as_document, axes_for, fit, keep, plan_fit
from gradskip_onnx.metrics.statistics import Interval
from gradskip_onnx.output.json_text import encode_json
from gradskip_onnx.pipeline.fitted_options import METHOD, NAMES, path_beside
from tests.support.command_line import fails, run
from tests.support.evaluation_data import FLAGS, explainer, model_bytes, pictures

FEW = (Axis("pixels", (0.25, 4.0)), Axis("last", (0, 3)))


@pytest.fixture
def plan(tmp_path):
    found, warnings = plan_fit(explainer(), load(str(pictures(tmp_path / "data", 5))), steps=2)
    assert warnings == []
    return replace(found, axes=FEW)


def names(evaluation) -> list[str]:
    return [entry.id for entry in evaluation.dataset.entries]


def test_halves_share_no_image_and_depend_on_the_seed(tmp_path):
    model, data = explainer(), load(str(pictures(tmp_path, 12)))
    halves = [[names(half) for half in (plan.tuning, plan.held_out)] for plan in
              (plan_fit(model, data, seed=seed)[0] for seed in (0, 0, 1))]  # fmt: skip

    assert halves[0] == halves[1] != halves[2]
    for tuning, held_out in halves:
        assert len(tuning) == len(held_out) == 6
        assert sorted(tuning + held_out) == [f"{at:02}.png" for at in range(12)]
        assert tuning == sorted(tuning)


def test_too_few_images(tmp_path):
    with pytest.raises(InputError, match="3 images; a fit takes 4 or more"):
        plan_fit(explainer(), load(str(pictures(tmp_path, 3))))


def test_values_tried_are_options_of_the_method_and_hold_the_default():
    """Every default is tried, under one name only: 0 and the block it stands for are not both among the values."""
    architecture = explainer().architecture
    axes = {axis.name: axis.values for axis in axes_for(architecture)}

    assert tuple(axes) == NAMES
    for name, values in axes.items():
        assert getattr(DEFAULT.options, name) in values
        assert len(set(values)) == len(values) > 1
        for value in values:
            choose_method(METHOD, **{name: value})
    assert axes["first"] == (0, 2, 3)  # of three blocks the default reads the first two
    assert axes["last"] == (0, 3)
    single = axes_for(replace(architecture, blocks=architecture.blocks[:1]))
    assert [axis.values for axis in single[:2]] == [(0,), (0,)]


@pytest.mark.slow
def test_a_fit_is_reproducible_and_resumes(plan, tmp_path):
    first = fit(plan, tmp_path / "one", resamples=100)
    ledger = tmp_path / "one" / "results.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[: len(lines) // 2]))
    again = fit(plan, tmp_path / "one", resamples=100)
    steps: list[str] = []
    other = fit(plan, tmp_path / "other", resamples=100, step=steps.append)

    assert encode_json(as_document(first)) == encode_json(as_document(again)) == encode_json(as_document(other))
    assert len(steps) <= plan.steps
    assert first.search.score >= first.search.start
    assert first.columns[TOGETHER].gap.count == 3
    gaps = [first.columns[name].gap.value for name in ("mean", "black", "random")]
    assert first.columns[TOGETHER].gap.value == pytest.approx(sum(gaps) / 3)


def test_held_out_images_play_no_part_in_the_search(plan, tmp_path):
    """The settings tried are measured on the tuning half alone."""
    fit(plan, tmp_path / "out", resamples=100)
    records = [json.loads(line) for line in (tmp_path / "out" / "results.jsonl").read_text().splitlines()]
    judged = {record["method"] for record in records if record["image"] in names(plan.held_out)}

    assert len(judged) <= 2
    assert DEFAULT.label in judged
    assert len({record["method"] for record in records}) > 2


def test_better_means_beyond_doubt(plan, tmp_path):
    found = fit(plan, tmp_path / "out", resamples=100)
    for low, better in ((0.001, True), (0.0, False), (-0.001, False)):
        column = replace(found.columns[TOGETHER], gap=Interval(0.01, low, 0.02, 3))
        assert replace(found, columns={TOGETHER: column}).better is better


def test_an_image_that_cannot_be_read_is_named(plan, tmp_path):
    (tmp_path / "data" / names(plan.held_out)[0]).write_bytes(b"no picture")
    found = fit(plan, tmp_path / "out", resamples=100)

    assert list(found.failures) == names(plan.held_out)[:1]
    assert found.columns[TOGETHER].gap.count == 2


def test_nothing_to_measure(plan, tmp_path):
    for name in names(plan.tuning):
        (tmp_path / "data" / name).write_bytes(b"no picture")
    with pytest.raises(GradskipError, match="nothing could be measured"):
        fit(plan, tmp_path / "out")


def test_a_place_that_cannot_be_written_is_said(plan, tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        keep(fit(plan, tmp_path / "out", resamples=100), tmp_path / "nowhere" / "file.json")


@pytest.mark.slow
def test_the_command_on_the_demo(tmp_path):
    """Fitted, kept by force, read back: `explain` uses what the command reports."""
    model = tmp_path / "vit.onnx"
    shutil.copy(demo_model(), model)
    words = ("study", "fit", model, "planted:4:50000", "--steps", 2, "--threads", 1, "-o", tmp_path / "fit")
    found = run(*words)

    assert found.exit_code == 0, found.output
    for text in ("searched ", "found     gradskip+", "all three", "fitted minus default"):
        assert text in found.stdout
    assert ("not kept" in found.stdout) is not path_beside(model).exists()
    document = json.loads(run(*words, "--keep", "--json").stdout)
    written = json.loads(path_beside(model).read_text())
    assert document == written | {"kept": str(path_beside(model))}
    explainer = api.load(model, threads=1)
    assert explainer.fitted is not None
    assert explainer.fitted.options == written["options"]
    assert explainer.warnings == ()


@pytest.mark.slow
def test_what_is_not_better_is_not_kept(tmp_path, monkeypatch):
    """The verdict alone decides whether the file is written; without it an earlier file stays as it is."""
    model, data = tmp_path / "model.onnx", pictures(tmp_path / "data", 4)
    model.write_bytes(model_bytes())
    words = ("study", "fit", model, data, "--steps", 1, "--threads", 1, "-o", tmp_path / "fit", *FLAGS)
    monkeypatch.setattr(Fit, "better", property(lambda _: False))
    refused = run(*words)

    assert refused.exit_code == 0, refused.output
    assert "not kept" in refused.stdout
    assert not path_beside(model).exists()
    monkeypatch.setattr(Fit, "better", property(lambda _: True))
    assert f"kept      {path_beside(model)}\n" in run(*words).stdout
    before = path_beside(model).read_bytes()
    monkeypatch.setattr(Fit, "better", property(lambda _: False))
    assert "an earlier fit stays there" in run(*words).stdout
    assert path_beside(model).read_bytes() == before
    assert "though not better beyond doubt (--keep)" in run(*words, "--keep").stdout
    assert json.loads(path_beside(model).read_text())["held_out"]["better"] is False


def test_wrong_input_is_one_line(tmp_path):
    (tmp_path / "model.onnx").write_bytes(model_bytes())
    data = pictures(tmp_path / "data", 2)

    fails(run("study", "fit", tmp_path / "model.onnx", data, "-o", tmp_path / "out", *FLAGS), 2, "2 images; a fit")
    assert run("study", "fit", "--help").stdout.count("gradskip-onnx study fit") >= 2
