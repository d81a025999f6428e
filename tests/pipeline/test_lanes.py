"""How many images are in work at once, and that neither maps nor records depend on it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradskip_onnx.errors import InputError
from gradskip_onnx.explanation.files import encode_explanation
from gradskip_onnx.methods import choose_method
from gradskip_onnx.output.folder import Folder
from gradskip_onnx.pipeline.explain_jobs import explain_jobs, write_jobs
from gradskip_onnx.pipeline.jobs import Job, plan_jobs
from gradskip_onnx.pipeline.lanes import FEW, ONE_LANE, Lanes, in_lanes, lanes_that_fit, pass_bytes
from gradskip_onnx.pipeline.question import ExplainRequest, Question
from gradskip_onnx.pipeline.run_record import NAME, run_record
from gradskip_onnx.types import Grid
from tests.support.evaluation_data import explainer, pictures

GB = 1 << 30


@pytest.fixture(scope="module")
def model():
    return explainer()


@pytest.mark.parametrize(
    ("needed", "cores", "free", "expected"),
    [
        (GB, 4, 100 * GB, 4),  # as many as cores
        (GB, 4, 3 * GB, 1),
        (GB, 4, 6 * GB, 2),  # three would fit, and one core would be idle
        (GB, 6, 8 * GB, 3),
        (GB, 1, 100 * GB, 1),
        (50 * GB, 4, 8 * GB, 1),  # one pass there must be
        (GB, 2, None, 2),
    ],
)
def test_lanes_fit_into_half_of_what_is_free(needed, cores, free, expected):
    assert lanes_that_fit(needed, cores, free) == expected


def test_what_a_pass_takes_grows_with_attention_and_pixels(model):
    """Counted by hand for one block of 9 x 9 patches and a class token, 2 heads, keys in squares of 3."""
    block = replace(model.architecture.blocks[0], heads=2, grid=Grid(9, 9), reduction=3, special=(0,))
    made = replace(model.architecture, blocks=(block, block))
    height, width = made.input_dims.size

    assert pass_bytes(made, 5) == 5 * (2 * 2 * 2 * 82 * 10 * 4 + 4096 * height * width)


def test_few_images_keep_the_session_there_is(model):
    assert in_lanes(model, FEW, 1) == (model, ONE_LANE)


def test_many_images_get_sessions_of_fewer_threads(model):
    found, lanes = in_lanes(model, FEW + 1, 1, threads=3)

    assert lanes == Lanes(3, ahead=2)
    assert found.model is not model.model
    assert found.sha256 == model.sha256
    np.testing.assert_array_equal(
        found.predict(np.zeros((1, *model.architecture.input_dims), np.float32)),
        model.predict(np.zeros((1, *model.architecture.input_dims), np.float32)),
    )


def done(model: Any, jobs: tuple[Job, ...], out: Path, request: ExplainRequest, lanes: Lanes) -> list[str]:
    folder = Folder(out)
    folder.open()
    if not request.likeliest:
        folder.claim(job.stem for job in jobs)
    with run_record(folder) as record:
        outcomes = write_jobs(
            explain_jobs(model, jobs, request, lanes=lanes), request, folder, record=record, lanes=lanes
        )
        return [f"{each.job.stem}: {each.error or len(each.result())}" for each in outcomes]


def files(out: Path) -> dict[str, Any]:
    """All files but the lock; of documents and the record all but times and places."""
    found: dict[str, Any] = {path.name: path.read_bytes() for path in out.iterdir() if path.suffix in (".png", ".npy")}
    for path in out.glob("*.json"):
        found[path.name] = {name: value for name, value in json.loads(path.read_text()).items() if name != "timings"}
    return found | {NAME: (out / NAME).read_text()}


@pytest.mark.parametrize(
    ("method", "settings"),
    [("gradskip+", {}), ("gradskip+", {"batch_size": 3}), ("gradskip+", {"likeliest": 2}), ("rise", {})],
    ids=str,
)
def test_files_and_record_are_those_of_a_serial_run(model, tmp_path, settings, method):
    """Bad images among good ones; one lane and several."""
    jobs = plan_jobs(sorted(pictures(tmp_path / "in", 7).glob("*.png")))
    jobs[2].path.write_bytes(b"no image")
    jobs[6].path.unlink()
    options = {"masks": 4} if method == "rise" else {}
    request = ExplainRequest(Question(choose_method(method, **options)), **settings)
    serial = done(model, jobs, tmp_path / "serial", request, ONE_LANE)

    assert sum(": " in line and "0" <= line[-1] <= "9" for line in serial) == 5
    for lanes in (Lanes(1, ahead=1), Lanes(3, ahead=2)):
        out = tmp_path / f"{lanes.count}"
        assert done(model, jobs, out, request, lanes) == serial
        assert files(out) == files(tmp_path / "serial")


class Stop(BaseException):
    """Ends a run as a signal does."""


@pytest.mark.parametrize("lanes", [ONE_LANE, Lanes(3, ahead=2)], ids=str)
@pytest.mark.parametrize("kind", [Stop, RuntimeError])
def test_a_stage_that_breaks_ends_the_run_with_whole_files(model, tmp_path, monkeypatch, lanes, kind):
    """The third picture cannot be drawn: two images are done, and no other is begun."""

    def broken(stem: str, *more: Any) -> Any:
        if stem == "02":
            raise kind("the pen broke")
        return encode_explanation(stem, *more)

    monkeypatch.setattr("gradskip_onnx.pipeline.explain_jobs.encode_explanation", broken)
    jobs = plan_jobs(sorted(pictures(tmp_path / "in", 9).glob("*.png")))
    request = ExplainRequest(Question(choose_method("gradskip+")))
    with pytest.raises(kind, match="the pen broke"):
        done(model, jobs, tmp_path / "out", request, lanes)

    written = {path.stem for path in (tmp_path / "out").glob("*.json")}
    assert written == {"00", "01"} or (kind is Stop and written <= {"00", "01"})  # what waits is not begun after a Stop
    states = [json.loads(line)["state"] for line in (tmp_path / "out" / NAME).read_text().splitlines()]
    assert states == ["begun", "done"] * len(written)


def test_a_failed_image_is_no_error_of_the_run(model, tmp_path):
    jobs = plan_jobs([tmp_path / "none.png"])
    request = ExplainRequest(Question(choose_method("gradskip+")))
    (found,) = explain_jobs(model, jobs, request, lanes=Lanes(2, ahead=2))

    with pytest.raises(InputError, match="no such image"):
        found.result()
