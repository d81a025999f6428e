"""Slow twin of GradSkip, written loop by loop from the equations of the paper, on explicit square matrices."""

# ruff: noqa: E741  O and l are the symbols of the equations

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Layer:
    """One block as the model shows it, special tokens included; `d*` are gradients of the score."""

    attention: Array  # (h, tokens, keys)
    came_in: Array  # tokens before the block
    went_out: Array  # tokens after both residual additions
    added: Array  # what the attention adds to the residual stream
    d_in: Array
    d_out: Array
    d_added: Array
    normed: Array  # what the attention reads
    d_normed: Array
    grid: tuple[int, int]
    side: int = 1
    stage: int = 0
    special: tuple[int, ...] = ()


def gradskip(layers: list[Layer], **chosen: Any) -> tuple[Array, list[dict[str, Any]]]:
    """R^1 on its grid, and per propagated layer the head weights, flow, Gini and gate; l counts from 1."""
    o: dict[str, Any] = {
        "alpha": 0.5,
        "gamma": 0.25,
        "eps": 1e-12,
        "tokens": "output",
        "gate": "output",
        "start": 0,
        "steps": -1,
        "flow": "tokens",
        "gini": "head",
        "select": "flow",
        "heads": "all",
        "focus": "gini",
        "weight": "query",
        "renorm_rows": False,
        "rescale": True,
        "conserve": True,
        "special": "drop",
        "stages": "all",
        "transition": "uniform",
    }
    assert set(chosen) <= set(o)
    o |= chosen
    if o["special"] == "keep" and layers[0].special:
        kept = [replace(layer, special=(), grid=(1, len(layer.went_out))) for layer in layers]
        R, facts = gradskip(kept, **(chosen | {"special": "drop"}))
        alone = [value for i, value in enumerate(R[0]) if i not in layers[0].special]
        return np.array(alone).reshape(layers[0].grid) / sum(alone), facts
    L = len(layers)
    numbered = {l: layers[l - 1] for l in range(1, L + 1)}
    O = {l: patches(tensor(numbered[l], o["tokens"]), numbered[l]) for l in numbered}
    raw = {l: patches(gradient(numbered[l], o["tokens"]), numbered[l]) for l in numbered}
    mu = sum(frobenius(raw[l]) for l in raw) / L
    G = {l: (mu / (frobenius(raw[l]) + o["eps"])) * raw[l] if o["rescale"] else raw[l] for l in raw}
    if o["stages"] != "each":
        R, facts, l = walk(numbered, O, G, o)
        return R.reshape(numbered[l].grid), facts
    return each_stage(numbered, O, G, raw, o)


def walk(
    layers: dict[int, Layer], O: dict[int, Array], G: dict[int, Array], o: dict[str, Any]
) -> tuple[Array, list[dict[str, Any]], int]:
    """Steps 2 to 6 from one start; also the number of a layer that has the grid of the result."""
    top = layers[len(layers)].stage
    lowest = min(l for l in layers if o["stages"] != "last" or layers[l].stage == top)
    start = o["start"] or max(l for l in layers if l >= lowest and frobenius(G[l]) > 0)
    end = lowest if o["steps"] == -1 else start - o["steps"]
    R, facts = initial(G[start], O[start]), []
    for l in range(start, end, -1):
        R, fact = one_layer(layers, O, G, l, R, o)
        facts.append(fact)
        if l > lowest and layers[l].stage != layers[l - 1].stage:
            R = to_finer_grid(R, layers[l].grid, layers[l - 1].grid, O[l - 1], G[l - 1], o["transition"])
    return R, facts, max(end, lowest)


def each_stage(
    layers: dict[int, Layer], O: dict[int, Array], G: dict[int, Array], raw: dict[int, Array], o: dict[str, Any]
) -> tuple[Array, list[dict[str, Any]]]:
    """One walk per stage that has a gradient, weighted by sum |g * T| at its start, added up on the first grid."""
    starts = []
    for stage in sorted({layer.stage for layer in layers.values()}):
        with_gradient = [l for l in layers if layers[l].stage == stage and frobenius(raw[l]) > 0]
        starts += [max(with_gradient)] if with_gradient else []
    weights = [product_sum(raw[l], O[l]) for l in starts]
    total: Array = np.zeros(layers[1].grid)
    facts: list[dict[str, Any]] = []
    for l, weight in zip(starts, weights, strict=True):
        R, facts, _ = walk(layers, O, G, o | {"stages": "all", "start": l})
        total = total + weight / sum(weights) * R.reshape(layers[1].grid)
    return total, facts  # the facts of the walk from the last stage, which passes every layer


def tensor(layer: Layer, tokens: str) -> Array:
    return {"output": layer.went_out, "input": layer.came_in, "branch": layer.added, "normed": layer.normed}[tokens]


def gradient(layer: Layer, tokens: str) -> Array:
    return {"output": layer.d_out, "input": layer.d_in, "branch": layer.d_added, "normed": layer.d_normed}[tokens]


def patches(tokens: Array, layer: Layer) -> Array:
    return np.array([row for i, row in enumerate(tokens.astype(np.float64)) if i not in layer.special])


def initial(G: Array, O: Array) -> Array:
    """R^L_i = sum_k |G_ik| |O_ik| / sum_j sum_k |G_jk| |O_jk|."""
    n, d = O.shape
    R = np.array([sum(abs(G[i, k]) * abs(O[i, k]) for k in range(d)) for i in range(n)])
    return np.asarray(R / sum(R))


def square_attention(layer: Layer) -> Array:
    """(h, n, n): special rows and columns cut out; a key of reduced attention is divided among its window."""
    A = layer.attention.astype(np.float64)
    keep = [i for i in range(A.shape[1]) if i not in layer.special]
    n, (height, width), side = len(keep), layer.grid, layer.side
    full = np.zeros((A.shape[0], n, n))
    for q in range(A.shape[0]):
        for i in range(n):
            for j in range(n):
                if side == 1:
                    full[q, i, j] = A[q, keep[i], keep[j]]
                    continue
                y, x = divmod(j, width)
                if y // side < height // side and x // side < width // side:
                    full[q, i, j] = A[q, keep[i], (y // side) * (width // side) + x // side] / side**2
    return full


def one_layer(
    layers: dict[int, Layer], O: dict[int, Array], G: dict[int, Array], l: int, R: Array, o: dict[str, Any]
) -> tuple[Array, dict[str, Any]]:
    """Steps 3 to 6 at layer l."""
    A = square_attention(layers[l])
    h, n, _ = A.shape
    if o["renorm_rows"]:
        for q in range(h):
            for i in range(n):
                if A[q, i].sum() > 0:
                    A[q, i] /= A[q, i].sum()
    flow_gradient = G[l] if o["flow"] == "tokens" else patches(layers[l].d_in, layers[l])
    omega, flow, ginis = head_weights(A, flow_gradient, o)
    W = np.zeros((n, n))
    of_G, of_O = [norm(row) for row in G[l]], [norm(row) for row in O[l]]
    for i in range(n):
        for j in range(n):
            g = of_G[i] if o["weight"] == "query" else of_G[j]
            W[i, j] = sum(omega[q] * A[q, i, j] for q in range(h)) * g * of_O[j]
        row = W[i].sum()
        W[i] = W[i] / row if row > 0 else [float(i == j) for j in range(n)]
    beta = gate(layers, O, G, l, o)
    back = np.array([beta * sum(W[i, j] * R[i] for i in range(n)) + (1 - beta) * R[j] for j in range(n)])
    if o["conserve"]:
        back = back * sum(R) / (sum(back) + o["eps"])
    return back, {"weights": omega, "flow": flow, "gini": ginis, "gate": beta}


def head_weights(A: Array, G: Array, o: dict[str, Any]) -> tuple[list[float], list[float], list[float]]:
    h, n, _ = A.shape
    norms = [norm(G[j]) for j in range(n)]
    g = [sum(A[q, i, j] * norms[j] for i in range(n) for j in range(n)) for q in range(h)]
    g = [value if value >= o["gamma"] * max(g) else 0.0 for value in g]
    g = [value / sum(g) for value in g] if sum(g) > 0 else [1 / h] * h
    if o["gini"] == "head":
        ginis = [gini(list(A[q].ravel())) for q in range(h)]
    else:
        ginis = [sum(gini(list(A[q, i])) for i in range(n)) / n for q in range(h)]
    s = [value / (sum(ginis) + o["eps"]) for value in ginis]
    omega = [o["alpha"] * g[q] + (1 - o["alpha"]) * s[q] for q in range(h)]
    if o["select"] == "weight":
        omega = [omega[q] if g[q] > 0 else 0.0 for q in range(h)]
    elif o["select"] == "equal":
        omega = [1.0 if g[q] > 0 else 0.0 for q in range(h)]
    elif o["select"] == "one":
        omega = [1.0 if q == omega.index(max(omega)) else 0.0 for q in range(h)]
    total = sum(omega)
    omega = [value / total for value in omega] if total > 0 else [1 / h] * h
    if o["heads"] != "all":
        focus = ginis if o["focus"] == "gini" else [-entropy(list(A[q].ravel())) for q in range(h)]
        part = quarter(focus, o["heads"])
        omega = [omega[q] * part[q] for q in range(h)]
        omega = [value / sum(omega) for value in omega] if sum(omega) > 0 else [value / sum(part) for value in part]
    return omega, g, ginis


def quarter(focus: list[float], group: str) -> list[float]:
    """Heads on a line of length 1, the most focused first: how much of each lies between the two percentages."""
    low, high = (int(percent) / 100 for percent in group.split("-"))
    order = sorted(range(len(focus)), key=lambda q: -focus[q])
    places = {q: (at / len(focus), (at + 1) / len(focus)) for at, q in enumerate(order)}
    return [max(0.0, min(high, places[q][1]) - max(low, places[q][0])) for q in range(len(focus))]


def entropy(values: list[float]) -> float:
    """-sum p log p of the values divided by their sum."""
    shares = [value / sum(values) for value in values if value > 0]
    return -sum(share * math.log(share) for share in shares)


def gini(values: list[float]) -> float:
    """2 sum_u u a_u / (m sum_u a_u) - (m + 1) / m, values ascending."""
    m = len(values)
    if sum(values) == 0:
        return 0.0
    ranked = sum(u * a for u, a in enumerate(sorted(values), start=1))
    return 2 * ranked / (m * sum(values)) - (m + 1) / m


def gate(layers: dict[int, Layer], O: dict[int, Array], G: dict[int, Array], l: int, o: dict[str, Any]) -> float:
    """sum |G * main| / (sum |G * main| + sum |G * skip|)."""
    layer = layers[l]
    before = patches(layer.came_in, layer)
    if o["gate"] == "branch":
        main, skip, g = patches(layer.went_out, layer) - before, before, patches(layer.d_out, layer)
    elif o["gate"] == "attention":
        main, skip, g = patches(layer.added, layer), before, patches(layer.d_added, layer)
    elif o["tokens"] in ("input", "normed"):
        if l == 1 or layers[l - 1].stage != layer.stage:
            return 0.5
        main, skip, g = O[l], O[l - 1], G[l]
    else:
        main, skip, g = O[l], before, G[l]
    through, around = product_sum(g, main), product_sum(g, skip)
    return through / (through + around) if through + around > 0 else 0.5


def to_finer_grid(
    R: Array, coarse: tuple[int, int], fine: tuple[int, int], O: Array, G: Array, transition: str
) -> Array:
    """Each coarse value divided over the fine tokens of its stride-2 cell (the last cell may be cut by the border)."""
    spread = np.zeros(fine[0] * fine[1])
    for y in range(coarse[0]):
        for x in range(coarse[1]):
            cell = [
                v * fine[1] + u for v in (2 * y, 2 * y + 1) for u in (2 * x, 2 * x + 1) if v < fine[0] and u < fine[1]
            ]
            weights = [1.0 if transition == "uniform" else product_sum(G[[i]], O[[i]]) for i in cell]
            if sum(weights) == 0:
                weights = [1.0] * len(cell)
            for i, weight in zip(cell, weights, strict=True):
                spread[i] = R[y * coarse[1] + x] * weight / sum(weights)
    return spread


def product_sum(G: Array, T: Array) -> float:
    return float(sum(abs(g * t) for g, t in zip(G.ravel(), T.ravel(), strict=True)))


def norm(vector: Array) -> float:
    return math.sqrt(sum(float(v) ** 2 for v in vector))


def frobenius(matrix: Array) -> float:
    return norm(matrix.ravel())
