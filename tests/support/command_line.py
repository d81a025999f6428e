"""Calls the command line inside the test process, or as a program of its own."""

import os
import subprocess
import sys

from click.testing import CliRunner, Result
from gradskip_onnx.cli.main import cli

SETTINGS = ["--preset", "half", "--crop", "1.0"]


def run(*arguments: object) -> Result:
    """`gradskip-onnx ARGUMENTS` in this process."""
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def fails(result: Result, code: int, *texts: str) -> None:
    """One line that says it, the right exit code, no traceback."""
    assert result.exit_code == code, result.output
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, result.stderr
    assert isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    for text in texts:
        assert text in errors[0]


def program(*arguments: object, **variables: str) -> "subprocess.CompletedProcess[str]":
    """`gradskip-onnx ARGUMENTS` as a process of its own, with these variables in its environment."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "gradskip_onnx.cli", *map(str, arguments)],
        capture_output=True, text=True, env=os.environ | variables, check=False,
    )  # fmt: skip
