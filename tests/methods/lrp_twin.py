"""Layer-wise relevance propagation through a tiny ViT, layer by layer in float64: the slow twin.

One image at a time, tokens are (N, d).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradskip_onnx.types import Array

from .lrp_rules import Recipe, add_balanced, normal_cdf
from .tiny_vit import COUNT, HEADS, PATCH, SIZE, WIDTH, TinyVit


@dataclass(frozen=True, eq=False)
class Found:
    """Relevance of one image."""

    logits: Array
    pixels: Array  # (3, H, W)
    tokens: Array  # (N, d), after the positional embedding
    position: Array  # (N, d), of the positional embedding
    attention: list[Array]  # (heads, N, N) of each block


class Twin:
    """A TinyVit whose relevance is propagated by a recipe; R starts as `seed` at the logits."""

    def __init__(self, model: TinyVit, recipe: Recipe) -> None:
        self.model, self.recipe = model, recipe
        self.p = {name: value.detach().double().numpy() for name, value in model.state_dict().items()}

    def layer(self, name: str) -> tuple[Array, Array]:
        W = self.p[f"{name}.weight"]
        return W.reshape(len(W), -1), self.p.get(f"{name}.bias", np.zeros(len(W)))

    def linear(self, name: str, x: Array) -> Array:
        W, b = self.layer(name)
        return np.asarray(x @ W.T + b)

    def norm(self, name: str, x: Array) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        h = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)
        return np.asarray(h * self.p[f"{name}.weight"] + self.p.get(f"{name}.bias", 0.0))

    def norm_back(self, name: str, x: Array, R: Array) -> Array:
        w = self.p[f"{name}.weight"]
        return self.recipe.norm(x, w, self.p.get(f"{name}.bias", np.zeros_like(w)), R)

    def forward(self, image: Array) -> dict[str, Any]:
        s: dict[str, Any] = {"patches": patches(image.astype(np.float64))}
        embedded = self.linear("embed", s["patches"])
        s["e"] = np.concatenate([self.p["extra"][0], embedded])
        x = s["e"] + self.p["position"][0]
        s["t0"] = x
        for i in range(self.model.depth):
            u = self.norm(f"norm1.{i}", x)
            q, k, v = split(self.linear(f"qkv.{i}", u))
            A = softmax(q @ k.swapaxes(1, 2) * (WIDTH // HEADS) ** -0.5)
            merged = (A @ v).swapaxes(0, 1).reshape(len(x), WIDTH)
            a = self.linear(f"out.{i}", merged)
            middle = x + a
            w = self.norm(f"norm2.{i}", middle)
            hidden = self.linear(f"up.{i}", w)
            active = hidden * normal_cdf(hidden)
            m = self.linear(f"down.{i}", active)
            s[f"block{i}"] = (x, u, (q, k, v, A), merged, a, middle, w, hidden, active, m)
            x = middle + m
        s["last"], s["normed"] = x, self.norm("norm", x)
        rows = s["normed"][: len(self.model.heads)] if self.model.special else s["normed"].mean(0, keepdims=True)
        s["rows"] = rows
        s["scores"] = [self.linear(f"heads.{i}", row[None]) for i, row in enumerate(rows)]
        s["logits"] = sum(s["scores"])[0] / len(s["scores"])
        return s

    def relevance(self, image: Array, seed: Callable[[Array], Array]) -> Found:
        s, rule = self.forward(image), self.recipe
        R = self.head_back(s, seed(s["logits"])[None])
        R = self.norm_back("norm", s["last"], R)
        attention: list[Array] = []
        for i in reversed(range(self.model.depth)):
            x, u, (q, k, v, A), merged, a, middle, w, hidden, active, m = s[f"block{i}"]
            around, R = rule.add(middle, m, R)
            R = rule.outside(active, *self.layer(f"down.{i}"), R)
            R = rule.outside(w, *self.layer(f"up.{i}"), rule.gelu(hidden, R))
            around, R = rule.add(x, a, around + self.norm_back(f"norm2.{i}", middle, R))
            R = rule.inside(merged, *self.layer(f"out.{i}"), R)
            found = rule.attention(q, k, v, A, R.reshape(len(x), HEADS, -1).swapaxes(0, 1))
            attention.insert(0, found[3])
            R = self.qkv_back(i, u, found[:3])
            R = around + self.norm_back(f"norm1.{i}", x, R)
        if rule.add is add_balanced:
            from_tokens, of_position = R, np.zeros_like(R)  # a constant that is added gets nothing
        else:
            from_tokens, of_position = rule.add(s["e"], self.p["position"][0], R)
        pixels = rule.embed(s["patches"], *self.layer("embed"), from_tokens[self.model.special :])
        return Found(s["logits"], unpatched(pixels), R, of_position, attention)

    def head_back(self, s: dict[str, Any], R: Array) -> Array:
        """Each head gets its share, then the rows it reads; a mean shares by what each token adds."""
        scores = s["scores"]
        shares = [R] if len(scores) == 1 else list(self.recipe.add(scores[0], scores[1], R))
        found = np.zeros_like(s["normed"])
        for i, (row, share) in enumerate(zip(s["rows"], shares, strict=True)):
            back = self.recipe.outside(row[None], *self.layer(f"heads.{i}"), share)[0]
            if self.model.special:
                found[i] += back
            else:
                found += s["normed"] * back / s["normed"].sum(0)
        return np.asarray(found)

    def qkv_back(self, i: int, u: Array, parts: tuple[Array, ...]) -> Array:
        """The three relevances lie side by side, as the layer computed queries, keys and values."""
        R = np.concatenate([part.swapaxes(0, 1).reshape(len(u), WIDTH) for part in parts], axis=1)
        return self.recipe.inside(u, *self.layer(f"qkv.{i}"), R)


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def split(qkv: Array) -> Array:
    """(N, 3 d) -> three of (heads, N, d / heads)."""
    return np.asarray(qkv.reshape(len(qkv), 3, HEADS, WIDTH // HEADS).transpose(1, 2, 0, 3))


def patches(image: Array) -> Array:
    """(3, H, W) -> (n, 3 p p)."""
    cut = image.reshape(3, SIZE[0] // PATCH, PATCH, SIZE[1] // PATCH, PATCH)
    return cut.transpose(1, 3, 0, 2, 4).reshape(COUNT, -1)


def unpatched(rows: Array) -> Array:
    cut = rows.reshape(SIZE[0] // PATCH, SIZE[1] // PATCH, 3, PATCH, PATCH)
    return cut.transpose(2, 0, 3, 1, 4).reshape(3, *SIZE)
