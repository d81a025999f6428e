"""Three small transformers, each as a torch model in float64 and as an explainer of the ONNX file written from it.

Class token, two special tokens whose heads are averaged, and a mean over the patches. Passes of the torch model are
watched by hooks and differentiated by autograd: they are what the slow twins of the methods start from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("timm")

import torch
from gradskip_onnx.exporters.trace import trace
from timm.models.deit import VisionTransformerDistilled
from timm.models.vision_transformer import VisionTransformer

import gradskip_onnx
from gradskip_onnx.api import Explainer
from gradskip_onnx.explanation import Explanation
from gradskip_onnx.types import Array, Relevance

# Of the largest entry of a map: one side runs in float32 on ONNX Runtime, the other in float64.
AGREEMENT = 1e-4
GRID, SIZE, CLASSES = (4, 5), (32, 40), 7
SHAPE: dict[str, Any] = {"img_size": SIZE, "patch_size": 8, "embed_dim": 24, "num_heads": 3, "num_classes": CLASSES}

KINDS: dict[str, Callable[[], torch.nn.Module]] = {
    "class token": lambda: VisionTransformer(**SHAPE, depth=5),
    "distilled": lambda: VisionTransformerDistilled(**SHAPE, depth=5),
    "mean": lambda: VisionTransformer(**SHAPE, depth=5, class_token=False, global_pool="avg"),
}


@dataclass(frozen=True, eq=False)
class Pair:
    """The same weights twice."""

    name: str
    module: Any  # float64
    explainer: Explainer
    image: Array  # (3, H, W) float32
    target: int

    @property
    def special(self) -> int:
        return int(self.module.num_prefix_tokens)

    @property
    def patches(self) -> int:
        return GRID[0] * GRID[1]

    def run(self, method: str, **options: Any) -> Relevance:
        """Our side."""
        found: list[Explanation] = self.explainer.explain(self.image[None], self.target, method=method, **options)
        return found[0].relevance

    def logits(self, images: Array) -> Array:
        with torch.no_grad():
            found: Array = self.module(torch.from_numpy(images).double()).numpy()
        return found

    def probabilities(self, images: Array) -> Array:
        """(M,) of the class explained."""
        return softmax(self.logits(images))[:, self.target]

    def tokens(self, image: Array) -> torch.Tensor:
        """(1, N, d) behind the positional embedding."""
        m = self.module
        found: torch.Tensor = m._pos_embed(m.patch_embed(torch.from_numpy(image[None]).double()))
        return found

    def behind(self, tokens: torch.Tensor) -> torch.Tensor:
        """The rest of the model on a sequence of any length."""
        for block in self.module.blocks:
            tokens = block(tokens)
        found: torch.Tensor = self.module.forward_head(self.module.norm(tokens))
        return found

    def without_tokens(self, keep: Array) -> Array:
        """(M, n) booleans -> (M, classes): logits of the sequences that are really shorter."""
        with torch.no_grad():
            tokens, found = self.tokens(self.image), []
            for row in keep:
                rows = [*range(self.special), *(self.special + np.flatnonzero(row))]
                found.append(self.behind(tokens[:, rows])[0].numpy())
        return np.stack(found)


@dataclass(frozen=True, eq=False)
class Pass:
    """What hooks saw of one image, special tokens included; gradients are those of the logit."""

    attention: list[Array]  # (h, N, N) a block
    d_attention: list[Array]
    normed: list[Array]  # (N, d)
    outputs: list[Array]


def watch(pair: Pair, image: Array, of: Callable[[torch.Tensor], torch.Tensor] | None = None) -> Pass:
    """One pass of one image."""
    kept: dict[str, list[torch.Tensor]] = {"attention": [], "normed": [], "outputs": []}

    def keep(name: str) -> Callable[..., None]:
        def hook(_module: Any, _inputs: Any, output: torch.Tensor) -> None:
            output.retain_grad()
            kept[name].append(output)

        return hook

    hooks = []
    for block in pair.module.blocks:
        hooks.append(block.attn.attn_drop.register_forward_hook(keep("attention")))
        hooks.append(block.norm1.register_forward_hook(keep("normed")))
        hooks.append(block.register_forward_hook(keep("outputs")))
    logits = pair.module(torch.from_numpy(image[None]).double())[0]
    (logits[pair.target] if of is None else of(logits)).backward()
    for hook in hooks:
        hook.remove()
    return Pass(
        attention=[tensor[0].detach().numpy() for tensor in kept["attention"]],
        d_attention=[tensor.grad[0].numpy() for tensor in kept["attention"] if tensor.grad is not None],
        normed=[tensor[0].detach().numpy() for tensor in kept["normed"]],
        outputs=[tensor[0].detach().numpy() for tensor in kept["outputs"]],
    )


@cache
def pair(name: str) -> Pair:
    """Random weights, stirred so that no bias is zero, no scale is one and attention is not even."""
    torch.set_num_threads(1)  # on models as small as these, threads only wait for one another
    torch.manual_seed(18 + sorted(KINDS).index(name))  # of few tries, one in which channels have both signs
    module: Any = KINDS[name]().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn(parameter.shape))
            else:
                parameter.copy_(torch.randn(parameter.shape) / max(1.0, parameter[0].numel() ** 0.5))
    for block in module.blocks:
        block.attn.fused_attn = False
    explainer = gradskip_onnx.load(trace(module, torch.zeros(1, 3, *SIZE), opset=18).SerializeToString(), threads=1)
    image = np.random.default_rng(5).standard_normal((3, *SIZE)).astype(np.float32)
    found = Pair(name, module.double(), explainer, image, 0)
    best = found.logits(image[None])[0].argsort()[::-1]
    return Pair(name, module, explainer, image, int(best[1]))  # not the predicted class, so that the choice is seen


def softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def agree(found: Array, expected: Array, within: float = AGREEMENT) -> None:
    """Equal to within a share of the largest entry; a map that is the same everywhere proves nothing."""
    assert found.shape == expected.shape
    assert np.ptp(expected) > 10 * within * np.abs(expected).max()
    assert np.abs(found - expected).max() <= within * np.abs(expected).max()
