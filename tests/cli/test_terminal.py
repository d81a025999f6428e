"""The program in a terminal or a pipe: streams, colours, encodings, names that hold control characters."""

import json
import os
import struct
import subprocess
import sys

import pytest
from PIL import Image

from tests.support.command_line import program, run
from tests.support.models import vit


def test_names_cannot_steer_the_terminal(place, tmp_path):
    (tmp_path / "labels.json").write_text(json.dumps(["\x1b[31mred\x1b[0m\n[bold]"] * 5))
    image = tmp_path / "a\x1b[2J.png"
    Image.new("RGB", (32, 32)).save(image)
    arguments = ["explain", place / "vit.onnx", image, tmp_path / "b\x1b.png", "-o", tmp_path / "o"]
    result = run(*arguments, "--labels", tmp_path / "labels.json")
    assert result.exit_code == 6
    assert "\x1b" not in result.output
    assert "[bold]" in result.stdout


def test_program_separates_results_from_the_rest(place, tmp_path):
    done = program("explain", place / "vit.onnx", place / "photos" / "p0.png", "-o", tmp_path, "--json")
    assert done.returncode == 0
    json.loads(done.stdout)
    assert done.stderr.startswith("warning: ")
    assert "\x1b" not in done.stdout + done.stderr


def test_labels_the_terminal_cannot_show(place, tmp_path):
    (tmp_path / "labels.json").write_text(json.dumps(["猫", "犬", "é", "ö", "→"]))
    done = program("explain", place / "vit.onnx", place / "photos" / "p0.png", "-o", tmp_path,
                   "--labels", tmp_path / "labels.json", PYTHONIOENCODING="ascii")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "? (0)" in done.stdout


def test_program_fails_in_one_line(place, tmp_path):
    done = program("explain", place / "cnn.onnx", place / "photos" / "p0.png", "-o", tmp_path)
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def overflowing(path):
    """A model with a weight of 2^62 values: ONNX Runtime's default logger speaks of it."""
    model = vit()
    model.graph.initializer[0].dims[:] = [1 << 62]
    path.write_bytes(model.SerializeToString())
    return path


def crowded(path):
    """A TIFF with 259 values a pixel: Pillow logs an error."""
    Image.new("RGB", (8, 8)).save(path, "TIFF")
    tag, three = struct.pack("<HHI", 277, 3, 1), struct.pack("<H", 3)
    data = path.read_bytes()
    assert data.count(tag + three) == 1
    path.write_bytes(data.replace(tag + three, tag + struct.pack("<H", 259)))
    return path


def garbled(path):
    """A TIFF whose strip is not LZW: libtiff writes to the terminal itself."""
    Image.effect_noise((64, 64), 50).save(path, "TIFF", compression="tiff_lzw")
    data = bytearray(path.read_bytes())
    data[8:200] = b"\x55" * 192
    path.write_bytes(bytes(data))
    return path


NOISY = [(overflowing, "Default"), (crowded, "More samples per pixel"), (garbled, "tempfile.tif")]


@pytest.mark.parametrize(("make", "noise"), NOISY, ids=[make.__name__ for make, _ in NOISY])
def test_libraries_do_not_write_past_the_program(place, tmp_path, make, noise):
    """One line of ours; with --traceback theirs are shown."""
    file = make(tmp_path / "file")
    chosen = [file, place / "photos" / "p0.png"] if make is overflowing else [place / "vit.onnx", file]
    arguments = ["explain", *chosen, "-o", tmp_path / "out", "--no-cache", "--json", "-q"]
    done = program(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert noise in program("--traceback", *arguments).stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
def test_program_without_standard_error(place, tmp_path):
    """A stream that whoever started us has closed is no reason to fail."""
    words = [sys.executable, "-P", "-m", "gradskip_onnx.cli", "explain", "vit.onnx", "photos/p0.png", "-o", tmp_path]
    done = subprocess.run(["sh", "-c", 'exec "$0" "$@" 2>&-', *words], cwd=place, capture_output=True, check=False)
    assert done.returncode == 0
    assert (tmp_path / "p0.json").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
@pytest.mark.parametrize(
    ("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)], ids=["terminal", "NO_COLOR"]
)
def test_colours_on_a_terminal_only_and_never_with_no_color(place, tmp_path, variables, coloured):
    import pty

    ours, theirs = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")} | {
        "TERM": "xterm-256color"
    }
    command = [
        sys.executable,
        "-P",
        "-m",
        "gradskip_onnx.cli",
        "explain",
        "vit.onnx",
        "photos/p0.png",
        "-o",
        str(tmp_path),
    ]
    subprocess.run(
        command, stderr=theirs, stdout=subprocess.DEVNULL, env=environment | variables, cwd=place, check=True
    )
    os.close(theirs)
    text = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "warning: preprocessing" in text
    assert ("\x1b[33m" in text) == coloured
