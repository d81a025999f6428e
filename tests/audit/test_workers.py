"""Several processes, Ray, and what is lost on the way: the rows are those of one process that was left alone."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from gradskip_onnx import api
from gradskip_onnx.audit import ray_engine, workers
from gradskip_onnx.audit.reading import Audit, read_audit
from gradskip_onnx.audit.run import run_audit
from gradskip_onnx.audit.settings import AuditSettings, CheckSettings
from gradskip_onnx.audit.work import PartWork
from gradskip_onnx.datasets import load
from gradskip_onnx.errors import InputError, MissingRuleError, ModelError, UnsupportedModelError
from gradskip_onnx.methods import choose_method
from tests.support.evaluation_data import PREPROCESS, model_bytes, pictures

pytestmark = pytest.mark.slow

COUNT = 24
SETTINGS = AuditSettings(
    method=choose_method("grad-cam"), batch_size=2, part_size=2, check=CheckSettings(draws=2), workers=2
)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "vit.onnx"
    path.write_bytes(model_bytes())
    assert onnx.load(path).graph.node
    return api.load(path, preprocess=PREPROCESS)


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    return pictures(tmp_path_factory.mktemp("photos"), COUNT)


@pytest.fixture(scope="module")
def alone(model, photos, tmp_path_factory) -> Audit:
    return run_audit(model, load(str(photos)), tmp_path_factory.mktemp("alone"), replace(SETTINGS, workers=1))


def rows_of(audit: Audit) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = audit.table.drop_columns(["seconds"]).to_pylist()
    return rows


def test_two_processes(model, photos, alone, tmp_path):
    done: list[str] = []

    found = run_audit(model, load(str(photos)), tmp_path, SETTINGS, lambda _left: done.append)

    assert rows_of(found) == rows_of(alone)
    assert sorted(done) == [f"{at:02}.png" for at in range(COUNT)]


def test_a_lost_process(model, photos, alone, tmp_path, monkeypatch):
    """A worker is killed once it has finished a part; others do what it was doing."""
    monkeypatch.setattr(workers, "ProcessPoolExecutor", _killing(ProcessPoolExecutor, rounds=1))

    found = run_audit(model, load(str(photos)), tmp_path, SETTINGS)

    assert rows_of(found) == rows_of(alone)


def test_processes_that_are_lost_again_and_again(model, photos, tmp_path, monkeypatch):
    """Without a part finished in between, the run ends with a word on what to do."""
    monkeypatch.setattr(workers, "_make", os._exit)  # what the processes are asked to do

    with pytest.raises(ModelError, match="use fewer --workers"):
        run_audit(model, load(str(photos)), tmp_path, SETTINGS)


def test_workers_end_with_their_parent(model, photos, tmp_path):
    """A parent that is killed leaves no process behind, and its folder can be gone on with."""
    command = [
        sys.executable, "-P", "-m", "gradskip_onnx.cli", "audit", str(model.model._file.path), str(photos), "-q",
        "-o", str(tmp_path / "audit"), "--workers", "2", "--part-size", "2", "--batch-size", "2", "--preset", "half",
    ]  # fmt: skip
    parent = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _wait(lambda: len(_below(parent.pid)) >= 2)
    children = _below(parent.pid)

    parent.send_signal(signal.SIGKILL)
    parent.wait()

    _wait(lambda: not any(_alive(pid) for pid in children))
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    assert read_audit(tmp_path / "audit").whole


def test_ray(model, photos, alone, tmp_path):
    pytest.importorskip("ray")

    found = run_audit(model, load(str(photos)), tmp_path, replace(SETTINGS, engine="ray"))

    assert rows_of(found) == rows_of(alone)


def test_what_stops_an_audit_on_ray_is_said_as_without(model, photos, tmp_path, capfd):
    """Not wrapped in what Ray says, and nothing of Ray on the terminal."""
    pytest.importorskip("ray")
    (tmp_path / "photos").mkdir()
    for path in photos.glob("*.png"):
        (tmp_path / "photos" / path.name).write_bytes(path.read_bytes())

    with pytest.raises(InputError, match="no image has a label"):
        run_audit(model, load(str(tmp_path / "photos")), tmp_path / "out",
                  replace(SETTINGS, engine="ray", target="label"))  # fmt: skip
    assert "UserCodeException" not in capfd.readouterr().err


@pytest.mark.parametrize("error", [InputError("a"), UnsupportedModelError("code", "b"), MissingRuleError("c")])
def test_errors_go_from_process_to_process(error):
    again = pickle.loads(pickle.dumps(error))

    assert (type(again), str(again), again.exit_code) == (type(error), str(error), error.exit_code)
    assert vars(again) == vars(error)


def test_actors_that_are_lost_again_and_again(model, photos, tmp_path, monkeypatch):
    """Ray would try for ever."""
    pytest.importorskip("ray")

    class Ending(ray_engine.PartMaker):  # defined here, so that it is sent to the actors
        def __call__(self, _batch):
            os._exit(1)

    monkeypatch.setattr(ray_engine, "PartMaker", Ending)
    with pytest.raises(ModelError, match=r"3 new attempts at a part .*use fewer --workers"):
        run_audit(model, load(str(photos)), tmp_path, replace(SETTINGS, engine="ray"))


def test_the_same_work_elsewhere(model, photos):
    """What is sent to a process: the source of the data, and a share of the cores."""
    work = PartWork(model, load(str(photos)), "somewhere", SETTINGS, 2)

    sent = work.for_other_processes(os.cpu_count() or 1)

    assert sent.explainer.model.threads == 1
    assert [entry.id for entry in sent.dataset.entries] == [entry.id for entry in work.dataset.entries]


def _killing(pool, rounds: int):
    """A pool that kills one of its processes as soon as a part is finished, in the first rounds."""

    class Killing(pool):  # type: ignore[misc]
        left = rounds

        def submit(self, *args, **named):
            future = super().submit(*args, **named)
            if Killing.left:
                Killing.left -= 1
                future.add_done_callback(lambda _: os.kill(next(iter(self._processes)), signal.SIGKILL))
            return future

    return Killing


def _wait(condition, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)


def _below(pid: int) -> list[int]:
    """The child processes of a process that run our workers."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                if int(parent) == pid and b"spawn_main" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def _alive(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
