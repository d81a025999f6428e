"""gradskip-onnx export: writes a PyTorch model as ONNX with its gradient graph, checked against the original."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import read_size

if TYPE_CHECKING:
    from rich.table import Table

EXAMPLES = """\b
Examples:
  gradskip-onnx export deit_tiny_patch16_224 -o model.onnx
  gradskip-onnx export deit_tiny_patch16_224 --checkpoint weights.pth -o model.onnx
  gradskip-onnx export segformer_b0 --size 512x512 -o segmenter.onnx
  gradskip-onnx export deit_tiny_patch16_224 --show tensors -o model.onnx
  gradskip-onnx export path/to/folder --opset 17 --plain -o forward_only.onnx
"""


@click.command(epilog=EXAMPLES)
@click.argument("name")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path, dir_okay=False), help="File to write.")
@click.option("--checkpoint", type=click.Path(path_type=Path), help="Weights: safetensors, or a pickle of tensors.")
@click.option("--random-weights", is_flag=True, help="Seeded random weights, for trying things out.")
@click.option("--opset", type=int, default=18, show_default=True, help="ONNX operator set, 13 to 23.")
@click.option("--size", callback=read_size, metavar="N|HxW", help="Image size.  [default: the model's own]")
@click.option("--classes", type=click.IntRange(min=2), metavar="N", help="Number of classes.  [default: the model's]")
@click.option("--dtype", type=click.Choice(["float32", "float16"]), default="float32", show_default=True)
@click.option("--show", type=click.Choice(["map", "tensors"]), default="map", show_default=True,
              help="Besides logits: the map of gradskip+, or attention, tokens and gradients.")  # fmt: skip
@click.option("--plain", is_flag=True, help="Only the forward graph.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def export(name: str, output: Path, opset: int, plain: bool, show: Any, force: bool, **flags: Any) -> None:
    """Write the model NAME as ONNX, with the map of a class as a further output.

    NAME is a timm name (vit_*, deit_*), a SegFormer (segformer_b0 .. b5, nvidia/mit-b0) or a folder saved by
    transformers. The file is compared with the torch model at once; exit code 5 if they disagree.
    """
    from gradskip_onnx.exporters.pipeline import export as run
    from gradskip_onnx.exporters.request import ExportRequest

    from .console import Terminal

    terminal = Terminal()
    with _steps() as step:
        report = run(ExportRequest(name, **flags), output, opset=opset, plain=plain, show=show, force=force, step=step)
    terminal.table(_table(report))
    report.require_sound()
    for file in report.files:
        terminal.print(f"{file}  {file.stat().st_size / 1e6:.1f} MB")


@contextmanager
def _steps() -> Iterator[Callable[[str], None]]:
    """A function that shows the current step: a spinner on a terminal, else one line per step."""
    if not sys.stderr.isatty():
        yield lambda text: click.echo(f"{text} ...", err=True)
        return
    from rich.console import Console
    from rich.status import Status

    # Its own file descriptor, because the output of the frameworks is redirected while they run.
    with os.fdopen(os.dup(sys.stderr.fileno()), "w") as stream, Status("", console=Console(file=stream)) as status:
        yield lambda text: status.update(text)


def _table(report: Any) -> Table:
    """A table of the largest difference of each quantity, over blocks and batches."""
    from rich.table import Table

    table = Table(title=f"{report.name} against torch")
    for column in ("quantity", "where", "largest difference", "relative", "bound", ""):
        table.add_column(column)
    worst: dict[str, Any] = {}
    for found in report.differences:
        if found.quantity not in worst or not found.relative <= worst[found.quantity].relative:
            worst[found.quantity] = found
    for found in worst.values():
        verdict = "ok" if found.passes else "FAILED"
        row = (found.quantity, found.where, f"{found.absolute:.1e}", f"{found.relative:.1e}", f"{found.bound:.0e}")
        table.add_row(*row, verdict)
    return table
