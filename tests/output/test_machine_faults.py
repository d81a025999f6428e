"""Disks that fill up, folders that vanish or are read-only, writers that are killed: whole files or none, one line."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import onnx
import pytest

import gradskip_onnx
from gradskip_onnx.errors import InputError
from gradskip_onnx.evaluation import choose_method, choose_metric, evaluate, set_up, write
from gradskip_onnx.evaluation.pictures import Pictures
from gradskip_onnx.output import atomic
from gradskip_onnx.output.atomic import remove_leftovers, temporary_name, write_whole
from gradskip_onnx.output.folder import Folder
from gradskip_onnx.pipeline.ledger import Ledger
from tests.support.command_line import fails, run
from tests.support.evaluation_data import FLAGS, PREPROCESS, explainer, model_bytes, pictures

CHOSEN = ("--methods", "rollout", "--metrics", "insertion[steps=4]", "--resamples", 100, "--pictures", 0, *FLAGS)
CONTENTS = {".png": b"p", ".npy": b"n", ".json": b"{}"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "model.onnx").write_bytes(model_bytes())
    pictures(tmp_path / "data", 3)
    return tmp_path


def full(room: int):
    """An os.write for a disk with so many bytes left: a part is written, then nothing."""
    left, original = [room], os.write

    def write_some(handle: int, data: bytes) -> int:
        if handle < 3:
            return original(handle, data)
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        part = bytes(data)[: left[0]]
        left[0] -= len(part)
        return original(handle, part)

    return write_some


def test_disk_full_a_ledger_keeps_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ledger = Ledger(tmp_path / "results.jsonl")
    ledger.append({"key": "a"})
    before = ledger.path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full(10))
        with pytest.raises(InputError, match="No space left"):
            ledger.append({"key": "b"})
    assert ledger.path.read_bytes() == before
    assert "b" not in ledger.done
    ledger.append({"key": "b"})
    assert Ledger.open(ledger.path).done == {"a", "b"}


@pytest.mark.parametrize("room", [0, 200, 1500])
def test_disk_full_an_evaluation_stops_and_goes_on(place: Path, monkeypatch: pytest.MonkeyPatch, room: int):
    """One line and exit code 2; with room again, the same table as without the fault."""
    words = ("evaluate", place / "model.onnx", place / "data", *CHOSEN)
    assert run(*words, "-o", place / "whole").exit_code == 0
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full(room))
        fails(run(*words, "-o", place / "out"), 2, "No space left")
    assert not (place / "out" / "results.csv").exists()
    assert run(*words, "-o", place / "out").exit_code == 0
    for name in ("results.csv", "results.jsonl"):
        assert (place / "out" / name).read_bytes() == (place / "whole" / name).read_bytes()


def test_disk_full_an_explanation_leaves_nothing(place: Path, monkeypatch: pytest.MonkeyPatch):
    def no_room(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic, "rename_whole", no_room)
    words = ("explain", place / "model.onnx", place / "data" / "00.png", "-o", place / "out")
    fails(run(*words), 2, "No space left")
    assert list((place / "out").iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full disk is a device of Linux")
def test_disk_full_for_what_is_printed(place: Path):
    """Results that cannot be printed do not pass for a success."""
    words = [sys.executable, "-P", "-m", "gradskip_onnx.cli", "cache"]
    with Path("/dev/full").open("wb") as stream:
        done = subprocess.run(words, stdout=stream, stderr=subprocess.PIPE, check=False, cwd=place)
    assert done.returncode != 0


def test_vanishing_output_folder(place: Path):
    """Taken away in the middle of an evaluation: one line, and it is not made again half."""
    data, out = place / "data", place / "out"
    from gradskip_onnx.datasets import load

    evaluation, _ = set_up(
        explainer(), load(str(data)), [choose_method("rollout")], [choose_metric("insertion", steps=4)], batch=1
    )
    with pytest.raises(InputError, match="cannot be written"):
        evaluate(evaluation, out, resamples=100, step=lambda _: shutil.rmtree(out, ignore_errors=True))
    assert not out.exists()
    report = evaluate(evaluation, out, resamples=100)
    shutil.rmtree(out)
    with pytest.raises(InputError, match="cannot be written"):
        write(report, title="gone")
    assert not out.exists()


def test_vanishing_folder_of_an_explanation(tmp_path: Path):
    folder = Folder(tmp_path / "out")
    folder.open()
    folder.claim(["a"])
    shutil.rmtree(tmp_path / "out")
    with pytest.raises(InputError, match="cannot be written"):
        folder.write("a", CONTENTS)
    from PIL import Image

    with pytest.raises(InputError, match="cannot be written"):
        Pictures(tmp_path / "out").save(Pictures(tmp_path / "out").path({}), Image.new("RGB", (2, 2)))
    assert not (tmp_path / "out").exists()


def test_read_only_output_folder(place: Path, monkeypatch: pytest.MonkeyPatch):
    """Said before anything is read."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "touch", refuse)
    for command, data in (("explain", place / "data" / "00.png"), ("evaluate", place / "data")):
        fails(run(command, place / "model.onnx", data, "-o", place / "out"), 2, "Read-only file system")


def test_no_room_in_the_temporary_folder(place: Path, monkeypatch: pytest.MonkeyPatch):
    """Explaining and evaluating need none; for `export` see tests/exporters."""
    import tempfile

    def no_room(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("mkstemp", "mkdtemp", "gettempdir"):
        monkeypatch.setattr(tempfile, name, no_room)
    monkeypatch.setenv("GRADSKIP_CACHE", str(place / "kept"))
    assert run("explain", place / "model.onnx", place / "data" / "00.png", "-o", place / "out").exit_code == 0
    assert run("evaluate", place / "model.onnx", place / "data", *CHOSEN, "-o", place / "table").exit_code == 0


@pytest.mark.parametrize("command", ["explain", "evaluate"])
@pytest.mark.parametrize("most", [0, 900, 6000])
def test_files_may_not_grow(place: Path, command: str, most: int):
    """A limit of the system on the size of files: one line or the whole result, the cache is done without."""
    import resource

    out = place / "out"
    data, chosen = (place / "data" / "00.png", FLAGS) if command == "explain" else (place / "data", CHOSEN)
    words = [command, place / "model.onnx", data, *chosen, "-o", out, "-q"]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "gradskip_onnx.cli", *map(str, words)],
        env=os.environ | {"GRADSKIP_CACHE": str(place / "kept")}, capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert [line[:7] for line in done.stderr.splitlines()] == ["error: "]
    assert "File too large" in done.stderr
    if command == "explain":
        assert list(out.iterdir()) == []
        return
    assert not (out / "report.html").exists()
    assert all(path.read_bytes()[-1:] in (b"\n", b"") for path in out.glob("*.jsonl"))
    assert all(json.loads(path.read_bytes()) for path in out.glob("*.json"))


def test_model_replaced_while_an_evaluation_uses_it(place: Path):
    """By a rename, as good programs do: the table is that of the model that was opened, or there is none."""
    from gradskip_onnx.datasets import load

    model, data = place / "model.onnx", load(str(place / "data"))
    other = onnx.load(model)
    head = other.graph.initializer[-1]
    head.CopyFrom(onnx.numpy_helper.from_array(-onnx.numpy_helper.to_array(head), head.name))
    chosen = [choose_method("rollout")], [choose_metric("insertion", steps=4)]

    def measure(out: Path, step: Callable[[str], None]) -> bytes:
        opened = gradskip_onnx.load(model, preprocess=PREPROCESS, threads=1)
        evaluation, _ = set_up(opened, data, *chosen, batch=1)
        evaluate(evaluation, out, resamples=100, step=step)
        return (out / "results.jsonl").read_bytes()

    def replace(_: str) -> None:
        onnx.save_model(other, place / "other.onnx")
        (place / "other.onnx").replace(model)

    undisturbed = measure(place / "whole", lambda _: None)
    assert measure(place / "out", replace) == undisturbed
    assert measure(place / "new", lambda _: None) != undisturbed


@pytest.mark.parametrize("name", ["results.jsonl", "timings.jsonl", "evaluation.json", ".gradskip-lock"])
def test_pipes_in_the_output_folder(place: Path, name: str):
    """Nobody waits for whoever might read or write them."""
    (place / "out").mkdir()
    os.mkfifo(place / "out" / name)
    result = run("evaluate", place / "model.onnx", place / "data", *CHOSEN, "-o", place / "out")
    if name == ".gradskip-lock":  # a pipe can be locked like a file
        assert result.exit_code == 0
    else:
        fails(result, 2, name)


def test_leftovers_of_killed_writers_are_removed(tmp_path: Path):
    """Those of a living writer stay."""
    left = tmp_path / temporary_name()
    left.write_bytes(b"half")
    (tmp_path / ".gradskip-mine").write_bytes(b"the user's")
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom gradskip_onnx.output.locks import try_lock\n"
        "stream = open(sys.argv[1], 'xb')\ntry_lock(stream.fileno())\nprint('held', flush=True)\ntime.sleep(60)\n"
    )
    alive = tmp_path / temporary_name()
    with subprocess.Popen([sys.executable, "-P", "-c", program, str(alive)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"held\n"
        remove_leftovers(tmp_path)
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([".gradskip-mine", alive.name])
        writer.kill()
    Folder(tmp_path).open()
    assert [path.name for path in tmp_path.iterdir()] == [".gradskip-mine"]


def test_two_explanations_at_once_never_mix(tmp_path: Path):
    """Both claimed the name before either wrote it: one gets all three files, the other a line."""
    folders = [Folder(tmp_path) for _ in range(8)]
    for folder in folders:
        folder.claim(["a"])

    def attempt(number: int) -> bool:
        try:
            folders[number].write("a", {suffix: bytes([number]) for suffix in CONTENTS})
        except InputError as error:
            return "another run" not in str(error)
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(attempt, range(8)))
    contents = {(tmp_path / f"a{suffix}").read_bytes() for suffix in CONTENTS if (tmp_path / f"a{suffix}").exists()}
    assert sum(won) <= 1
    assert contents in ([set(), {bytes([won.index(True)])}] if any(won) else [set()])


def test_file_systems_without_second_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def unsupported(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", unsupported)
    write_whole(tmp_path / "a", b"1", replace=False)
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "a", b"2", replace=False)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"1"}
