"""The Gini coefficient in the graph: by sorting exact, by counting within its bound, padding left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_graphsurgeon as gs
import pytest

from gradskip_onnx.autodiff.emit import Emit
from gradskip_onnx.graph.read.assemble import assemble
from gradskip_onnx.ingraph import gini as module
from gradskip_onnx.ingraph.attention import Attending
from gradskip_onnx.methods.gradskip.gini import gini_of_heads, gini_of_rows
from gradskip_onnx.runtime.session import open_session
from gradskip_onnx.types import Array, Block, Grid, TensorFact

COUNT = 72
BLOCK = Block(0, 0, "in", "out", "A", "branch", "normed", heads=3, grid=Grid(8, 9))
FLOAT32 = 1e-6  # a few sums of positive float32 numbers


def in_graph(kind: str, A: Array, members: Array | None = None, opset: int = 18) -> Array:
    """The Gini of attention (heads, [windows,] queries, keys) as a runtime computes it, (heads,)."""
    fact = TensorFact((None, *A.shape), np.dtype(np.float32))
    graph = gs.Graph(inputs=[gs.Variable("A", np.float32, list(fact.dims))], opset=opset, ir_version=8)
    emit = Emit(graph, {"A": fact}, opset)
    attending = Attending(BLOCK, emit.sym("A"), COUNT, members)
    if members is not None:
        attending = replace(attending, attention=attending.masked(attending.attention))
    found = module.GINI[kind](attending)
    graph.outputs = [found.tensor]
    session = open_session(assemble(graph.cleanup().toposort()), None, "cpu")
    return np.asarray(session.run([found.name], {"A": A[None].astype(np.float32)})[found.name][0])


def softmax(seed: int, *shape: int, spread: float = 2.0) -> Array:
    powers = np.exp(spread * np.random.default_rng(seed).standard_normal(shape))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True), dtype=np.float32)


@pytest.mark.parametrize("spread", [0.1, 1.0, 2.0, 6.0])
def test_counting_is_close_on_attention(spread: float):
    A = softmax(0, 3, COUNT, COUNT, spread=spread)
    (expected,) = gini_of_heads([[A]])

    assert np.abs(in_graph("head", A) - expected).max() <= 1e-5


def test_counting_keeps_its_bound_where_it_is_worst():
    """All values within one bin, half at its lower and half at its upper end: all pairs lie inside a bin."""
    count = COUNT * COUNT
    width = module.width_of_bins(count)
    A = np.full((3, COUNT, COUNT), np.exp(-1000.98 * width))
    A[:, ::2] *= np.exp(0.96 * width)
    A[:, 0, 0] = 1  # the largest value, from which bins are counted; no share of the sum
    (expected,) = gini_of_heads([[A.astype(np.float32)]])
    lost = expected - in_graph("head", A)

    assert (lost > width / 8).all()
    assert (lost <= module.bound(count) + FLOAT32).all()


@pytest.mark.parametrize("least", [-1.0, -10.0, -60.0])
def test_counting_keeps_its_bound_whatever_the_values(least: float):
    """Values of all sizes, many at the edges of bins, the smallest far below the last bin."""
    width = module.width_of_bins(COUNT * COUNT)
    random = np.random.default_rng(5)
    logs = random.uniform(least, 0, (3, COUNT, COUNT))
    edges = np.round(logs / width) * width + random.choice([-1e-3, 1e-3], logs.shape) * width
    for each in (logs, edges, np.where(random.random(logs.shape) < 0.99, least, 0)):
        A = np.exp(each).astype(np.float32)
        (expected,) = gini_of_heads([[A]])
        assert np.abs(in_graph("head", A) - expected).max() <= module.bound(COUNT * COUNT) + FLOAT32


def test_the_bound_is_below_a_thousandth_up_to_a_hundred_million_values():
    assert module.bound(196**2) < 7.1e-4
    assert module.bound(4096**2) < 8.9e-4
    assert module.bound(10**8) < 1e-3


@pytest.mark.parametrize("limit", ["EXACT_IN_SINGLE", "TOGETHER"])
def test_large_heads_are_counted_in_other_numbers_and_one_by_one(limit: str, monkeypatch: pytest.MonkeyPatch):
    A = softmax(7, 3, COUNT, COUNT)
    expected = in_graph("head", A)
    monkeypatch.setattr(module, limit, 100)

    assert np.abs(in_graph("head", A) - expected).max() <= FLOAT32


def test_older_opsets_sort():
    A = softmax(1, 3, COUNT, COUNT)
    (expected,) = gini_of_heads([[A]])

    assert np.abs(in_graph("head", A, opset=15) - expected).max() <= FLOAT32


def test_rows():
    A = softmax(2, 3, COUNT, COUNT)
    (expected,) = gini_of_rows([[A]])

    assert np.abs(in_graph("row", A) - expected).max() <= FLOAT32


@pytest.mark.parametrize("kind", ["head", "row"])
@pytest.mark.parametrize("opset", [15, 18])
def test_padding_does_not_count(kind: str, opset: int, monkeypatch: pytest.MonkeyPatch):
    """Windows of 9 places, some without a token; the values that lie there are not of the head."""
    monkeypatch.setattr(module, "FEW", 0)  # so few values are otherwise sorted
    A, members = softmax(3, 3, 4, 9, 9), np.arange(36).reshape(4, 9)
    members[1, 6:] = members[3, 3:] = -1
    kept = [[place for place in range(9) if members[window, place] >= 0] for window in range(4)]
    parts = [A[:, window][:, kept[window]][:, :, kept[window]] for window in range(4)]
    (expected,) = (gini_of_heads if kind == "head" else gini_of_rows)([parts])

    assert np.abs(in_graph(kind, A, members, opset) - expected).max() <= 1e-5


def test_a_head_of_zeros_has_none():
    assert not in_graph("head", np.zeros((3, COUNT, COUNT))).any()
