"""Rules of relevance propagation in relevance form, from the papers' tables, and the methods as recipes of them.

No gradient is taken anywhere; NumPy in float64. Tokens are (N, d).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradskip_onnx.types import Array

LayerRule = Callable[[Array, Array, Array, Array], Array]  # (x, W, b, R) -> R_x


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
