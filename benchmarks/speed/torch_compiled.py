"""The same method under torch.compile, the whole forward pass as one graph.

What a compiled graph computes inside cannot be differentiated at from outside. So a zero is added to every block
output, as an input of the graph: the gradient at that zero is the gradient at the output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .torch_gradskip import TorchGradSkip, score

if TYPE_CHECKING:
    from gradskip_onnx.types import Architecture


class Tapped(nn.Module):
    """A model that hands out block inputs and outputs and attention, with something added to every block output."""

    def __init__(self, module: Any, blocks: tuple[Any, ...]) -> None:
        super().__init__()
        self.module = module
        self.taps: tuple[Tensor, ...] = ()
        self.entered: list[Tensor] = []
        self.left: list[Tensor] = []
        self.attention: list[Tensor] = []
        for block in blocks:
            block.register_forward_hook(self._tap)
        for part in module.modules():
            if hasattr(part, "attn_drop"):  # timm: a dropout of the attention, and of nothing else
                part.attn_drop.register_forward_hook(lambda _part, _inputs, output: self.attention.append(output))
            elif type(part).__name__.endswith("Attention"):  # transformers: returns it beside the tokens
                part.register_forward_hook(lambda _part, _inputs, output: self.attention.append(output[1]))

    def _tap(self, _block: Any, inputs: Any, output: Any) -> Any:
        tokens = output if isinstance(output, Tensor) else output[0]
        if self.taps:
            tokens = tokens + self.taps[len(self.left)]
        self.entered.append(inputs[0])
        self.left.append(tokens)
        return tokens if isinstance(output, Tensor) else (tokens, *output[1:])

    def forward(
        self, images: Tensor, taps: tuple[Tensor, ...]
    ) -> tuple[Tensor, list[Tensor], list[Tensor], list[Tensor]]:
        self.taps = taps
        self.entered, self.left, self.attention = [], [], []
        logits = self.module(images)
        return logits, self.entered, self.left, self.attention


class CompiledGradSkip(TorchGradSkip):
    """For one batch size: the graph is compiled for its shapes."""

    def __init__(self, module: Any, blocks: tuple[Any, ...], architecture: Architecture, images: Tensor) -> None:
        super().__init__(module, blocks, architecture)
        module.requires_grad_(False)  # compiled, gradients of the weights would be computed as well
        tapped = Tapped(module, blocks)
        with torch.no_grad():
            _, _, left, _ = tapped(images, ())
        self.taps = tuple(torch.zeros_like(tokens).requires_grad_() for tokens in left)
        self.seen = torch.compile(tapped, fullgraph=True, dynamic=False)

    def __call__(self, images: Tensor) -> list[Tensor]:
        logits, entered, left, attention = self.seen(images, self.taps)
        return self.maps(attention, entered, left, torch.autograd.grad(score(logits), self.taps))
