"""Models, images and options that cannot be used fail in one line with the right exit code."""

import pytest

from tests.support.command_line import fails, run

BAD_MODELS = [
    ("cut.onnx", 2, ["cut.onnx", "not an ONNX file"]),
    ("prose.onnx", 2, ["prose.onnx"]),
    ("empty.onnx", 2, ["empty.onnx"]),
    ("missing.onnx", 2, ["missing.onnx", "does not exist"]),
    ("photos", 2, ["photos"]),
    ("nan.onnx", 2, ["NaN"]),
    ("four.onnx", 2, ["4 channels"]),
    ("cnn.onnx", 3, ["[no-attention]"]),
    ("text.onnx", 3, ["[no-image-input]"]),
]


@pytest.mark.parametrize(("name", "code", "texts"), BAD_MODELS, ids=[row[0] for row in BAD_MODELS])
def test_bad_models(place, tmp_path, name, code, texts):
    fails(run("explain", place / name, place / "photos", "-o", tmp_path / "o"), code, *texts)
    assert list((tmp_path / "o").iterdir()) == []


BAD_IMAGES = [
    ("corrupt.png", ["corrupt.png", "broken image"]),
    ("prose.png", ["prose.png", "not an image"]),
    ("huge.png", ["huge.png", "400000000", "limit 100000000"]),
    ("missing.png", ["missing.png", "no such image"]),
    ("nothing/*.png", ["no file matches"]),
]


@pytest.mark.parametrize(("name", "texts"), BAD_IMAGES, ids=[row[0] for row in BAD_IMAGES])
def test_bad_images(place, tmp_path, name, texts):
    fails(run("explain", place / "vit.onnx", place / name, "-o", tmp_path / "o"), 2, *texts)


BAD_OPTIONS: list[tuple[list[str], int, list[str]]] = [
    (["--target", "99"], 2, ["class 99", "0 to 4"]),
    (["--target", "-1"], 2, ["class -1"]),
    (["--target", "unicorn"], 2, ["labels are not known"]),
    (["--target", "unicorn", "--labels", "labels.txt"], 2, ["unicorn"]),
    (["--labels", "missing.txt"], 2, ["missing.txt"]),
    (["--method", "magic"], 2, ["magic", "gradskip"]),
    (["-O", "nonsense=1"], 2, ["nonsense", "against"]),
    (["-O", "alpha"], 2, ["NAME=VALUE"]),
    (["-O", "alpha=much"], 2, ["alpha", "much"]),
    (["--alpha", "1.5"], 2, ["alpha", "1.5"]),
    (["--gamma", "nan"], 2, ["gamma"]),
    (["--region", "3,4"], 2, ["segmentation"]),
    (["--crop", "0"], 2, ["crop"]),
    (["--std", "1", "1", "0"], 2, ["std"]),
    (["--device", "cuda", "--require-device"], 4, ["cuda"]),
]


@pytest.mark.parametrize(("options", "code", "texts"), BAD_OPTIONS, ids=str)
def test_bad_options_fail_once_however_many_images(place, tmp_path, monkeypatch, options, code, texts):
    monkeypatch.chdir(place)
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: ["CPUExecutionProvider"])
    fails(run("explain", "vit.onnx", "photos", "-o", tmp_path / "o", *options), code, *texts)


USAGE = [["--size", "x"], ["--size", "0"], ["--threads", "0"], ["--score", "x"], ["--device", "tpu"], ["--no"]]


@pytest.mark.parametrize("options", USAGE, ids=str)
def test_usage_errors(place, options):
    result = run("explain", place / "vit.onnx", place / "photos", *options)
    assert result.exit_code == 2
    assert "Usage:" in result.stderr


def test_a_model_without_images_is_a_usage_error(place):
    result = run("explain", place / "vit.onnx")
    assert result.exit_code == 2
    assert "at least one image" in result.stderr


def test_output_that_cannot_be_written(place, tmp_path):
    (tmp_path / "file").write_text("x")
    result = run("explain", place / "vit.onnx", place / "photos", "-o", tmp_path / "file" / "o")
    fails(result, 2, "output", "cannot be written")


def test_output_is_checked_before_the_model_is_read(tmp_path):
    (tmp_path / "p0.json").write_text("{}")
    fails(run("explain", tmp_path / "none.onnx", tmp_path / "p0.png", "-o", tmp_path), 2, "p0.json exists")


@pytest.mark.parametrize(("name", "code", "texts"), [row for row in BAD_MODELS if row[0] != "four.onnx"])
def test_inspect_bad_models(place, name, code, texts):
    fails(run("inspect", place / name), code, *texts)


UNFORESEEN = [
    (KeyError("\x1b[31mnode"), ["KeyError", "--traceback"]),
    (MemoryError(), ["not enough memory"]),
    (RecursionError("maximum recursion depth exceeded"), ["nested too deeply"]),
]


@pytest.mark.parametrize(("error", "texts"), UNFORESEEN, ids=lambda entry: type(entry).__name__)
def test_the_last_net_turns_any_exception_into_one_line(place, monkeypatch, error, texts):
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("gradskip_onnx.graph.read.load.load", fail)
    fails(run("inspect", place / "vit.onnx"), 1, *texts)
    assert type(run("--traceback", "inspect", place / "vit.onnx").exception) is type(error)
    monkeypatch.setenv("GRADSKIP_TRACEBACK", "1")
    assert type(run("inspect", place / "vit.onnx").exception) is type(error)


def test_the_last_net_lets_interruptions_through(place, monkeypatch):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gradskip_onnx.graph.read.load.load", interrupted)
    fails(run("inspect", place / "vit.onnx"), 130, "interrupted")
