"""Whether memory stays flat: one explainer, many images, the memory of the process on the way.

    python -m benchmarks.memory [--images 10000] [--method gradskip] [--model FILE]

Every image is new, so nothing can be answered from a memory of earlier ones. Linux only: it reads /proc.
"""

from __future__ import annotations

import resource
from pathlib import Path

import click
import numpy as np

from gradskip_onnx import api
from gradskip_onnx.demo import demo_model

MARKS = (100, 1000, 5000, 10000)
BATCH = 8


def resident() -> float:
    """Megabytes that the process holds now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


def peak() -> float:
    """Megabytes that it held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


@click.command()
@click.option("--images", "count", type=click.IntRange(min=1), default=MARKS[-1], show_default=True)
@click.option("--method", default="gradskip", show_default=True)
@click.option("--model", type=click.Path(path_type=Path, exists=True), help="[default: the demo model]")
@click.option("--threads", type=int, default=None)
def main(count: int, method: str, model: Path | None, threads: int | None) -> None:
    """Explain COUNT random images and print the memory held on the way."""
    explainer = api.load(model or demo_model(), "cpu", threads=threads)
    rng = np.random.default_rng(0)
    click.echo(f"{'images':>7} {'MB now':>8} {'MB peak':>8}")
    for done in range(0, count, BATCH):
        size = min(BATCH, count - done)
        images = rng.standard_normal((size, *explainer.architecture.input_dims), dtype=np.float32)
        explainer.explain(images, method=method)
        for mark in {*MARKS, count}:
            if done < mark <= done + size:
                click.echo(f"{mark:7} {resident():8.1f} {peak():8.1f}")


if __name__ == "__main__":
    main()
