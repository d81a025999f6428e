"""gradskip-onnx inspect: shows the blocks of a model, and what was proven about them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .options import json_option, model_argument, read_size, task_option

if TYPE_CHECKING:
    from gradskip_onnx.types import TaskName

EXAMPLES = """\b
Examples:
  gradskip-onnx inspect model.onnx
  gradskip-onnx inspect model.onnx --why              every proof, and what was not taken for a block
  gradskip-onnx inspect model.onnx --json | python -m json.tool
"""


@click.command(epilog=EXAMPLES)
@model_argument
@click.option("--why", is_flag=True, help="List every proof with its number, and every mismatch with its reason.")
@click.option("--size", callback=read_size, metavar="N|HxW", help="Input size, for models that take any.")
@task_option
@json_option
def inspect(model: Path, why: bool, size: tuple[int, int] | None, task: TaskName | None, as_json: bool) -> None:
    """Show the blocks found in MODEL: tensors, heads, token grid, stages, and what was proven about them.

    Exits with 3 and a reason code if the model cannot be explained.
    """
    from gradskip_onnx.api import read_file
    from gradskip_onnx.errors import UnsupportedModelError
    from gradskip_onnx.graph.read.load import load
    from gradskip_onnx.model_file.metadata import read_metadata

    from .console import Terminal
    from .inspect_report import mismatch_table, report, unsupported_document

    terminal = Terminal(as_json=as_json)
    try:
        reading = read_file(model, size, task)
    except UnsupportedModelError as error:
        terminal.document(unsupported_document(model, error), single=True)
        if why and error.mismatches:
            terminal.table(mismatch_table(error.mismatches))
        raise
    built = read_metadata(load(model)).built
    report(terminal, model, reading, built, why=why)
