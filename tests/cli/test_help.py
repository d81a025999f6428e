"""What the command line says about itself: help, the version, the options of a method."""

import subprocess
import sys
from pathlib import Path

import pytest
from gradskip_onnx.cli.evaluation_options import LAYOUT_NAMES
from gradskip_onnx.cli.main import COMMANDS
from gradskip_onnx.cli.options import PRESET_NAMES, TASK_NAMES
from gradskip_onnx.cli.study import STUDY_NAMES

from gradskip_onnx.datasets import LAYOUTS
from gradskip_onnx.evaluation.studies import STUDIES
from gradskip_onnx.images.preprocess import PRESETS
from gradskip_onnx.tasks import TASKS
from tests.support.command_line import fails, run

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


@pytest.mark.parametrize(("words", "name"), [((), "gradskip+"), (("--method", "rise"), "rise")])
def test_help_on_options_is_elsewhere(words, name):
    """-O takes values only; whoever asks it for help is told where the options are listed."""
    fails(run("explain", "-O", "help", *words), 2, f"gradskip-onnx methods {name}")


def test_names_in_the_help_are_those_of_the_tables():
    """The command line repeats them, so that --help need not import the tables."""
    assert tuple(PRESETS) == PRESET_NAMES
    assert tuple(TASKS) == TASK_NAMES
    assert tuple(LAYOUTS) == LAYOUT_NAMES
    assert tuple(STUDIES) == tuple(STUDY_NAMES)
