"""What a user of PyTorch would run from the shell: build a model, load its weights, explain an image, write a picture.

python -m benchmarks.speed.torch_script NAME WEIGHTS IMAGE PICTURE THREADS [HEIGHT WIDTH CLASSES]
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import timm
import torch
from PIL import Image

from .torch_gradskip import TorchGradSkip


def main(name: str, weights: str, image: str, picture: str, threads: str, *shape: str) -> None:
    torch.set_num_threads(int(threads))
    height, width, classes = map(int, shape) if shape else (224, 224, 1000)
    model = timm.create_model(name, img_size=(height, width), num_classes=classes).eval()
    model.load_state_dict(torch.load(weights, weights_only=True))
    for block in model.blocks:
        block.attn.fused_attn = False  # else there is no attention to look at
    with Image.open(image) as opened:
        photograph = opened.convert("RGB").resize((width, height), Image.Resampling.BICUBIC)
    scaled = np.asarray(photograph, np.float32) / 255
    pixels = torch.from_numpy((scaled - 0.5) / 0.5).permute(2, 0, 1)[None]
    special = tuple(range(model.num_prefix_tokens))
    block = SimpleNamespace(grid=model.patch_embed.grid_size, reduction=1, stage=0, special=special)
    anatomy = SimpleNamespace(blocks=[block] * len(model.blocks), input_dims=(3, height, width))
    (found,) = TorchGradSkip(model, tuple(model.blocks), anatomy)(pixels)  # type: ignore[arg-type]
    heat = (found / found.max()).numpy()[..., None]
    mixed = scaled * (1 - 0.6 * heat) + 0.6 * heat * np.array([1, 0, 0], np.float32)
    Path(picture).parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray((255 * mixed).astype(np.uint8)).save(picture)


if __name__ == "__main__":
    main(*sys.argv[1:])
