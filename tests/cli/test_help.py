"""What the command line says about itself: help, the version, the options of a method."""

import subprocess
import sys
from pathlib import Path

import pytest
from gradskip_onnx.cli.main import COMMANDS

from tests.support.command_line import run

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_and_is_in_the_readme(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"gradskip-onnx {command}" in result.stdout.split("Examples:")[1]
    assert f"gradskip-onnx {command}" in (ROOT / "README.md").read_text()


def test_group_help_names_every_command():
    result = run("--help")
    assert result.exit_code == 0
    for command in COMMANDS:
        assert f"  {command} " in result.stdout


def test_help_is_quick_to_load():
    code = (
        "import sys\nfrom gradskip_onnx.cli.main import cli\n"
        "for words in (['--help'], ['explain', '--help'], ['inspect', '--help']):\n"
        "    cli(words, standalone_mode=False)\n"
        "print([m for m in ('torch', 'onnxruntime', 'onnx', 'numpy', 'PIL', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_version():
    assert run("--version").stdout.startswith("gradskip-onnx, version ")


def test_options_of_a_method_are_listed():
    result = run("explain", "-O", "help", "--method", "gradskip")
    assert result.exit_code == 0
    assert "alpha=0.5\t" in result.stdout
    assert "output | " in result.stdout
    assert "against=others\t" in run("explain", "-O", "help").stdout
