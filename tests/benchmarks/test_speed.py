"""The benchmark runs: the interleaving, the pages, and a small model against PyTorch, compiled or not, and lxt."""

from __future__ import annotations

import json
import platform
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("timm")
pytest.importorskip("pytorch_grad_cam")

import onnxruntime
import torch
from click.testing import CliRunner

from benchmarks.speed import cases, contenders, measure, page, results
from benchmarks.speed.__main__ import main
from benchmarks.speed.apart import FIRST, LATER, SCRIPT, Process, apart
from benchmarks.speed.measure import Timing, interleaved
from benchmarks.speed.quantised import DYNAMIC, FLOAT, QDQ, QOPERATOR, measure_quantised
from gradskip_onnx import __version__

pytestmark = pytest.mark.torch

SAME = 1e-5


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Where the files of models are, each written once."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch):
    """The benchmark keeps all threads of ONNX Runtime from spinning, for as long as its process lives."""
    monkeypatch.setattr(onnxruntime, "SessionOptions", onnxruntime.SessionOptions)


def test_every_contender_is_called_twice_a_round_in_changing_order():
    calls: list[str] = []
    timings = interleaved({name: partial(calls.append, name) for name in "abc"}, rounds=6)
    assert sorted(calls) == sorted("abc" * 12)
    assert all(calls[i] == calls[i + 1] for i in range(0, len(calls), 2))
    assert len({tuple(calls[i : i + 6]) for i in range(0, len(calls), 6)}) > 1
    assert all(timing.low <= timing.median <= timing.high for timing in timings.values())


def test_long_calls_are_made_once_a_round(monkeypatch):
    monkeypatch.setattr(measure, "LONG", 0.0)
    calls: list[str] = []
    interleaved({"a": partial(calls.append, "a")}, rounds=3)
    assert len(calls) == 3


@pytest.mark.slow
def test_quick_run(models):
    given = [str(models), "--quick", "--model", "ViT-tiny", "--no-processes", "--threads", "1"]
    done = CliRunner().invoke(main, given)
    assert done.exit_code == 0, done.output
    result, *quantised = json.loads((models / "speed.json").read_text())["results"]
    assert {one["form"] for one in quantised} == {FLOAT, DYNAMIC, QDQ, QOPERATOR}
    assert set(result["differences"]) == {contenders.TORCH, contenders.LXT}
    assert max(result["differences"].values()) < SAME
    assert result["missing"] == {contenders.COMPILED: "not asked for"}
    assert result["megabytes"]["with gradients"] > result["megabytes"]["plain"] > 1
    assert {contenders.SHARED, contenders.SEPARATE, contenders.OUR_LRP} < set(result["timings"])
    assert "ours, gradskip+" in (models / "speed.md").read_text()
    assert (models / "speed.svg").read_text().startswith("<svg")


@pytest.mark.slow
def test_processes_of_their_own(tmp_path, models):
    """Our command twice, and the script a user of PyTorch would write; all of them leave a picture."""
    case = cases.QUICK["ViT-tiny"]
    found = apart(case, cases.written(case, models), tmp_path, threads=1, rounds=1)
    assert set(found) == {FIRST, LATER, SCRIPT}
    assert all(process.seconds.median > 0 and process.megabytes > 10 for process in found.values())
    assert {path.name for path in (tmp_path / "out").glob("*.png")} == {"image.png", "torch.png"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "segformer_b0"])
def test_compiled_maps_are_the_eager_ones(name, models, monkeypatch):
    """With a compiler that changes nothing: the zeros that are added hand out the gradients of the block outputs."""
    monkeypatch.setattr(torch, "compile", lambda module, **_: module)
    case = next(case for case in cases.QUICK.values() if case.name == name)
    given = contenders.setting(case, cases.written(case, models), 2, 1)
    found = contenders.Field()
    contenders._compiled(given, found)
    assert not found.missing
    assert found.differences[contenders.COMPILED] < SAME


def test_a_compiler_that_fails_is_named(models, monkeypatch):
    def failing(*_args, **_options):
        raise RuntimeError("no compiler\nmore")

    monkeypatch.setattr(torch, "compile", failing)
    case = cases.QUICK["ViT-tiny"]
    found = contenders.Field()
    contenders._compiled(contenders.setting(case, cases.written(case, models), 1, 1), found)
    assert found.missing == {contenders.COMPILED: "RuntimeError: no compiler"}
    assert not found.calls


@pytest.mark.slow
def test_a_process_that_fails_is_named(models):
    case = cases.QUICK["ViT-tiny"]
    given = contenders.setting(case, cases.written(case, models), 1, 1)
    found = contenders.Field()
    with ExitStack() as stack:
        contenders._lxt(replace(given, case=replace(case, name="vit_that_nobody_made")), found, stack)
    assert "timm does not know" in found.missing[contenders.LXT]
    assert not found.calls


def test_every_model_and_batch_gets_a_process(tmp_path, monkeypatch):
    """And only what is missing, where a run is resumed."""
    started: list[list[str]] = []
    monkeypatch.setattr("benchmarks.speed.__main__._elsewhere", started.append)
    given = [str(tmp_path), "--model", "ViT-tiny", "--model", "ViT-B/16", "--threads", "3", "--no-compile"]
    assert CliRunner().invoke(main, given).exit_code == 0
    assert [(line[2], line[4], line[8]) for line in started] == [
        *((name, batch, "times") for name in ("ViT-tiny", "ViT-B/16") for batch in ("1", "8")),
        ("ViT-B/16", "1", "quantised"),
    ]
    assert all(line[5:7] == ["--threads", "3"] and line[9:] == ["--no-compile"] for line in started)

    del started[:]
    about = {"version": __version__, "threads": 3, "machine": platform.machine(), "quick": False}
    results.keep([measured("ViT-tiny", 8, 1.0)], about, tmp_path)
    assert CliRunner().invoke(main, [*given, "--resume"]).exit_code == 0
    assert [line[2:9:2] for line in started] == [
        ["ViT-tiny", "1", "3", "times"], ["ViT-B/16", "1", "3", "times"], ["ViT-B/16", "8", "3", "times"],
        ["ViT-B/16", "1", "3", "quantised"],
    ]  # fmt: skip


@pytest.mark.slow
def test_a_process_that_takes_too_long_is_compared_and_named(models, monkeypatch):
    monkeypatch.setattr(contenders, "PATIENCE", 0.0)
    case = cases.QUICK["ViT-tiny"]
    found = contenders.Field()
    with ExitStack() as stack:
        contenders._lxt(contenders.setting(case, cases.written(case, models), 2, 1), found, stack)
    assert "its first call took" in found.missing[contenders.LXT]
    assert found.differences[contenders.LXT] < SAME
    assert set(found.calls) == {contenders.OUR_LRP}


def test_a_model_whose_weights_are_absent_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(cases, "ASSETS", "")
    done = CliRunner().invoke(main, [str(tmp_path), "--model", "DeiT-tiny, trained", "--batch", "1"])
    assert done.exit_code == 0
    assert "left out: GRADSKIP_ASSETS" in done.output


# --- results and pages ----------------------------------------------------------------------------------------------


def measured(model: str, batch: int, whole: float) -> results.Result:
    timing = {
        contenders.PLAIN: 100.0, contenders.DEFAULT: 80.0, contenders.PLUS_GRAPH: 150.0, contenders.PLUS: 180.0,
        contenders.GRAPH: 180.0, contenders.WHOLE: whole, contenders.TORCH: 400.0,
    }  # fmt: skip
    shell = {FIRST: (2.0, 900.0), LATER: (1.0, 450.0), SCRIPT: (6.0, 1000.0)}
    return results.Result(
        model, batch, {name: Timing(value, value, value) for name, value in timing.items()},
        {contenders.TORCH: 3e-6}, {contenders.LXT: "a reason"}, 30.0, {"plain": 10.0, "with gradients": 10.5},
        {name: Process(Timing(seconds, seconds, seconds), peak) for name, (seconds, peak) in shell.items()},
    )  # fmt: skip


def test_a_run_adds_to_the_results_that_are_there(tmp_path):
    about = {"version": "1"}
    first = [measured("ViT-B/16", 1, 200.0), measured("ViT-tiny", 8, 200.0)]
    results.keep(first, about, tmp_path)
    assert results.read(tmp_path, about) == first
    assert results.read(tmp_path, {"version": "2"}) == []

    again = measured("ViT-B/16", 1, 210.0)
    found = results.merged(first, again, list(cases.CASES))
    assert found == [first[1], again]
    assert [(r.model, r.batch) for r in results.merged(found, measured("ViT-tiny", 1, 1.0), list(cases.CASES))] == [
        ("ViT-tiny", 1), ("ViT-tiny", 8), ("ViT-B/16", 1)
    ]  # fmt: skip


def test_marks_say_what_was_missed():
    text = page.marks([measured("ViT-B/16", 1, 205.0), measured("ViT-tiny", 8, 500.0)])
    assert "| ViT-B/16, gradskip+ / forward | at most 1.75 | **1.80** |" in text
    assert "| ViT-B/16, gradskip / forward | at most 2 | **2.05** |" in text
    assert "| ViT-B/16, gradskip, propagation / the pass that feeds it | at most 0.1 | **0.14** |" in text
    assert "| ViT-B/16, from the shell: PyTorch script / our first call | at least 5 | **3.00** |" in text
    assert "| ViT-B/16, from the shell: PyTorch script / our later calls | at least 5 | 6.00 |" in text
    assert "| ViT-B/16, peak memory: our later calls / PyTorch script | at most 0.5 | 0.45 |" in text
    assert "ViT-tiny" not in text  # marks are for one image


def test_times_are_given_beside_both_plain_sessions():
    text = page.times([measured("ViT-B/16", 1, 205.0), form("ViT-B/16", QDQ, 1.0, 2.0)])
    assert "| ViT-B/16 | 1 | ours, gradskip+ | 180.0 | 180.0 to 180.0 | 1.80 | 2.25 |" in text
    assert QDQ not in text


def form(model: str, name: str, own: float, explained: float) -> results.Result:
    timings = {what: Timing(ms, ms, ms) for what, ms in ((contenders.PLAIN, own), (contenders.PLUS, explained))}
    return results.Result(model, 1, timings, form=name)


def test_quantised_forms_are_compared_with_the_float_file():
    found = [
        form("ViT-B/16", FLOAT, 10.0, 20.0),
        form("ViT-B/16", QDQ, 8.0, 20.0),
        form("ViT-B/16", DYNAMIC, 5.0, 15.0),
    ]
    text = page.quantised([measured("ViT-B/16", 1, 205.0), *found])
    assert f"| ViT-B/16 | {FLOAT} | 10.0 | 20.0 | 2.00 | 1.00 |" in text
    assert f"| ViT-B/16 | {QDQ} | 8.0 | 20.0 | 2.50 | 1.25 |" in text
    assert f"| ViT-B/16 | {DYNAMIC} | 5.0 | 15.0 | 3.00 | **1.50** |" in text
    assert page.quantised(found[1:]) == ""


def test_results_of_several_forms_are_kept_apart(tmp_path):
    whole, one, other = measured("ViT-B/16", 1, 205.0), form("ViT-B/16", QDQ, 8.0, 20.0), form("ViT-B/16", FLOAT, 1, 2)
    found = results.merged(results.merged([whole], one, list(cases.CASES)), other, list(cases.CASES))
    results.keep(found, {}, tmp_path)
    assert results.read(tmp_path, {}) == found == [whole, one, other]


def test_a_page_is_filled_between_its_marks():
    written = (
        "before\n<!-- table files -->\nold\n<!-- end -->\nbetween\n<!-- table agreement -->\n<!-- end -->\nafter\n"
    )
    text = page.filled(written, [measured("ViT-B/16", 1, 205.0)])
    assert text.startswith("before\n<!-- table files -->\n| model |")
    assert "old" not in text
    assert "| ViT-B/16 | 10.0 | 10.5 |\n<!-- end -->\nbetween\n" in text
    assert "| ViT-B/16 | 1 | lxt, AttnLRP | missing: a reason |\n<!-- end -->\nafter\n" in text
    assert page.filled(text, [measured("ViT-B/16", 1, 205.0)]) == text


def test_the_page_of_the_project_names_tables_that_exist():
    text = (Path(__file__).parent.parent.parent / "docs" / "performance.md").read_text(encoding="utf-8")
    names = {found[1] for found in page.MARKED.findall(text)}
    assert names == set(page.TABLES)


def test_photographs_are_the_input_of_trained_weights(monkeypatch, tmp_path, models):
    from PIL import Image

    (tmp_path / "images").mkdir()
    for number in range(3):
        Image.new("RGB", (50, 40), (90 * number, 10, 10)).save(tmp_path / "images" / f"{number}.png")
    monkeypatch.setattr(cases, "ASSETS", str(tmp_path))
    plain = contenders.setting(cases.QUICK["ViT-tiny"], cases.written(cases.QUICK["ViT-tiny"], models), 1, 1)
    found = cases.inputs(cases.Case("deit", trained="weights"), plain.explainer, 2)
    assert found.shape == (2, 3, 32, 32)
    assert not np.array_equal(found[0], found[1])


@pytest.mark.slow
def test_every_form_of_a_file_is_measured(models):
    found = measure_quantised("ViT-tiny", cases.QUICK["ViT-tiny"], models, threads=1, rounds=1)
    assert [result.form for result in found] == [FLOAT, DYNAMIC, QDQ, QOPERATOR]
    assert all(result.ratio(contenders.PLUS) > 0 for result in found)  # how much depends on the machine
