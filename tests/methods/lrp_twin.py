"""Layer-wise relevance propagation through a tiny ViT, rule by rule in relevance form, in float64: the slow twin.

Written from the papers' tables of rules; no gradient is taken anywhere. One image at a time, tokens are (N, d).
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
from torch import nn

from gradskip_onnx.types import Array

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


# --- rules at layers: (x, W, b, R) -> R_x ---------------------------------------------------------------------------

LayerRule = Callable[[Array, Array, Array, Array], Array]


def epsilon(eps: float) -> LayerRule:
    return lambda x, W, b, R: x * ((R / (x @ W.T + b + eps)) @ W)


def gamma(share: float) -> LayerRule:
    def rule(x: Array, W: Array, b: Array, R: Array) -> Array:
        up, down = x.clip(min=0), x.clip(max=0)
        W_up, W_down = W + share * W.clip(min=0), W + share * W.clip(max=0)
        b_up, b_down = b + share * b.clip(min=0), b + share * b.clip(max=0)
        y = x @ W.T + b
        S_up = R * (y > 0) / stabilised(up @ W_up.T + b_up + down @ W_down.T)
        S_down = R * (y < 0) / stabilised(up @ W_down.T + b_down + down @ W_up.T)
        return np.asarray(up * (S_up @ W_up + S_down @ W_down) + down * (S_up @ W_down + S_down @ W_up))

    return rule


def stabilised(v: Array) -> Array:
    return v + np.where(v < 0, -1e-6, 1e-6)


def positive_only(x: Array, W: Array, _b: Array, R: Array) -> Array:
    Z = x.clip(min=0) @ W.clip(min=0).T + x.clip(max=0) @ W.clip(max=0).T
    S = over(R, Z)
    return np.asarray(x.clip(min=0) * (S @ W.clip(min=0)) + x.clip(max=0) * (S @ W.clip(max=0)))


def over(a: Any, b: Any) -> Any:
    shifted = b + 1e-9
    return np.where(b == 0, 0, a / np.where(shifted == 0, 1e-9, shifted))


# --- rules elsewhere ------------------------------------------------------------------------------------------------


def norm_spread_held(x: Array, w: Array, b: Array, R: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    spread = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)
    q = w / spread * R / (centred / spread * w + b)
    return np.asarray(x * (q - q.mean(-1, keepdims=True)))


def norm_all_held(x: Array, w: Array, b: Array, R: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    spread = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)
    return np.asarray(x * w / spread * R / (centred / spread * w + b))


def kept(*given: Array) -> Array:
    return given[-1]


def gelu_derived(x: Array, R: Array) -> Array:
    """x f'(x) R / f(x), f = x F."""
    F = normal_cdf(x)
    density = np.exp(-0.5 * x**2) / math.sqrt(2 * math.pi)
    return np.asarray(x * (F + x * density) * R / (x * F))


def normal_cdf(x: Array) -> Array:
    return np.asarray(0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))))


def add_epsilon(eps: float) -> Sum:
    return lambda a, b, R: (a * R / (a + b + eps), b * R / (a + b + eps))


def add_balanced(a: Array, b: Array, R: Array) -> tuple[Array, Array]:
    S = over(R, a + b)
    ra, rb = a * S, b * S
    sa, sb, T = ra.sum(), rb.sum(), R.sum()
    whole = abs(sa) + abs(sb)
    return ra * over(over(abs(sa), whole) * T, sa), rb * over(over(abs(sb), whole) * T, sb)


Heads = tuple[Array, Array, Array, Array]  # relevance of queries, keys, values, attention


def attention_full(q: Array, k: Array, v: Array, A: Array, R: Array) -> Heads:
    """Halves at both products, x (R - s sum R) at the softmax."""
    S = R / (2 * (A @ v))
    RA, Rv = A * (S @ v.swapaxes(1, 2)), v * (A.swapaxes(1, 2) @ S)
    scores = q @ k.swapaxes(1, 2) * q.shape[-1] ** -0.5
    Rs = scores * (RA - A * RA.sum(-1, keepdims=True))
    S = Rs / (2 * (q @ k.swapaxes(1, 2)))
    return q * (S @ k), k * (S.swapaxes(1, 2) @ q), Rv, RA


def attention_held(share: float) -> Callable[[Array, Array, Array, Array, Array], Heads]:
    def rule(q: Array, k: Array, v: Array, A: Array, R: Array) -> Heads:
        S = share * R / (A @ v)
        RA, Rv = A * (S @ v.swapaxes(1, 2)), v * (A.swapaxes(1, 2) @ S)
        return np.zeros_like(q), np.zeros_like(k), Rv, RA

    return rule


def attention_chefer(q: Array, k: Array, v: Array, A: Array, R: Array) -> Heads:
    S = over(R, A @ v)
    RA, Rv = 0.5 * A * (S @ v.swapaxes(1, 2)), 0.5 * v * (A.swapaxes(1, 2) @ S)
    S = over(RA, q @ k.swapaxes(1, 2))
    return 0.5 * q * (S @ k), 0.5 * k * (S.swapaxes(1, 2) @ q), Rv, RA


Norm = Callable[[Array, Array, Array, Array], Array]
Gelu = Callable[[Array, Array], Array]
Product = Callable[[Array, Array, Array, Array, Array], Heads]
Sum = Callable[[Array, Array, Array], tuple[Array, Array]]


@dataclass(frozen=True)
class Recipe:
    """Which rule stands where; `outside` is for head and MLP, `inside` for the layers of attention."""

    outside: LayerRule
    inside: LayerRule
    embed: LayerRule
    norm: Norm
    gelu: Gelu
    attention: Product
    add: Sum


def uniform(layer: LayerRule, norm: Norm, gelu: Gelu, attention: Product, add: Sum) -> Recipe:
    """One rule for all layers."""
    return Recipe(layer, layer, layer, norm, gelu, attention, add)


def recipes(layer: float, add: float) -> dict[str, Recipe]:
    """The methods with the given stabilisers, which the gradient form does not have, in the epsilon rules."""
    eps, plus = epsilon(layer), add_epsilon(add)
    return {
        "ah+ln": uniform(eps, norm_spread_held, gelu_derived, attention_held(1.0), plus),
        "ah+ln, mean and gates held": uniform(eps, norm_all_held, kept, attention_held(1.0), plus),
        "attnlrp": uniform(eps, norm_spread_held, kept, attention_full, plus),
        "attnlrp, gamma": Recipe(gamma(0.3), eps, gamma(2.0), norm_spread_held, kept, attention_full, plus),
        "attnlrp-vit": Recipe(gamma(0.05), eps, gamma(0.25), norm_spread_held, kept, attention_held(1.0), plus),
        "pe-lrp": Recipe(gamma(0.05), eps, gamma(100.0), norm_spread_held, kept, attention_held(0.5), plus),
        "chefer1": uniform(positive_only, kept, kept, attention_chefer, add_balanced),
    }


RECIPES = recipes(0.0, 0.0)
STABILISED = {"attnlrp": recipes(1e-6, 1e-8)["attnlrp"], "pe-lrp": recipes(1e-8, 1e-6)["pe-lrp"]}  # as published


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
