"""Every command and every program on the pages runs as it stands there, or says why not and is at least well-formed."""

from __future__ import annotations

import linecache
import re
import shutil
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import pytest
from gradskip_onnx.cli.main import COMMANDS, cli
from PIL import Image

from gradskip_onnx.autodiff.rules.table import NOTES, VJPS
from gradskip_onnx.demo import demo_model
from gradskip_onnx.demo.scenes import CLASSES, scene

from .snippet_commands import check_line, run_line
from .snippets import PAGES, ROOT, Snippet, inline_commands, lines, programs, unmarked_commands

PROGRAMS = {page: programs(page) for page in PAGES}
RUN = {page: [block for block in found if block.not_run is None] for page, found in PROGRAMS.items()}
NOT_RUN = [block for found in PROGRAMS.values() for block in found if block.not_run is not None]
PHOTOS = ("photo.jpg", "photo.png", "image.png", "a.png", "b.png", "cat.jpg")


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the pages name, all from the demo: models, photographs, names of classes."""
    folder = tmp_path_factory.mktemp("files")
    for name in ("model.onnx", "vit.onnx", "deit_tiny.onnx"):
        shutil.copyfile(demo_model(), folder / name)
    for seed, name in enumerate(PHOTOS):
        Image.fromarray(scene(seed, 192).image).save(folder / name)
    for place in ("photos", "images"):
        (folder / place).mkdir()
        for seed in range(2):
            Image.fromarray(scene(seed).image).save(folder / place / f"{seed}.png")
    labelled = folder / "labelled"
    for seed in range(4):
        found = scene(seed)
        (labelled / CLASSES[found.label]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(found.image).save(labelled / CLASSES[found.label] / f"{seed}.png")
    shutil.copyfile(ROOT / "docs" / "examples" / "service.py", folder / "service.py")
    (folder / "names.txt").write_text("\n".join(["cat", "dog", *CLASSES[2:]]) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def place(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with those files; tables of operators are as before when the test is over."""
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Image.Image, "show", lambda *_, **__: None)  # no viewer
    tables: tuple[dict[Any, Any], ...] = (VJPS, NOTES)
    before = [dict(table) for table in tables]
    yield tmp_path
    for table, rows in zip(tables, before, strict=True):
        table.clear()
        table.update(rows)


def needs(page: Path) -> set[str]:
    return {name for block in RUN[page] for name in block.needs}


def marks(page: Path) -> list[pytest.MarkDecorator]:
    return [pytest.mark.torch] if "torch" in needs(page) else []


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=marks(page), id=page.name) for page, found in RUN.items() if found],
)
def test_snippets_run(page: Path, place: Path):
    """The blocks of a page in order, in one folder and one Python session, as a reader would paste them."""
    if missing := [name for name in needs(page) if find_spec(name) is None]:
        pytest.skip(f"needs {', '.join(missing)}")
    session: dict[str, Any] = {"__name__": "__main__"}
    for block in RUN[page]:
        if block.language == "sh":
            for line in lines(block.code):
                run_line(line, place)
        else:
            run_python(block, session)


def run_python(block: Snippet, session: dict[str, Any]) -> None:
    """Dataclasses and tracebacks want to see the source."""
    linecache.cache[block.name] = (len(block.code), None, block.code.splitlines(keepends=True), block.name)
    with warnings.catch_warnings():
        exec(compile(block.code, block.name, "exec"), session)


@pytest.mark.parametrize("block", [pytest.param(b, id=b.name) for b in NOT_RUN if b.language == "sh"])
def test_what_is_not_run_is_well_formed(block: Snippet):
    if "-m benchmarks" in block.code and find_spec("torch") is None:
        pytest.skip("benchmarks import torch")
    for line in lines(block.code):
        check_line(line)


@pytest.mark.parametrize("block", [pytest.param(b, id=b.name) for b in NOT_RUN if b.language == "python"])
def test_python_that_is_not_run_compiles(block: Snippet):
    compile(block.code, block.name, "exec")


def test_reasons_are_few_and_said_in_words():
    assert len(NOT_RUN) < sum(map(len, RUN.values()))
    assert all(len(block.not_run or "") > 10 for block in NOT_RUN)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_command_hides_outside_a_shell_block(page: Path):
    assert unmarked_commands(page) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_the_text_are_well_formed(page: Path):
    for line in inline_commands(page):
        check_line(line)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_examples_of_the_help_are_well_formed(name: str):
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    examples = [line.strip() for line in (command.epilog or "").splitlines() if line.startswith("  gradskip-onnx")]
    for line in examples:
        check_line(re.split(r" {3,}| \| ", line)[0])  # a remark stands behind some spaces


def test_the_checks_see_faults():
    """Wrong options, commands, extras, markers and files are found."""
    for line in (
        "gradskip-onnx explain model.onnx photo.jpg --metod rise",
        "gradskip-onnx explian",
        "gradskip-onnx inspect",
        "pip install '.[gpus]'",
        'pytest -m "not slwo"',
        "python -m benchmarks.nothing",
        "bash .ci/nothing",
        "gradskip_onnx explain",
    ):
        with pytest.raises(BaseException):  # noqa: B017 (of click or of assert)
            check_line(line)
