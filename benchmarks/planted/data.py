"""Scenes as arrays: drawn once on all cores, kept in memory, mixed and augmented afresh in each epoch."""

from __future__ import annotations

from collections.abc import Iterator
from multiprocessing import get_context

import numpy as np
import torch
from torch import Tensor

from gradskip_onnx.demo.scenes import Batch, batch

TRAIN_SEED = 1_000_000  # training scenes have seeds from here on
TEST_SEED = 0  # held-out scenes have seeds from here on
CHUNK = 250

MEAN = (0.25, 0.26, 0.32)  # of the training scenes, rounded
STD = (0.18, 0.15, 0.14)


def draw(first: int, count: int, workers: int) -> Iterator[Batch]:
    """The scenes of seeds first .. first + count - 1, in chunks, in order."""
    chunks = [range(at, min(at + CHUNK, first + count)) for at in range(first, first + count, CHUNK)]
    with get_context("spawn").Pool(workers) as pool:
        yield from pool.imap(batch, chunks)


def join(chunks: list[Batch]) -> Batch:
    return Batch(
        np.concatenate([c.images for c in chunks]),
        np.concatenate([c.labels for c in chunks]),
        np.concatenate([c.masks for c in chunks]),
    )


def normalise(images: Tensor) -> Tensor:
    """(n, h, w, 3) bytes to (n, 3, h, w) floats as the models take them."""
    scaled = (images.float() / 255.0 - torch.tensor(MEAN)) / torch.tensor(STD)
    return scaled.permute(0, 3, 1, 2).contiguous()


def epoch(
    scenes: Batch, named: Tensor, size: int, rng: np.random.Generator
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Shuffled (images, labels, masks, named); channels and sides, which do not tell the class, are swapped at will."""
    order = rng.permutation(len(scenes.labels))
    for at in range(0, len(order) - size + 1, size):
        some = np.sort(order[at : at + size])
        images, masks = scenes.images[some], scenes.masks[some]
        if rng.random() < 0.5:
            images, masks = images[:, :, ::-1], masks[:, :, ::-1]
        images = images[..., rng.permutation(3)]
        yield (
            normalise(torch.from_numpy(np.ascontiguousarray(images))),
            torch.from_numpy(scenes.labels[some]),
            torch.from_numpy(np.ascontiguousarray(masks)),
            named[some],
        )
