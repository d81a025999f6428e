"""Seeded random weights under which nothing is trivially zero, no attention is saturated and gradients are healthy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

SEED = 0
GAIN = 1.0  # of products: what leaves one is as large as what enters it
SCORES = 1.6  # of the projections to queries and keys: attention that is neither even nor one-hot
WEIGHTED = (nn.Linear, nn.Conv2d)
SHARP = ("qkv", "q_proj", "k_proj", "query", "key", "in_proj_weight")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter as the rules see it."""

    owner: nn.Module
    name: str  # full
    value: Tensor

    @property
    def leaf(self) -> str:
        return self.name.rpartition(".")[2]


Draw = Callable[[Parameter, Tensor], Tensor]  # the second is standard normal, of the parameter's shape


def _product(p: Parameter, noise: Tensor) -> Tensor:
    gain = SCORES if any(part in p.name for part in SHARP) else GAIN
    return noise * (gain / math.sqrt(p.value[0].numel()))


# The first row that takes a parameter draws it.
RULES: tuple[tuple[Callable[[Parameter], bool], Draw], ...] = (
    (lambda p: "logit_scale" in p.leaf, lambda p, noise: p.value + 0.1 * noise),  # Swin v2: the log of a temperature
    (lambda p: isinstance(p.owner, WEIGHTED) and p.value.ndim > 1, _product),
    (lambda p: p.leaf == "in_proj_weight", _product),
    (lambda p: p.leaf.endswith("bias"), lambda _, noise: 0.1 * noise),
    # Layer scale starts at 1e-5 or 0 in most libraries, and then no branch would matter.
    (lambda p: any(word in p.leaf for word in ("gamma", "lambda")), lambda _, noise: 0.6 + 0.1 * noise),
    (lambda p: p.value.ndim == 1, lambda _, noise: 1.0 + 0.15 * noise),  # norms
    (lambda p: p.value.ndim > 1, lambda _, noise: 0.4 * noise),  # tokens, positions, tables of biases
)


@torch.no_grad()
def stir(module: nn.Module, seed: int = SEED) -> nn.Module:
    """Draw every parameter, and the statistics of batch norms, afresh."""
    generator = torch.Generator().manual_seed(seed)
    for prefix, owner in module.named_modules():
        for leaf, value in owner.named_parameters(recurse=False):
            parameter = Parameter(owner, f"{prefix}.{leaf}", value)
            noise = torch.randn(value.shape, generator=generator)
            draw = next(draw for takes, draw in RULES if takes(parameter))
            value.copy_(draw(parameter, noise))
        if isinstance(owner, nn.BatchNorm2d) and owner.running_mean is not None and owner.running_var is not None:
            owner.running_mean.copy_(0.2 * torch.randn(owner.running_mean.shape, generator=generator))
            owner.running_var.copy_(0.5 + torch.rand(owner.running_var.shape, generator=generator))
    return module.eval()
