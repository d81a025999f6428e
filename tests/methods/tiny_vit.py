"""A tiny ViT in torch, for relevance propagation, and its export."""

from __future__ import annotations

import io
import warnings
from typing import Any

import onnx
import torch
from torch import nn

SIZE, PATCH, WIDTH, HEADS, CLASSES, DEPTH = (12, 16), 4, 8, 2, 5, 2
COUNT = (SIZE[0] // PATCH) * (SIZE[1] // PATCH)


class TinyVit(nn.Module):
    """Pre-norm, class token by default; `special` tokens 0: mean of all, 2: two heads averaged."""

    def __init__(self, special: int = 1, bias: bool = True, depth: int = DEPTH, tanh: bool = False) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(special + 10 * depth)
        self.special, self.depth, self.approximate = special, depth, "tanh" if tanh else "none"
        self.embed = nn.Conv2d(3, WIDTH, PATCH, PATCH, bias=bias)
        self.extra = nn.Parameter(torch.zeros(1, special, WIDTH))
        self.position = nn.Parameter(torch.zeros(1, special + COUNT, WIDTH))
        self.norm1 = nn.ModuleList(nn.LayerNorm(WIDTH, 1e-6, bias=bias) for _ in range(depth))
        self.norm2 = nn.ModuleList(nn.LayerNorm(WIDTH, 1e-6, bias=bias) for _ in range(depth))
        self.qkv = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH, bias) for _ in range(depth))
        self.out = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias) for _ in range(depth))
        self.up = nn.ModuleList(nn.Linear(WIDTH, 2 * WIDTH, bias) for _ in range(depth))
        self.down = nn.ModuleList(nn.Linear(2 * WIDTH, WIDTH, bias) for _ in range(depth))
        self.norm = nn.LayerNorm(WIDTH, 1e-6, bias=bias)
        self.heads = nn.ModuleList(nn.Linear(WIDTH, CLASSES, bias) for _ in range(max(special, 1)))
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(0.45 * torch.randn(parameter.shape, generator=generator))
            for layer in [*self.norm1, *self.norm2, self.norm]:
                layer.weight += 1

    def forward(self, image: Any) -> Any:
        x = self.embed(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.extra.expand(x.shape[0], -1, -1), x], dim=1) + self.position
        for i in range(self.depth):
            x = x + self.attend(i, self.norm1[i](x))
            x = x + self.down[i](nn.functional.gelu(self.up[i](self.norm2[i](x)), approximate=self.approximate))
        x = self.norm(x)
        if not self.special:
            return self.heads[0](x.mean(1))
        scores = [head(x[:, i]) for i, head in enumerate(self.heads)]
        return scores[0] if self.special == 1 else (scores[0] + scores[1]) / 2

    def attend(self, i: int, x: Any) -> Any:
        n = self.special + COUNT
        parts = self.qkv[i](x).reshape(-1, n, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        q, k, v = parts[0], parts[1], parts[2]
        attention = (q @ k.transpose(-2, -1) * (WIDTH // HEADS) ** -0.5).softmax(-1)
        return self.out[i]((attention @ v).transpose(1, 2).reshape(-1, n, WIDTH))


def exported(model: nn.Module, opset: int, dynamo: bool = False, size: tuple[int, int] = SIZE) -> onnx.ModelProto:
    example = torch.zeros(2, 3, *size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dynamo:
            program = torch.onnx.export(
                model.eval(), (example,), input_names=["image"], output_names=["logits"], opset_version=opset,
                dynamic_shapes=({0: torch.export.Dim("batch")},), dynamo=True, verbose=False,
            )  # fmt: skip
            assert program is not None
            return program.model_proto
        file: Any = io.BytesIO()
        torch.onnx.export(
            model.eval(), (example,), file, input_names=["image"], output_names=["logits"], opset_version=opset,
            dynamic_axes={"image": {0: "batch"}, "logits": {0: "batch"}}, dynamo=False,
        )  # fmt: skip
        return onnx.load_from_string(file.getvalue())
