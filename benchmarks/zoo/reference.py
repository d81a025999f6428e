"""What torch says: logits, block outputs and the gradient of the predicted class's score at each, by autograd."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gradskip_onnx.tasks import BY_RANK
from gradskip_onnx.types import Array

from .families import Family

if TYPE_CHECKING:
    import torch
    from torch import nn

IMAGES, SEED = 2, 11


def pictures(size: tuple[int, int], count: int = IMAGES, seed: int = SEED) -> Array:
    """Smooth random images with some grain, of mean 0 and deviation 1, as after normalisation."""
    rng = np.random.default_rng(seed)
    rows, columns = np.meshgrid(*(np.linspace(0, 2 * np.pi, side) for side in size), indexing="ij")
    waves = rng.uniform(0.5, 2.5, (count, 3, 2, 1, 1))
    phase = rng.uniform(0, 2 * np.pi, (count, 3, 1, 1))
    smooth = np.sin(waves[:, :, 0] * rows + waves[:, :, 1] * columns + phase)
    mixed = smooth + 0.7 * rng.standard_normal(smooth.shape)
    return np.asarray((mixed - mixed.mean()) / mixed.std(), np.float32)


def seeds(logits: Array, classes: Array) -> Array:
    """The weight of every logit in the score: the class itself, or its mean over the pixels predicted as the class."""
    weights = np.zeros(logits.shape, np.float32)
    for image, chosen in enumerate(classes):
        mask = np.asarray(logits[image].argmax(axis=0) == chosen if logits.ndim == 4 else True)
        weights[image, chosen] = mask / np.count_nonzero(mask)
    return weights


def write(family: Family, module: nn.Module, size: tuple[int, int], path: Path) -> None:
    """The reference of a family at one size."""
    import torch

    images = pictures(size)
    with _watch(family.blocks(module)) as outputs:
        logits = module(torch.from_numpy(images))
    values = logits.detach().numpy()
    classes = BY_RANK[values.ndim].predicted(values)
    weights = seeds(values, classes)
    (logits * torch.from_numpy(weights)).sum().backward()
    arrays: dict[str, Array] = {"images": images, "logits": values, "classes": classes}
    if values.ndim == 4:
        arrays["regions"] = np.stack([weight[chosen] > 0 for weight, chosen in zip(weights, classes, strict=True)])
    for number, output in enumerate(outputs):
        if output.grad is None:
            raise RuntimeError(f"{family.name}: no gradient reaches the output of block {number}")
        arrays[f"output_{number}"] = _tokens(output.detach())
        arrays[f"gradient_{number}"] = _tokens(output.grad)
    module.zero_grad(set_to_none=True)
    np.savez(path, **arrays)  # type: ignore[arg-type]


def _tokens(tensor: torch.Tensor) -> Array:
    """(B, N, d), also of a stream that keeps rows and columns apart."""
    array: Array = tensor.reshape(tensor.shape[0], -1, tensor.shape[-1]).numpy()
    return array


@contextmanager
def _watch(blocks: tuple[nn.Module, ...]) -> Iterator[list[torch.Tensor]]:
    """Collect what each block returns, with its gradient."""
    outputs: list[torch.Tensor] = []

    def keep(_module: Any, _args: Any, result: Any) -> None:
        tensor = result[0] if isinstance(result, tuple) else result
        tensor.retain_grad()
        outputs.append(tensor)

    hooks = [block.register_forward_hook(keep) for block in blocks]
    try:
        yield outputs
    finally:
        for hook in hooks:
            hook.remove()
