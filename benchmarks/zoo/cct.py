"""A compact convolutional transformer: tokens out of convolutions, pooled by an attention over the sequence.

After Hassani et al. 2021, "Escaping the Big Data Paradigm with Compact Transformers", section 3.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Attention(nn.Module):
    """Plain self-attention; `fused_attn` chooses how it is computed, as in timm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.scale, self.fused_attn = heads, (width // heads) ** -0.5, True
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        images, count, width = tokens.shape
        packed = self.qkv(tokens).reshape(images, count, 3, self.heads, width // self.heads)
        q, k, v = packed.permute(2, 0, 3, 1, 4).unbind(0)
        if self.fused_attn:
            mixed = functional.scaled_dot_product_attention(q, k, v)
        else:
            mixed = (q * self.scale @ k.transpose(-2, -1)).softmax(dim=-1) @ v
        projected: Tensor = self.proj(mixed.transpose(1, 2).reshape(images, count, width))
        return projected


class Block(nn.Module):
    """The paper's encoder layer: the second norm comes before the residual is kept, so it is part of the stream."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attn, self.norm2 = nn.LayerNorm(width), Attention(width, heads), nn.LayerNorm(width)
        self.linear1, self.linear2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        stream: Tensor = self.norm2(tokens + self.attn(self.norm1(tokens)))
        branch: Tensor = self.linear2(functional.gelu(self.linear1(stream)))
        return stream + branch


class CCT(nn.Module):
    """Convolutional tokeniser, blocks, sequence pooling, linear head."""

    def __init__(self, size: tuple[int, int], width: int, depth: int, heads: int, classes: int) -> None:
        super().__init__()
        self.tokeniser = nn.Sequential(
            nn.Conv2d(3, width // 2, 3, stride=2, padding=1, bias=False), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
            nn.Conv2d(width // 2, width, 3, stride=2, padding=1, bias=False), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        )  # fmt: skip
        self.positions = nn.Parameter(torch.zeros(1, size[0] // 16 * (size[1] // 16), width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm, self.pool, self.head = nn.LayerNorm(width), nn.Linear(width, 1), nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.tokeniser(images).flatten(2).transpose(1, 2) + self.positions
        for block in self.blocks:
            tokens = block(tokens)
        tokens = self.norm(tokens)
        weights = self.pool(tokens).softmax(dim=1)
        logits: Tensor = self.head((weights.transpose(-1, -2) @ tokens).squeeze(-2))
        return logits
