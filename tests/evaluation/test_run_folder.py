"""One folder, one evaluation: another is refused, two at once are refused, and a lock ends with its process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gradskip_onnx import api
from gradskip_onnx.datasets import Selection, load
from gradskip_onnx.errors import InputError
from gradskip_onnx.evaluation import choose_method, choose_metric, evaluate, set_up, write
from gradskip_onnx.evaluation.evaluation import preparation
from gradskip_onnx.images.preprocess import Preprocess
from gradskip_onnx.output.locks import NAME, locked, try_lock
from tests.support import models
from tests.support.command_line import fails
from tests.support.command_line import run as call
from tests.support.evaluation_data import FLAGS, PREPROCESS, explainer, model_bytes, pictures

METRICS = [choose_metric("insertion", steps=4)]


@pytest.fixture(scope="module")
def model():
    return explainer()


def run(model, data: Path, folder: Path, *, force: bool = False, limit: int | None = None, **settings):
    methods = [choose_method("rollout")]
    evaluation, _ = set_up(model, Selection(limit=limit).of(load(str(data))), methods, METRICS, **settings)
    report = evaluate(evaluation, folder, resamples=100, force=force)
    write(report, title="a test")
    return report


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_evaluation_of_another_model_into_the_same_folder_is_refused(model, tmp_path: Path):
    """Both models are named, nothing changes; --force replaces the table and keeps what was measured."""
    data, out = pictures(tmp_path / "data", 2), tmp_path / "out"
    run(model, data, out)
    before = files(out)
    other = api.load(models.vit(models.Vit(heads=4, depth=3, seed=7)).SerializeToString(), preprocess=PREPROCESS)
    with pytest.raises(InputError, match=rf"{model.sha256[:12]}.*{other.sha256[:12]}.*--force"):
        run(other, data, out)
    assert files(out) == before
    run(other, data, out, force=True)
    assert json.loads((out / "results.json").read_bytes())["model"]["sha256"] == other.sha256
    assert (out / "results.jsonl").read_bytes().startswith(before["results.jsonl"])


OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "target": ({"target": "label"}, "target predicted, this one is with label"),
    "score": ({"score": "probability"}, "score logit, this one is with probability"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_evaluation_with_other_settings_is_refused(model, tmp_path: Path, name: str):
    settings, message = OTHERS[name]
    data, out = pictures(tmp_path / "data", 2), tmp_path / "out"
    run(model, data, out)
    with pytest.raises(InputError, match=message):
        run(model, data, out, **settings)


def test_evaluation_of_other_data_is_refused(model, tmp_path: Path):
    data, out = pictures(tmp_path / "data", 3), tmp_path / "out"
    run(model, data, out)
    other = pictures(tmp_path / "other", 2)
    for path in other.glob("*.png"):
        path.write_bytes((data / "02.png").read_bytes())
    with pytest.raises(InputError, match=r"/data, this one is on .*/other"):
        run(model, other, out)


def test_the_same_data_elsewhere_and_more_of_it_go_on(model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    data, out = pictures(tmp_path / "data", 4), tmp_path / "out"
    run(model, data, out, limit=2)
    data = data.rename(tmp_path / "moved")
    assert run(model, data, out).summary.images == 4
    monkeypatch.chdir(tmp_path)
    assert run(model, Path("moved"), out).summary.images == 4


def test_a_note_that_is_not_ours(model, tmp_path: Path):
    data, out = pictures(tmp_path / "data", 1), tmp_path / "out"
    out.mkdir()
    for text in ("{}", "[" * 100_000, "3"):
        (out / "evaluation.json").write_text(text)
        with pytest.raises(InputError, match=r"evaluation.json"):
            run(model, data, out)


def test_two_runs_at_once_in_one_folder(model, tmp_path: Path):
    data, out = pictures(tmp_path / "data", 1), tmp_path / "out"
    (tmp_path / "model.onnx").write_bytes(model_bytes())
    out.mkdir()
    with locked(out):
        result = call("evaluate", tmp_path / "model.onnx", data, "-o", out, "--methods", "rollout", *FLAGS)
        fails(result, 2, "in use by another run")
    assert [path.name for path in out.iterdir()] == [NAME]
    run(model, data, out)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills as POSIX does")
def test_a_lock_ends_with_its_process_even_if_killed(tmp_path: Path):
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom gradskip_onnx.output.locks import locked\n"
        "with locked(Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(60)\n"
    )
    words = [sys.executable, "-P", "-c", program, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(InputError, match="in use"), locked(tmp_path):
            pass
        other.send_signal(signal.SIGKILL)
    with locked(tmp_path):
        pass
    assert (tmp_path / NAME).exists()


def test_file_systems_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fcntl = pytest.importorskip("fcntl")

    def unsupported(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    handle = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    assert try_lock(handle)
    os.close(handle)


def test_settings_are_stored_by_their_first_names():
    """A folder that an earlier version wrote with the earlier name of a way to resize stays valid."""
    now, earlier = (Preprocess.from_dict({"resize": name}) for name in ("shorter", "short-side"))
    assert preparation(now) == preparation(earlier)
    assert preparation(now)["resize"] == "short-side"
