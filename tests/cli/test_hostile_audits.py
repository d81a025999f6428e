"""Audits and comparisons of files whose names try to steer terminals, run in pages and be formulas in tables."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.command_line import run
from tests.support.evaluation_data import FLAGS, model_bytes, pictures

pytest.importorskip("pyarrow")
pytest.importorskip("sklearn")

CLEAR, TITLE, TURN = "\x1b[2J", "\x1b]0;owned\x07", "\u202e"
IMAGES = (
    f"{CLEAR}a.png",
    f"{TITLE}b.png",
    f"{TURN}gnp.c.png",
    "=cmd()|d.png",
    "<script>e.png",
    "\nf.png",
    "[bold]g.png",
)
LABELS = [f"{CLEAR}ant", f"=bee{TURN}", "<img src=x onerror=alert(1)>", "@dog", f"{TITLE}elk"]
STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")
QUICK = ("--method", "grad-cam", "--batch-size", "4", *FLAGS)


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, images and class names that nobody would choose in good faith; one of the images is none."""
    top: Path = tmp_path_factory.mktemp("hostile")
    folder = pictures(top / f"photos{CLEAR}", len(IMAGES))
    for at, name in enumerate(IMAGES):
        (folder / f"{at:02}.png").rename(folder / name)
    (folder / IMAGES[1]).write_bytes(b"no image")
    (folder / "labels.csv").unlink()
    (top / f"{TITLE}vit.onnx").write_bytes(model_bytes())
    (top / "labels.json").write_text(json.dumps(LABELS))
    policy = "".join(f"[findings.{name}]\nmin = 0.99\nclasses = 'every'\nimages = 1\n" for name in ("border", "spread"))
    (top / "policy.toml").write_text(policy)
    return top


def words(top: Path, *before: object) -> list[object]:
    data = top / f"photos{CLEAR}"
    return [*before, data, "--labels", top / "labels.json", *QUICK]


@pytest.fixture(scope="module")
def said(top: Path) -> str:
    """What all four commands print."""
    model, out = top / f"{TITLE}vit.onnx", top / f"out{CLEAR}"
    audit = run(*words(top, "audit", model), "-o", out, "--policy", top / "policy.toml", "--check-draws", "1")
    again = run(*words(top, "audit", model), "-o", out, "--seed", "1")  # refused, which names the folder
    verified = run("verify", out, "--model", model, "--data", top / f"photos{CLEAR}", "-v")
    replayed = run("replay", out, "--model", model, "--data", top / f"photos{CLEAR}", "--sample", "all")
    compared = run(*words(top, "compare", model, model), "-o", top / "comparison")
    other = (top / f"photos{CLEAR}" / IMAGES[0]).read_bytes()
    (top / f"photos{CLEAR}" / IMAGES[0]).write_bytes(other + b"more")
    changed = run("verify", out, "--data", top / f"photos{CLEAR}")
    missed = run("replay", out, "--model", model, "--data", top / f"photos{CLEAR}", "--sample", "all")
    (top / f"photos{CLEAR}" / IMAGES[0]).write_bytes(other)
    found = [audit, again, verified, replayed, compared, changed, missed]
    assert [one.exit_code for one in found] == [5, 2, 0, 0, 6, 5, 5], [one.output for one in found]
    return "".join(one.output for one in found)


def test_nothing_steers_the_terminal(said: str):
    assert STEERING.findall(said) == []
    assert "?[2Ja.png" in said  # it is named, and harmless
    assert "?[2Jant" in said or "?]0;owned?elk" in said
    assert "[bold]g.png" in said


def test_no_page_has_a_tag_of_a_name_and_no_table_a_formula(top: Path, said: str):
    assert said
    for path in [*(top / f"out{CLEAR}").glob("*.*"), *(top / "comparison").glob("*.*")]:
        if path.suffix not in (".html", ".md", ".json", ".csv"):
            continue
        text = path.read_text(encoding="utf-8")
        assert "<script>e.png" not in text or path.suffix in (".json", ".csv"), path.name
        assert "<img src=x" not in text or path.suffix == ".json", path.name
        if path.suffix in (".html", ".md", ".json"):
            assert STEERING.findall(text) == [], path.name
    rows = list(csv.reader((top / "comparison" / "comparison.csv").read_text(encoding="utf-8").splitlines()))
    assert not [cell for row in rows for cell in row if re.match(r"[=+@]|-\D", cell)]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
def test_the_progress_bar_names_images_harmlessly(top: Path, tmp_path: Path):
    """On a terminal, where the bar moves and every image that is done stands beside it."""
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-P", "-m", "gradskip_onnx.cli", *words(top, "audit", top / f"{TITLE}vit.onnx")]
    audit = subprocess.Popen([*map(str, command), "-o", str(tmp_path), "--check-draws", "1000"],
                             stdout=theirs, stderr=theirs,
                             env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "160"})  # fmt: skip
    os.close(theirs)
    seen = everything(ours)

    assert audit.wait() == 6
    assert re.search(rb"[1-6]/7.*\.png", seen)  # the bar, which has counted images by their names
    for name in (CLEAR, TITLE, TURN):
        assert name.encode() not in seen


def everything(end: int) -> bytes:
    """What comes through a pseudo terminal until the other end is closed."""
    seen = b""
    with suppress(OSError):
        while part := os.read(end, 65536):
            seen += part
    os.close(end)
    return seen
