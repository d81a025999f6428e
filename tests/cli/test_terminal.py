"""The program in a terminal or a pipe: streams, colours, encodings, names that hold control characters."""

import json
import os
import subprocess
import sys

import pytest
from PIL import Image

from tests.support.command_line import program, run


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
