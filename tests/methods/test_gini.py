"""The Gini of heads against its definition in extended precision."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gradskip_onnx.methods.gradskip import gini as module
from gradskip_onnx.methods.gradskip.gini import gini_of_heads, gini_of_rows
from gradskip_onnx.types import Array

EXACT = 1e-13  # rounding of float64 sums of some ten thousand terms, none negative


def spread(sigma: float) -> Callable[[np.random.Generator], Array]:
    """Softmax rows of normal scores: nearly even for a small sigma, one-hot for a large one."""

    def made(rng: np.random.Generator) -> Array:
        scores = sigma * rng.standard_normal((150, 150))
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    return made


def outlier(rng: np.random.Generator) -> Array:
    values = 0.005 * (1 + 1e-6 * rng.standard_normal((150, 150)))
    values[0, 0] = 1e-12
    return values


CASES: dict[str, Callable[[np.random.Generator], Array]] = {
    **{f"sigma {sigma}": spread(sigma) for sigma in (1e-6, 1e-4, 1e-2, 0.3, 1, 2, 4, 8, 30)},
    "many zeros": lambda rng: spread(1)(rng) * (rng.random((150, 150)) < 0.3),
    "one-hot": lambda _: np.eye(150),
    "few values": lambda rng: rng.integers(1, 4, (150, 150)) / 450,
    "one outlier": outlier,
    "below the normal numbers": lambda rng: rng.random((150, 150)) * 1e-39,
    "huge": lambda rng: rng.random((150, 150)) ** 40 * 1e30,
    "negative zero": lambda rng: np.where(rng.random((150, 150)) < 0.5, -0.0, spread(1)(rng)),
}


def by_definition(values: Array) -> float:
    ordered = np.sort(values.astype(np.longdouble).ravel())
    m = len(ordered)
    return float(2 * (np.arange(1, m + 1) * ordered).sum() / (m * ordered.sum()) - np.longdouble(m + 1) / m)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_heads_have_the_gini_of_the_definition(case):
    head = case(np.random.default_rng(0)).astype(np.float32)
    assert gini_of_heads([[head[None]]])[0][0] == pytest.approx(by_definition(head), rel=EXACT, abs=EXACT)


@pytest.mark.parametrize("count", [1, 2, 3, 8, 9])
def test_few_values(count):
    """Odd and even numbers of values, down to one."""
    head = np.random.default_rng(count).random((1, 1, count), dtype=np.float32)
    assert gini_of_heads([[head]])[0][0] == pytest.approx(by_definition(head), abs=EXACT)
    assert gini_of_rows([[head]])[0][0] == pytest.approx(by_definition(head), abs=EXACT)


def test_parts_and_windows(monkeypatch):
    head = spread(1)(np.random.default_rng(1)).astype(np.float32)
    monkeypatch.setattr(module, "CHUNK", 1000)
    windows = [head[None, :70], head[None, 70:]]
    assert gini_of_heads([windows])[0][0] == pytest.approx(by_definition(head), abs=EXACT)
    rows = [by_definition(row) for row in head]
    assert gini_of_rows([windows])[0][0] == pytest.approx(np.mean(rows), abs=EXACT)


def test_equal_and_empty_heads():
    heads = np.stack([np.full((150, 150), 1 / 149, np.float32), np.zeros((150, 150), np.float32)])
    assert (gini_of_heads([[heads]])[0] == 0).all()
