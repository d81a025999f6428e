"""How long a file takes to be read and given its gradient graph: a ViT-B/16, and a graph of 5,000 nodes.

    python -m benchmarks.reading FOLDER

The files are written once, with random weights; each is timed in fresh processes, which never see torch.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from benchmarks.zoo.exporters import Form, export
from benchmarks.zoo.families import Make, switch, timm, vit

RUNS = 3
SIZE = (224, 224)
DEEP: dict[str, Any] = {"img_size": SIZE, "patch_size": 16, "embed_dim": 192, "num_heads": 3, "num_classes": 1000}


@dataclass(frozen=True, slots=True)
class Sample:
    """One file, and the seconds it may take."""

    make: Make
    form: Form
    allowed: float


SAMPLES: dict[str, Sample] = {
    "vit_b16": Sample(timm("vit_base_patch16_224"), Form("dynamo", 18), 3.0),
    "vit_b16_torchscript": Sample(timm("vit_base_patch16_224"), Form("ts", 17), 3.0),
    # Opset 13 has neither LayerNormalization nor Gelu: both are spelled out.
    "deep_vit": Sample(vit(**DEEP, depth=58), Form("ts", 13), 15.0),
}


def write(sample: Sample, path: Path) -> None:
    """The file, unless it is there."""
    if not path.exists():
        module = sample.make().eval()
        switch(module, fused=False)
        export(module, SIZE, sample.form, path)


def measure(path: Path) -> dict[str, float]:
    """Seconds of each stage, in this process."""
    from gradskip_onnx.graph.architecture import read
    from gradskip_onnx.graph.read.load import load
    from gradskip_onnx.instrument.build_plan import build_plan
    from gradskip_onnx.methods import METHODS

    row = METHODS["gradskip"]
    found: dict[str, float] = {}

    def timed(name: str, step: Callable[..., Any], *arguments: Any) -> Any:
        began = time.perf_counter()
        made = step(*arguments)
        found[name] = time.perf_counter() - began
        return made

    source = timed("load", load, path)
    reading = timed("read", read, source)
    plan = timed("gradients", build_plan, source, reading, row.needs(row.options(), reading.architecture))
    assert "torch" not in sys.modules
    return found | {"nodes": len(source.model.graph.node), "planned": len(plan.model.graph.node)}


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--once", type=click.Path(exists=True, path_type=Path), hidden=True, help="Time one file, here.")
def main(folder: Path, once: Path | None) -> None:
    """Write the files into FOLDER, time each, print a table."""
    if once is not None:
        click.echo(json.dumps(measure(once)))
        return
    folder.mkdir(parents=True, exist_ok=True)
    stages = ("load", "read", "gradients")
    click.echo("| file | nodes | with gradients | load | read | gradients | sum | allowed |\n" + "|---" * 8 + "|")
    late = False
    for name, sample in SAMPLES.items():
        path = folder / f"{name}.onnx"
        write(sample, path)
        again = [sys.executable, "-m", "benchmarks.reading", str(folder), "--once", str(path)]
        runs = [json.loads(subprocess.run(again, check=True, capture_output=True).stdout) for _ in range(RUNS)]
        middle = sorted(runs, key=lambda run: sum(run[stage] for stage in stages))[RUNS // 2]
        total = statistics.median(sum(run[stage] for stage in stages) for run in runs)
        cells = [name, *(f"{middle[key]:.0f}" for key in ("nodes", "planned"))]
        cells += [f"{middle[stage]:.2f} s" for stage in stages]
        click.echo(f"| {' | '.join(cells)} | {total:.2f} s | {sample.allowed:.0f} s |")
        late |= total > sample.allowed
    sys.exit(late)


if __name__ == "__main__":
    main()
