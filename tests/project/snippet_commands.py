"""Runs a line of a shell block, or checks that its commands exist and take what they are given."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import click
from gradskip_onnx.cli.main import cli

from tests.support.command_line import run

from .snippets import ROOT, commands

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
MARKERS = {line.split(":")[0] for line in PROJECT["tool"]["pytest"]["ini_options"]["markers"]}
# Programs of others, whose arguments are not ours to check.
OTHERS = {
    ".",
    "apt",
    "cc",
    "cd",
    "cp",
    "curl",
    "docker",
    "export",
    "mkdir",
    "mypy",
    "node",
    "npm",
    "npx",
    "openssl",
    "pre-commit",
    "ruff",
    "tar",
    "tritonserver",
    "twine",
    "explain",  # compiled from docs/examples/c
}


def run_line(line: str, place: Path) -> None:
    """Do what the line says in a folder; what installs something is only checked."""
    todo = commands(line)
    if any(words[0] == "pip" or words[:3] == ["python", "-m", "pip"] for words in todo):
        check_line(line)
        todo = [words for words in todo if words[0] == "gradskip-onnx"]
    if all(words[0] == "gradskip-onnx" for words in todo) and not re.search(r"[|<>]", line):
        for words in todo:
            result = run(*words[1:])
            assert result.exit_code == 0, f"{' '.join(words)}\n{result.output}"
        return
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", line], cwd=place, env=with_programs(place), capture_output=True, text=True
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


def with_programs(place: Path) -> dict[str, str]:
    """An environment in which `python` and `gradskip-onnx` are those of the tests."""
    folder = place / ".programs"
    if not folder.exists():
        folder.mkdir()
        for name, call in {"python": "", "gradskip-onnx": " -P -m gradskip_onnx.cli"}.items():
            (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{call} "$@"\n', encoding="utf-8")
            (folder / name).chmod(0o755)
    return os.environ | {"PATH": os.pathsep.join([str(folder), os.environ["PATH"]])}


def check_line(line: str) -> None:
    """Fail unless every command of the line could be called like this."""
    for words in commands(line):
        while re.fullmatch(r"\w+=.*", words[0]):
            words = words[1:]
        name = words[0].rpartition("/")[2]
        if name in ("python", "python3") and words[1:2] == ["-m"]:
            check_module(words[2], words[3:])
        elif name in CHECKS:
            CHECKS[name](words[1:])
        else:
            assert name in OTHERS, f"{name}: what is this program?"


def check_module(name: str, words: Sequence[str]) -> None:
    """`python -m NAME WORDS`, where NAME is ours."""
    if name in CHECKS:
        CHECKS[name](words)
        return
    if name.split(".")[0] not in ("benchmarks", "tests"):
        assert find_spec(name) is not None, name
        return
    folder = ROOT.joinpath(*name.split("."))
    source = folder / "__main__.py" if folder.is_dir() else folder.with_suffix(".py")
    assert source.is_file(), name
    text = source.read_text(encoding="utf-8")
    if "import click" not in text:  # argparse: its options stand in the source
        assert [word for word in words if word.startswith("--") and f'"{word}"' not in text] == []
        return
    module = importlib.import_module(f"{name}.__main__" if folder.is_dir() else name)
    check_click(module.main, words)


def check_click(command: click.Command, words: Sequence[str]) -> None:
    """The command knows these options, and gets as many arguments as it wants; nothing is opened or run."""
    context = click.Context(command, info_name=command.name)
    found, left, _ = command.make_parser(context).parse_args(list(words))
    if isinstance(command, click.Group):
        if not left and any(value is True for value in found.values()):  # --version
            return
        assert left, f"{command.name}: which command?"
        inner = command.get_command(context, left[0])
        assert inner is not None, f"{command.name} has no command {left[0]}"
        check_click(inner, left[1:])
        return
    assert left == [], f"{command.name}: too much, {left}"
    for parameter in command.params:
        value = found.get(parameter.name)
        given = not (value is None or value == () or "UNSET" in repr(value).upper())
        assert given or not parameter.required, f"{command.name}: {parameter.name} is missing in {list(words)}"
        if given and isinstance(parameter.type, click.Choice) and isinstance(value, str):
            parameter.type.convert(value, parameter, context)


def check_install(words: Sequence[str]) -> None:
    """Extras that are asked of this project exist."""
    for word in words:
        match = re.fullmatch(r"(?:\.|gradskip-onnx|dist/.*\.whl)\[(.*)\]", word)
        assert match is None or [name for name in match[1].split(",") if name not in EXTRAS] == [], word


def check_pytest(words: Sequence[str]) -> None:
    """Markers of an expression exist, and so do the paths."""
    for at, word in enumerate(words):
        if word == "-m":
            assert set(re.findall(r"\w+", words[at + 1])) - {"not", "and", "or"} <= MARKERS
        elif re.fullmatch(r"tests/\S*", word):
            assert (ROOT / word).exists(), word


def check_file(words: Sequence[str]) -> None:
    """`bash FILE` and `python FILE` of this project."""
    ours = [word for word in words[:1] if "/" in word and not word.startswith("/")]
    assert [word for word in ours if not (ROOT / word).exists()] == []


def check_site(words: Sequence[str]) -> None:
    assert (ROOT / words[words.index("-f") + 1]).is_file()


CHECKS: dict[str, Callable[[Sequence[str]], None]] = {
    "gradskip-onnx": lambda words: check_click(cli, words),
    "pip": check_install,
    "pytest": check_pytest,
    "bash": check_file,
    "python": check_file,
    "mkdocs": check_site,
    "uvicorn": lambda _: None,
}
