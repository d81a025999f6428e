"""The measurements of audits from the command line.

    python -m benchmarks.audit cost [--images 1024] [--model FILE] [--data DATA]
    python -m benchmarks.audit kills FOLDER [--images 10000] [--kills 3]
    python -m benchmarks.audit ray FOLDER [--images 10000]

`kills` and `ray` compare with the undisturbed audit FOLDER/whole, which is made where it is missing.
"""

from __future__ import annotations

from pathlib import Path

import click

from gradskip_onnx.demo import demo_model

from .cost import measure_cost
from .lost import kill_and_resume, lose_a_ray_worker

FOLDER = click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
IMAGES = click.option("--images", type=click.IntRange(min=1), default=10_000, show_default=True)
MODEL = click.option("--model", type=click.Path(exists=True, path_type=Path), help="[default: the demo model]")


@click.group()
def main() -> None:
    """Measure audits."""


@main.command()
@click.option("--images", type=click.IntRange(min=8), default=1024, show_default=True)
@MODEL
@click.option("--data", default="planted:4096", show_default=True)
@click.option("--method", default="gradskip+", show_default=True)
@click.option("--threads", type=click.IntRange(min=1))
def cost(images: int, model: Path | None, data: str, method: str, threads: int | None) -> None:
    """What an audit costs beside the explanations and the passes it consists of, in turns."""
    measure_cost(model or demo_model(), data, images, method, threads)


@main.command()
@FOLDER
@IMAGES
@click.option("--kills", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@MODEL
def kills(folder: Path, images: int, kills: int, seed: int, model: Path | None) -> None:
    """Kill an audit at random moments, let it go on, compare with one that was left alone; memory of the latter."""
    kill_and_resume(folder, model or demo_model(), images, kills, seed)


@main.command()
@FOLDER
@IMAGES
@MODEL
def ray(folder: Path, images: int, model: Path | None) -> None:
    """The same through Ray Data with two actors, one of which is killed on the way."""
    lose_a_ray_worker(folder, model or demo_model(), images)


if __name__ == "__main__":
    main()
