"""Train the demo model or a fixture on planted scenes and write it as plain ONNX.

python -m benchmarks.planted.train vit
python -m benchmarks.planted.train deit        # needs the checkpoint that `vit` left in the build folder
python -m benchmarks.planted.train segformer
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import click
import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn

from benchmarks.training.descent import Descent
from benchmarks.training.onnx_file import preparation, write
from gradskip_onnx.demo.scenes import SIZE, Batch

from . import data
from .recipes import RECIPES, Recipe, Round, Student, Task

console = Console(stderr=True)


class Logits(nn.Module):
    """The trained model as it is shipped: images in, one logits tensor out."""

    def __init__(self, trained: nn.Module) -> None:
        super().__init__()
        self.model = trained.model if isinstance(trained, Student) else trained

    def forward(self, pixel_values: Tensor) -> Tensor:
        out = self.model(pixel_values)
        return out if isinstance(out, Tensor) else out.logits


@click.command()
@click.argument("name", type=click.Choice(list(RECIPES)))
@click.option("--scenes", default=40_000, show_default=True, help="Training scenes.")
@click.option("--test-scenes", default=2_000, show_default=True, help="Held-out scenes.")
@click.option("--seed", default=0, show_default=True)
@click.option("--threads", default=2, show_default=True)
@click.option("--build", default="build/planted", show_default=True, type=click.Path(path_type=Path))
@click.option("--output", type=click.Path(path_type=Path), help="Default: the place in the repository.")
def main(
    name: str,
    scenes: int,
    test_scenes: int,
    seed: int,
    threads: int,
    build: Path,
    output: Path | None,
) -> None:
    """Train NAME on planted scenes, print its test scores, write its ONNX file."""
    recipe = RECIPES[name]
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    build.mkdir(parents=True, exist_ok=True)
    if recipe.teacher:
        checkpoint(recipe.teacher, build)
    train_set = collect(data.TRAIN_SEED, scenes, threads)
    test_set = collect(data.TEST_SEED, test_scenes, threads)
    student = recipe.build()
    named = torch.from_numpy(train_set.labels)
    if recipe.teacher:
        named = classes(restore(recipe.teacher, build), train_set)
    console.print(f"{name}: {sum(p.numel() for p in Logits(student).parameters()):,} parameters")
    for number, stretch in enumerate(recipe.rounds):
        fit(student, recipe, stretch, train_set, test_set, seed + number, named)
    torch.save(student.state_dict(), build / f"{name}.pt")
    target = output or Path(recipe.target)
    write(Logits(student).eval(), target, recipe.labels, preparation(SIZE, data.MEAN, data.STD))
    console.print(f"{target}: {target.stat().st_size:,} bytes")
    print(json.dumps(scores(student, recipe, test_set)))


def collect(first: int, count: int, workers: int) -> Batch:
    chunks = data.draw(first, count, workers)
    return data.join(list(track(chunks, f"drawing {count:,} scenes", math.ceil(count / data.CHUNK), console=console)))


def checkpoint(name: str, build: Path) -> Path:
    path = build / f"{name}.pt"
    if not path.exists():
        raise click.UsageError(f"the checkpoint {path} is missing; train `{name}` first, with the same --build")
    return path


def restore(name: str, build: Path) -> nn.Module:
    student = RECIPES[name].build()
    student.load_state_dict(torch.load(checkpoint(name, build), weights_only=True))
    return Logits(student).eval()


@torch.no_grad()
def classes(model: nn.Module, scenes: Batch) -> Tensor:
    """What a trained model says of each scene."""
    images = torch.split(torch.from_numpy(scenes.images), 100)
    return torch.cat([model(data.normalise(some)).argmax(1) for some in track(images, "teacher", console=console)])


def fit(
    student: nn.Module,
    recipe: Recipe,
    stretch: Round,
    scenes: Batch,
    held_out: Batch,
    seed: int,
    named: Tensor,
) -> None:
    """One round of AdamW; scores are shown after each epoch and never steer anything."""
    steps = stretch.epochs * (len(scenes.labels) // recipe.batch)
    rng = np.random.default_rng(seed)
    descent = Descent(student, stretch.rate, steps)
    for number in range(1, stretch.epochs + 1):
        student.train()
        title = f"epoch {number}/{stretch.epochs}"
        batches = track(data.epoch(scenes, named, recipe.batch, rng), title, steps // stretch.epochs, console=console)
        for batch in batches:
            at = descent.progress
            loss = recipe.loss(student, Task(*batch, stretch.patches(at), stretch.hint(at)))
            descent.step(loss)
            if descent.done % 100 == 0:
                console.print(f"step {descent.done}/{steps} loss {loss.item():.4f}")
        console.print(f"{title}: {scores(student, recipe, held_out, 500)}")


@torch.no_grad()
def scores(student: nn.Module, recipe: Recipe, scenes: Batch, count: int | None = None) -> dict[str, float]:
    """Scores on the first `count` scenes, or on all."""
    model = Logits(student).eval()
    images, labels, masks = (torch.from_numpy(a[:count]) for a in (scenes.images, scenes.labels, scenes.masks))
    logits = torch.cat([model(data.normalise(some)) for some in torch.split(images, 100)])
    return dict(recipe.measure(logits, labels, masks))


if __name__ == "__main__":
    main()
