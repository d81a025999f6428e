"""How often a map's strongest pixel lies on the planted object: `python -m benchmarks.planted.pointing [MODEL]`."""

from __future__ import annotations

import json
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.progress import track

import gradskip_onnx
from gradskip_onnx.demo import demo_model
from gradskip_onnx.demo.scenes import batch

from .data import TEST_SEED

AT_ONCE = 50


@click.command()
@click.argument("model", default=demo_model(), type=click.Path(path_type=Path))
@click.option("--scenes", default=1000, show_default=True, help="Held-out scenes.")
@click.option("--option", "-O", multiple=True, help="A method option, NAME=VALUE with VALUE in JSON; may be repeated.")
def main(model: Path, scenes: int, option: tuple[str, ...]) -> None:
    """Explain the true class of held-out scenes and play the pointing game; no tolerance around the mask."""
    explainer = gradskip_onnx.load(model)
    options = {name: json.loads(value) for name, _, value in (entry.partition("=") for entry in option)}
    hits, share, right = [], [], []
    starts = range(TEST_SEED, TEST_SEED + scenes, AT_ONCE)
    for start in track(starts, "explaining", console=Console(stderr=True)):
        some = batch(range(start, min(start + AT_ONCE, TEST_SEED + scenes)))
        pixels = some.images.astype(np.float32) / 255
        mean, std = (np.array(part, np.float32) for part in (explainer.preprocess.mean, explainer.preprocess.std))
        images = np.ascontiguousarray(((pixels - mean) / std).transpose(0, 3, 1, 2))
        shift = explainer.architecture.task == "segmentation"  # class 0 is the background there
        targets = [int(label) + shift for label in some.labels]
        for result, mask, target in zip(
            explainer.explain(images, targets, **options), some.masks, targets, strict=True
        ):
            hits.append(bool(mask.ravel()[int(result.map.argmax())]))
            share.append(float(mask.mean()))
            right.append(target in [candidate.index for candidate in result.top[: 1 + shift]])
    error = np.std(hits) / np.sqrt(len(hits))
    summary = {"scenes": len(hits), "hit rate": np.mean(hits), "standard error": error}
    summary |= {"chance": np.mean(share), "accuracy": np.mean(right)}
    print(json.dumps({key: round(float(value), 4) for key, value in summary.items()}))


if __name__ == "__main__":
    main()
