"""Files that are no files, names that are no names, numbers that are no numbers: one line, exit 2, at once."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from PIL import Image

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.model_configs import beside
from gradskip_onnx.limits import Limit
from gradskip_onnx.untrusted_files import open_regular, read_bounded
from tests.support import models
from tests.support.command_line import fails, run

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes, devices and links of POSIX")
SECONDS, ROOM = 20, 4 << 30  # of any of these; what the tests hold already comes on top of the room


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    """An alarm for whoever waits; a limit for whoever reads a device that never ends."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"not done after {SECONDS} s")

    before = resource.getrlimit(resource.RLIMIT_DATA)
    used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (used + ROOM, before[1]))
    signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    resource.setrlimit(resource.RLIMIT_DATA, before)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("odd")
    (folder / "vit.onnx").write_bytes(models.vit().SerializeToString())
    Image.fromarray(np.full((40, 40, 3), 90, np.uint8)).save(folder / "photo.png")
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "folder").mkdir()
    with (folder / "sparse").open("wb") as stream:
        stream.truncate(64 << 30)
    with socket.socket(socket.AF_UNIX) as door, chdir(folder):  # names of sockets are short
        door.bind("socket")
    return folder


def odd(place: Path) -> dict[str, str]:
    return {
        "pipe": str(place / "pipe"),
        "device": "/dev/zero",
        "socket": str(place / "socket"),
        "loop": str(place / "loop"),
        "folder": str(place / "folder"),
        "sparse": str(place / "sparse"),
        "long": str(place / ("x" * 5000)),
        "deep": "/".join(["d" * 200] * 30),
        "bytes": str(place / os.fsdecode(b"\xff\xfe")),
        "through a file": str(place / "vit.onnx" / "x"),
    }


ODD = tuple(odd(Path()))
PLACES: dict[str, Callable[[Path, str], tuple[object, ...]]] = {
    "model": lambda place, path: ("explain", path, place / "photo.png"),
    "inspected": lambda _, path: ("inspect", path),
    "image": lambda place, path: ("explain", place / "vit.onnx", path),
    "labels": lambda place, path: ("explain", place / "vit.onnx", place / "photo.png", "--labels", path),
    "region": lambda place, path: ("explain", place / "vit.onnx", place / "photo.png", "--region", path),
    "data": lambda place, path: ("evaluate", place / "vit.onnx", path),
    "list": lambda place, path: ("evaluate", place / "vit.onnx", place, "--indices", path),
    "synsets": lambda place, path: ("evaluate", place / "vit.onnx", place, "--synsets", path),
}


def one_line(result: Result, *texts: str) -> None:
    fails(result, 2, *texts)
    error = next(line for line in result.stderr.splitlines() if line.startswith("error: "))
    assert len(error) < 700


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("where", PLACES)
def test_hangs_and_memory_only_regular_files_are_opened(place: Path, tmp_path: Path, where: str, kind: str):
    arguments = PLACES[where](place, odd(place)[kind])
    output = () if where == "inspected" else ("-o", tmp_path / "out")
    one_line(run(*arguments, *output))


@pytest.mark.parametrize("name", ["weights.bin", "config.json", "preprocessor_config.json"])
@pytest.mark.parametrize("kind", ["pipe", "device", "loop", "folder"])
def test_odd_files_beside_a_model(place: Path, tmp_path: Path, name: str, kind: str):
    """A configuration that is no file is passed over."""
    (tmp_path / "vit.onnx").write_bytes((place / "vit.onnx").read_bytes())
    (tmp_path / name).symlink_to(odd(place)[kind])
    assert run("explain", tmp_path / "vit.onnx", place / "photo.png", "-o", tmp_path / "out").exit_code == 0


def test_names_that_are_not_utf8(place: Path, tmp_path: Path):
    """Images work: a name is bytes, and what cannot be shown is shown as a question mark. ONNX wants UTF-8."""
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    image, model = folder / os.fsdecode(b"\xff\xfe.png"), folder / "vit.onnx"
    image.write_bytes((place / "photo.png").read_bytes())
    model.write_bytes((place / "vit.onnx").read_bytes())
    made = run("explain", place / "vit.onnx", image, "-o", folder / "out")
    assert made.exit_code == 0, made.output
    assert json.loads(next((folder / "out").glob("*.json")).read_bytes())["image"]["sha256"]
    chosen = ("--methods", "gradskip", "--metrics", "insertion", "--resamples", "100")
    measured = run("evaluate", place / "vit.onnx", folder, "-o", tmp_path / "eval", *chosen)
    assert measured.exit_code == 0, measured.output
    one_line(run("explain", model, image, "-o", tmp_path / "out"), "not UTF-8")


def test_what_is_read_is_bounded(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_bounded(path, Limit("SOME", 5, "bytes")) == b"12345"
    with pytest.raises(InputError, match="5 bytes, limit 4; GRADSKIP_MAX_SOME raises it"):
        read_bounded(path, Limit("SOME", 4, "bytes"))
    with pytest.raises(OSError, match="a folder, not a regular file"):
        open_regular(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        read_bounded("a\0b", Limit("SOME", 4, "bytes"))


# --- odd arguments --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "."])
def test_an_empty_or_dot_argument_does_not_explain_the_working_folder(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.chdir(place)
    one_line(run("explain", "vit.onnx", name, "-o", tmp_path / "out"), "./ means")
    assert not (tmp_path / "out").exists()
    assert run("explain", "vit.onnx", "./", "-o", tmp_path / "out").exit_code == 0


def test_other_empty_arguments(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(place)
    one_line(run("evaluate", "vit.onnx", "", "-o", tmp_path / "out"), "data ''")
    one_line(run("explain", "", "photo.png", "-o", tmp_path / "out"), "model file")
    one_line(run("explain", "vit.onnx", "photo.png", "-o", tmp_path / "out", "--labels", ""))
    for command in ("explain", "evaluate"):
        result = run(command, "vit.onnx", "photo.png", "-o", "")
        assert (result.exit_code, "empty name" in result.stderr) == (2, True)


USAGE = (["--size", "99999"], ["--size", "16385x8"], ["--size", "9" * 5000], ["--threads", "0"],
         ["--size", "²"])  # fmt: skip


@pytest.mark.parametrize("options", USAGE, ids=lambda pair: " ".join(pair)[:20])
def test_numbers_that_no_machine_has(place: Path, tmp_path: Path, options: list[str]):
    result = run("explain", place / "vit.onnx", place / "photo.png", "-o", tmp_path / "out", *options)
    assert result.exit_code == 2
    assert "Error: Invalid value" in result.stderr
    assert isinstance(result.exception, SystemExit)


@pytest.mark.parametrize("target", ["9" * 5000, "²", "-" * 30])
def test_targets_that_are_no_numbers(place: Path, tmp_path: Path, target: str):
    arguments = ("explain", place / "vit.onnx", place / "photo.png", "-o", tmp_path / "out", f"--target={target}")
    assert run(*arguments).exit_code == 2
    assert isinstance(run(*arguments).exception, SystemExit)


@pytest.mark.parametrize("count", [257, 10_000, 2**31, 2**80])
def test_threads_that_no_machine_has(place: Path, tmp_path: Path, count: int):
    words = ("explain", place / "vit.onnx", place / "photo.png", "-o", tmp_path / "out", "--threads", count)
    one_line(run(*words), "threads", "1 to 256")


def test_limits_are_raised_by_the_environment(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    words = ("explain", place / "vit.onnx", place / "photo.png", "-o", tmp_path / "out")
    monkeypatch.setenv("GRADSKIP_MAX_PIXELS", "100")
    one_line(run(*words), "limit 100")
    monkeypatch.setenv("GRADSKIP_MAX_PIXELS", "many")
    one_line(run(*words), "GRADSKIP_MAX_PIXELS is 'many'")
    monkeypatch.setenv("GRADSKIP_MAX_PIXELS", "1600")
    assert run(*words).exit_code == 0


# --- configurations beside a model ----------------------------------------------------------------------------------

HUGE = int("9" * 400)
BASE = {"do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "size": 32}
CONFIGS: dict[str, dict[str, object]] = {
    "mean": {"image_mean": [HUGE, 0, 0]},
    "mean of one": {"image_mean": HUGE},
    "infinite mean": {"image_mean": [float("inf"), 0, 0]},
    "nan": {"image_std": [float("nan"), 1, 1]},
    "std": {"image_std": [HUGE, 1, 1]},
    "tiny std": {"image_std": [1e-320, 1, 1]},
    "rescale": {"rescale_factor": HUGE},
    "tiny rescale": {"rescale_factor": 1e-320},
    "negative rescale": {"rescale_factor": -1},
    "crop": {"crop_pct": HUGE},
    "crop size": {"do_center_crop": True, "crop_size": HUGE},
    "size": {"size": HUGE},
    "size of 16384": {"size": 16384},
    "shortest edge": {"size": {"shortest_edge": HUGE}},
    "height and width": {"size": {"height": HUGE, "width": 1}},
    "negative size": {"size": -224},
    "resample": {"resample": HUGE},
    "timm mean": {"pretrained_cfg": {"mean": [HUGE, 0, 0]}},
    "timm crop": {"pretrained_cfg": {"crop_pct": HUGE}},
    "timm size": {"pretrained_cfg": {"input_size": [3, HUGE, HUGE]}},
    "labels": {"id2label": {str(HUGE): "a"}},
}


@pytest.mark.parametrize("name", CONFIGS)
def test_huge_numbers_in_sidecar_configs_are_ignored_with_a_warning(place: Path, tmp_path: Path, name: str):
    (tmp_path / "vit.onnx").write_bytes((place / "vit.onnx").read_bytes())
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(BASE | CONFIGS[name]))
    result = run("explain", tmp_path / "vit.onnx", place / "photo.png", "-o", tmp_path / "out")

    assert result.exit_code == 0, result.output
    assert result.stderr.count("warning: ignored") == 1
    assert "preprocessor_config.json" in result.stderr


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, '{"image_mean": ' + "9" * 5000 + "}", "", "\x00", "[1"]
)
def test_configs_that_are_no_json_are_ignored_with_a_warning(tmp_path: Path, text: str):
    (tmp_path / "config.json").write_text(text)
    found = beside(tmp_path / "vit.onnx")
    assert (found.preprocess, len(found.warnings)) == (None, 1)


def test_links_in_a_circle_are_listed_once(place: Path, tmp_path: Path):
    from gradskip_onnx.datasets.files import images_under

    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "photo.png").write_bytes((place / "photo.png").read_bytes())
        for number in range(3):
            (tmp_path / name / f"up{number}").symlink_to(tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in images_under(tmp_path)] == ["a/photo.png", "b/photo.png"]


def test_an_output_below_two_thousand_folders(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    one_line(run("explain", place / "vit.onnx", place / "photo.png", "-o", "a/" * 1990), "folders deep")
    assert not any(tmp_path.iterdir())
