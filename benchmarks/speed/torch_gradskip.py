"""GradSkip as one would write it in PyTorch: hooks for tokens and attention, autograd, then the paper's equations.

Nothing of ours is imported, so that a process that runs it is a process of PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from gradskip_onnx.types import Architecture, Block

ALPHA, GAMMA, EPS = 0.5, 0.25, 1e-12


class TorchGradSkip:
    """The printed method for one torch model; the anatomy (grids, special tokens) is told, not found."""

    def __init__(self, module: Any, blocks: tuple[Any, ...], architecture: Architecture) -> None:
        self.module, self.blocks, self.architecture = module, blocks, architecture

    def __call__(self, images: Tensor) -> list[Tensor]:
        """A map (H, W) for each image, of its predicted class."""
        entered: list[Tensor] = []
        left: list[Tensor] = []
        attention: list[Tensor] = []

        def hook(_module: Any, inputs: Any, output: Any) -> None:
            entered.append(inputs[0])
            left.append(output if isinstance(output, Tensor) else output[0])

        handles = [block.register_forward_hook(hook) for block in self.blocks]
        try:
            with _softmaxes(attention):
                logits = self.module(images)
        finally:
            for handle in handles:
                handle.remove()
        gradients = torch.autograd.grad(score(logits), left)
        return self.maps(attention, entered, left, gradients)

    def maps(
        self, attention: Sequence[Tensor], entered: Sequence[Tensor], left: Sequence[Tensor],
        gradients: Sequence[Tensor],
    ) -> list[Tensor]:  # fmt: skip
        """The propagation, image by image."""
        seen = (attention, entered, left, gradients)
        with torch.no_grad():
            return [self._map(*([tensor[i] for tensor in part] for part in seen)) for i in range(len(left[0]))]

    def _map(self, attention: Any, entered: Any, left: Any, gradients: Any) -> Tensor:
        blocks = self.architecture.blocks
        patches = [
            (_patches(tokens, block), _patches(before, block), _patches(gradient, block))
            for tokens, before, gradient, block in zip(left, entered, gradients, blocks, strict=True)
        ]
        at = max(i for i, (_, _, gradient) in enumerate(patches) if bool(gradient.norm() > 0))
        tokens, _, gradient = patches[at]
        relevance = (gradient * tokens).abs().sum(1)
        relevance = relevance / relevance.sum()
        for i in range(at, 0, -1):
            relevance = _back(blocks[i], attention[i], *patches[i], relevance)
            if blocks[i].stage != blocks[i - 1].stage:
                coarse, fine = blocks[i].grid, blocks[i - 1].grid
                cells = functional.interpolate(relevance.reshape(1, 1, *coarse), fine, mode="nearest")
                relevance = (cells / (fine[0] * fine[1] / (coarse[0] * coarse[1]))).flatten()
        grid = relevance.reshape(1, 1, *blocks[0].grid)
        size = self.architecture.input_dims[1:]
        return functional.interpolate(grid, size, mode="bilinear", align_corners=False)[0, 0]


def _back(block: Block, attention: Tensor, tokens: Tensor, before: Tensor, gradient: Tensor, R: Tensor) -> Tensor:
    special = len(block.special)
    A = attention[:, special:, special:] if block.reduction == 1 else attention
    norms, sizes = gradient.norm(dim=1), tokens.norm(dim=1)
    flow = (A.sum(1) * _at_keys(norms, block)).sum(1)
    flow = torch.where(flow >= GAMMA * flow.max(), flow, 0.0)
    gini = _gini(A.flatten(1))
    weights = ALPHA * flow / flow.sum() + (1 - ALPHA) * gini / (gini.sum() + EPS)
    mixed = torch.einsum("h,hij->ij", weights / weights.sum(), A)
    rows = mixed @ _at_keys(sizes, block)
    carried = sizes * _from_keys((R / rows) @ mixed, block)
    through, around = (gradient * tokens).abs().sum(), (gradient * before).abs().sum()
    gate = through / (through + around)
    found: Tensor = gate * carried + (1 - gate) * R
    return found


def _gini(values: Tensor) -> Tensor:
    ordered, count = values.sort(dim=1).values, values.shape[1]
    ranks = torch.arange(1, count + 1, dtype=values.dtype)
    return 2 * (ordered * ranks).sum(1) / (count * ordered.sum(1)) - (count + 1) / count


def _at_keys(values: Tensor, block: Block) -> Tensor:
    if block.reduction == 1:
        return values
    return functional.avg_pool2d(values.reshape(1, 1, *block.grid), block.reduction).flatten()


def _from_keys(values: Tensor, block: Block) -> Tensor:
    if block.reduction == 1:
        return values
    small = values.reshape(1, 1, *(side // block.reduction for side in block.grid))
    return functional.interpolate(small, block.grid, mode="nearest").flatten() / block.reduction**2


def _patches(tokens: Tensor, block: Block) -> Tensor:
    return tokens.reshape(-1, tokens.shape[-1])[len(block.special) :]


def score(logits: Tensor) -> Tensor:
    """The logit of the predicted class; for segmentation its mean over the pixels predicted as it."""
    if logits.ndim == 2:
        return logits.max(1).values.sum()
    best = logits.argmax(1)
    total = logits.new_zeros(())
    for scores, pixels in zip(logits, best, strict=True):
        target = int(pixels.flatten().bincount().argmax())
        total = total + scores[target][pixels == target].mean()
    return total


@contextmanager
def _softmaxes(found: list[Tensor]) -> Iterator[None]:
    """Collect what softmax gives inside; torch's function calls the tensor's own."""
    method = Tensor.softmax

    def kept(*args: Any, **options: Any) -> Tensor:
        found.append(method(*args, **options))
        return found[-1]

    Tensor.softmax = kept  # type: ignore[method-assign]
    try:
        yield
    finally:
        Tensor.softmax = method  # type: ignore[method-assign]
