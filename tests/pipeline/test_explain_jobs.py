"""Files of images through one explainer into files, as the command line and later commands do it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradskip_onnx import api
from gradskip_onnx.errors import InputError
from gradskip_onnx.methods import choose_method
from gradskip_onnx.output.folder import Folder
from gradskip_onnx.pipeline.explain_jobs import check, explain_jobs, write_jobs
from gradskip_onnx.pipeline.jobs import Job, plan_jobs
from gradskip_onnx.pipeline.question import ExplainRequest, Question
from tests.support.evaluation_data import PREPROCESS, explainer, pictures
from tests.support.models import segmenter

BATCHED: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-7}  # batching changes the order of sums inside a matrix product


@pytest.fixture(scope="module")
def model():
    return explainer()


def request_for(method: str = "gradskip", region: Any = None, **settings: Any) -> ExplainRequest:
    return ExplainRequest(Question(choose_method(method), region=region), **settings)


def jobs_of(folder: Path, count: int) -> tuple[Job, ...]:
    return plan_jobs(sorted(pictures(folder, count).glob("*.png")))


@pytest.mark.parametrize("batch_size", [1, 2, 8])
def test_a_bad_image_is_an_outcome_in_its_place(model, tmp_path, batch_size):
    jobs = jobs_of(tmp_path, 4)
    jobs[1].path.write_bytes(b"no image")
    jobs[3].path.unlink()
    found = list(explain_jobs(model, jobs, request_for(batch_size=batch_size)))

    assert [each.job for each in found] == list(jobs)
    assert [each.error is None for each in found] == [True, False, True, False]
    assert "01.png" in str(found[1].error)
    for each in (found[0], found[2]):
        (ours,) = each.result().explanations
        np.testing.assert_allclose(ours.map, model.explain(each.job.path, method="gradskip").map, **BATCHED)
        assert each.result().picture.name == str(each.job.path)


def test_regions_share_a_pass(tmp_path):
    """The same point of every image, in one run or each in its own."""
    model = api.load(segmenter().SerializeToString(), preprocess=PREPROCESS, threads=1)
    jobs = jobs_of(tmp_path, 3)
    one, all_at_once = (
        [
            each.result().explanations[0].map
            for each in explain_jobs(model, jobs, request_for(region=(20.0, 9.0), target=1, batch_size=size))
        ]
        for size in (1, 3)
    )

    np.testing.assert_allclose(one, all_at_once, **BATCHED)


def test_images_are_opened_as_outcomes_are_asked_for(model, tmp_path):
    jobs = jobs_of(tmp_path, 3)
    outcomes = explain_jobs(model, jobs, request_for())
    next(outcomes).result()
    jobs[2].path.unlink()  # not opened yet

    assert [each.error is None for each in outcomes] == [True, False]


def test_files_of_each_image(model, tmp_path):
    jobs = jobs_of(tmp_path / "in", 2)
    folder = Folder(tmp_path / "out")
    folder.open()
    folder.claim(job.stem for job in jobs)
    request = request_for("gradskip+", target=3, batch_size=2)
    found = list(write_jobs(explain_jobs(model, jobs, request), request, folder))

    assert sorted(path.name for path in folder.path.iterdir()) == [
        f"{stem}.{kind}" for stem in ("00", "01") for kind in ("json", "npy", "png")
    ]
    (written,) = found[1].result()
    assert written.document["score"] == "the method's own"
    assert written.document["target"]["index"] == 3
    np.testing.assert_array_equal(np.load(written.files[1]), written.explanation.map)


def test_a_clash_of_names_is_the_failure_of_one_image(model, tmp_path):
    """Names of several classes are known only when the model has spoken."""
    jobs = jobs_of(tmp_path / "in", 2)
    folder = Folder(tmp_path / "out")
    folder.open()
    request = request_for(likeliest=2)
    first = [each.result() for each in write_jobs(explain_jobs(model, jobs[:1], request), request, folder)]
    assert [len(each) for each in first] == [2]
    again = list(write_jobs(explain_jobs(model, jobs, request), request, Folder(folder.path)))

    assert "exists" in str(again[0].error)
    assert again[1].error is None


def test_what_fails_for_every_image_is_refused_first(model):
    with pytest.raises(InputError, match="class 7 does not exist"):
        check(model, request_for(target=7))
    with pytest.raises(InputError, match="segmentation"):
        check(model, request_for(region=(3.0, 4.0)))


def test_expected_passes():
    assert request_for("gradskip").passes == 1
    assert request_for("rise", likeliest=5).passes == 5 * 4001
