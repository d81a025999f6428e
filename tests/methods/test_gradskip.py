"""GradSkip against its slow twin over models and options, and the properties the equations promise."""

from __future__ import annotations

import tracemalloc
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import gradskip_onnx
from gradskip_onnx.demo import demo_model
from gradskip_onnx.errors import InputError, UnsupportedModelError
from gradskip_onnx.methods import METHODS
from gradskip_onnx.methods.gradskip.gini import gini_of_heads
from gradskip_onnx.methods.gradskip.gradskip import gradskip
from gradskip_onnx.methods.gradskip.readings import GradSkipOptions, needs
from gradskip_onnx.types import Array, Relevance

from . import oracles
from .oracles import Layer
from .traces import MODELS, Model, Stage, layers_of, only, shown

TWIN = (
    1e-9  # both sides work in float64 on the same float32 arrays; eps = 1e-12 is the largest thing they may place apart
)
ROUNDING = 1e-11  # sums of a few hundred float64 values around 1, and the eps of the paper

OPTIONS: dict[str, dict[str, Any]] = {
    "printed": {},
    "alpha 0": {"alpha": 0.0},
    "alpha 1": {"alpha": 1.0},
    "gamma 0": {"gamma": 0.0},
    "gamma 1": {"gamma": 1.0},
    "eps": {"eps": 1e-4},
    "input": {"tokens": "input"},
    "branch": {"tokens": "branch"},
    "normed": {"tokens": "normed"},
    "normed through the first block": {"start": 2, "steps": 2, "tokens": "normed"},
    "weak heads out": {"gamma": 0.9, "select": "weight"},
    "strong heads equal": {"gamma": 0.9, "select": "equal"},
    "one head": {"select": "one"},
    "special tokens kept": {"special": "keep"},
    "special tokens kept, inputs, rows": {"special": "keep", "tokens": "input", "renorm_rows": True},
    "gate branch": {"gate": "branch"},
    "gate attention": {"gate": "attention"},
    "input, gate branch": {"tokens": "input", "gate": "branch"},
    "branch, gate attention": {"tokens": "branch", "gate": "attention"},
    "start": {"start": 2},
    "no step": {"steps": 0},
    "one step": {"steps": 1},
    "through the first block": {"start": 2, "steps": 2},
    "input through the first block": {"start": 2, "steps": 2, "tokens": "input"},
    "flow": {"flow": "input"},
    "gini": {"gini": "row"},
    "most focused heads": {"heads": "0-25"},
    "heads 25-50": {"heads": "25-50"},
    "heads 50-75": {"heads": "50-75"},
    "least focused heads, row": {"heads": "75-100", "gini": "row"},
    "heads by entropy": {"heads": "25-50", "focus": "entropy"},
    "weight": {"weight": "key"},
    "renorm": {"renorm_rows": True},
    "last stage": {"stages": "last"},
    "all of the last stage": {"stages": "last", "steps": 2},
    "each stage": {"stages": "each"},
    "transition": {"transition": "gradient"},
    "each, input, transition": {"stages": "each", "tokens": "input", "transition": "gradient"},
}
# The twin's entropy is a loop over every entry of every attention.
SLOW = {"heads by entropy"}
ROWS = [
    pytest.param(options, id=name, marks=[pytest.mark.slow] if name in SLOW else [])
    for name, options in OPTIONS.items()
]


def run(layers: list[Layer], **options: Any) -> Relevance:
    chosen = GradSkipOptions(**options)
    return gradskip(*shown(layers, partial(needs, chosen)), chosen)


@pytest.mark.parametrize("options", ROWS)
@pytest.mark.parametrize("model", MODELS)
def test_agrees_with_the_slow_twin(model, options):
    layers = layers_of(MODELS[model])
    expected, facts = oracles.gradskip(layers, **options)
    result = run(layers, **options)
    np.testing.assert_allclose(result.scores, expected, atol=TWIN, rtol=0)
    assert result.scores.min() >= 0
    assert abs(result.scores.sum() - 1) < ROUNDING + len(layers) * options.get("eps", 0)
    assert len(result.blocks) == len(facts)
    for block, fact in zip(result.blocks, facts, strict=True):
        np.testing.assert_allclose(block.head_weights, fact["weights"], atol=TWIN)
        np.testing.assert_allclose(block.flow, fact["flow"], atol=TWIN)
        np.testing.assert_allclose(block.gate, fact["gate"], atol=TWIN)
        if model != "left over":  # the square matrix has columns of zeros there, the keys as shown have not
            np.testing.assert_allclose(block.gini, fact["gini"], atol=TWIN)


def test_every_option_value_meets_the_twin():
    for field in fields(GradSkipOptions):
        if field.name == "gradient":  # decides which gradient is asked for; the equations are the same
            continue
        met = {options[field.name] for options in OPTIONS.values() if field.name in options} | {field.default}
        wanted = field.metadata.get("choices", (True, False) if isinstance(field.default, bool) else ())
        assert met >= set(wanted), field.name
        assert len(met) > 1, field.name
        assert field.metadata["help"], field.name


def test_is_a_row_of_the_table():
    row = METHODS["gradskip"]
    assert row.options() == GradSkipOptions()
    assert (row.needs, row.rules(row.options()).name, row.seed(row.options())) == (needs, "gradient", None)


# --- what the equations promise


@pytest.mark.parametrize("model", MODELS)
def test_gradient_scale_does_not_matter(model):
    layers = layers_of(MODELS[model])
    factors = np.geomspace(1e-3, 1e4, len(layers))
    scaled = [
        replace(layer, d_out=layer.d_out.astype(np.float64) * factor)
        for layer, factor in zip(layers, factors, strict=True)
    ]
    np.testing.assert_allclose(run(scaled).scores, run(layers).scores, atol=ROUNDING)


@pytest.mark.parametrize("switch", ["rescale", "conserve"])
@pytest.mark.parametrize("model", MODELS)
def test_no_ops_of_the_paper(model, switch):
    """The twin without a step gives the same map, so there is no option to leave it out."""
    layers = layers_of(MODELS[model])
    without, _ = oracles.gradskip(layers, **{switch: False})
    result = run(layers)
    np.testing.assert_allclose(result.scores, without, atol=TWIN, rtol=0)
    assert result.checks["drift"] < ROUNDING


@pytest.mark.parametrize("model", ["vit", "distilled", "registers", "average pool", "left over"])
def test_gradient_of_the_query_cancels(model):
    """One step with W built without |G_i|: the rows are normalised, so it cannot matter."""
    layers = layers_of(MODELS[model])
    result = run(layers, steps=1)
    layer, fact = layers[int(result.checks["start_block"]) - 1], result.blocks[0]
    A, T = oracles.square_attention(layer), oracles.patches(layer.went_out, layer)
    start = np.abs(T * oracles.patches(layer.d_out, layer)).sum(axis=1)
    start /= start.sum()
    W = np.tensordot(fact.head_weights, A, 1) * np.linalg.norm(T, axis=1)
    carried = start @ (W / W.sum(axis=1, keepdims=True))
    expected = fact.gate * carried + (1 - fact.gate) * start
    np.testing.assert_allclose(result.scores.ravel(), expected, atol=ROUNDING)


def test_identity_attention_returns_the_start():
    layers = layers_of(MODELS["average pool"])
    same = [replace(layer, attention=np.stack([np.eye(16, dtype=np.float32)] * 3)) for layer in layers]
    np.testing.assert_allclose(run(same).scores, run(same, steps=0).scores, atol=ROUNDING)
    assert not np.allclose(run(layers).scores, run(layers, steps=0).scores, atol=1e-3)


def test_order_of_heads_does_not_matter():
    layers = layers_of(MODELS["vit"])
    turned = [replace(layer, attention=layer.attention[[2, 0, 1]]) for layer in layers]
    result, expected = run(turned), run(layers)
    np.testing.assert_allclose(result.scores, expected.scores, atol=ROUNDING)
    first, second = result.blocks[0].head_weights, expected.blocks[0].head_weights
    np.testing.assert_allclose(first, [second[i] for i in (2, 0, 1)], atol=ROUNDING)
    assert np.ptp(second) > 1e-3


def test_rollout_is_the_limit_of_equal_heads_and_even_gates():
    rng, n = np.random.default_rng(0), 16
    layers = []
    for layer in layers_of(MODELS["average pool"]):
        heads = np.stack([layer.attention[0]] * 3)
        layers.append(replace(layer, attention=heads, went_out=layer.came_in * rng.choice([-1, 1], (n, 1))))
    last = layers[-1]
    rollout = np.abs(last.d_out * last.went_out).sum(axis=1, dtype=np.float64)
    rollout /= rollout.sum()
    for layer in layers[:0:-1]:
        weighted = layer.attention[0].astype(np.float64) * np.linalg.norm(layer.came_in.astype(np.float64), axis=1)
        rollout = rollout @ (0.5 * weighted / weighted.sum(axis=1, keepdims=True) + 0.5 * np.eye(n))
    result = run(layers)
    np.testing.assert_allclose([block.gate for block in result.blocks], 0.5, atol=ROUNDING)
    np.testing.assert_allclose(result.scores.ravel(), rollout, atol=ROUNDING)


def test_identity_block_is_all_skip_only_for_the_branch_gate():
    layers = [replace(layer, went_out=layer.came_in) for layer in layers_of(MODELS["average pool"])]
    assert run(layers).blocks[0].gate == pytest.approx(0.5)
    assert run(layers, gate="branch").blocks[0].gate == 0


def test_single_stage_makes_the_stage_options_equal():
    """Of one pass that shows every block: the scale of gradients is a mean over the blocks shown."""
    trace, architecture = shown(layers_of(MODELS["vit"]))
    whole = gradskip(trace, architecture, GradSkipOptions())
    for stages in ("last", "each"):
        found = gradskip(trace, architecture, GradSkipOptions(stages=stages))
        np.testing.assert_array_equal(found.scores, whole.scores)


def test_nothing_is_kept_or_changed_between_runs():
    layers = layers_of(MODELS["segformer"])
    first, _, second = run(layers), run(layers, stages="each", tokens="input"), run(layers)
    np.testing.assert_array_equal(first.scores, second.scores)
    assert first.checks == second.checks
    assert not first.scores.flags.writeable


def test_gini_is_the_mean_difference():
    heads = np.random.default_rng(0).random((3, 7, 5)).astype(np.float32)
    for head, value in zip(heads.reshape(3, -1).astype(np.float64), gini_of_heads([[heads]])[0], strict=True):
        pairs = np.abs(head[:, None] - head).sum()
        assert value == pytest.approx(pairs / (2 * head.size * head.sum()), abs=TWIN)
    copies = np.repeat(np.repeat(heads, 3, axis=1), 4, axis=2)
    np.testing.assert_allclose(gini_of_heads([[copies]])[0], gini_of_heads([[heads]])[0], atol=TWIN)
    assert (gini_of_heads([[np.full((2, 50, 50), 1 / 49, dtype=np.float32)]])[0] == 0).all()


# --- size


def test_reduced_attention_is_never_made_square():
    layers = layers_of(Model((Stage((128, 128), heads=1, side=8, channels=8),)))
    trace, architecture = shown(layers, partial(needs, GradSkipOptions()))
    tracemalloc.start()
    try:
        result = gradskip(trace, architecture, GradSkipOptions())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    square = 16384**2 * 4
    assert peak < square / 10
    assert result.scores.shape == (128, 128)
    assert result.checks["sum"] == pytest.approx(1, abs=ROUNDING)


def test_a_walk_with_special_tokens_starts_at_them():
    """The printed start needs no exception then: only the class token of the last block has a gradient."""
    result = run(layers_of(MODELS["vit"]), special="keep")

    assert result.checks["start_block"] == 4
    assert 0 < result.checks["special"] < 1
    assert run(layers_of(MODELS["vit"])).checks["start_block"] == 3
    with pytest.raises(InputError, match="all relevance lies on special tokens"):
        run(layers_of(MODELS["vit"]), special="keep", steps=0)


def test_where_special_tokens_cannot_be_kept():
    late = layers_of(MODELS["vit"])
    for changed, message in (({"special": (1,)}, "different special tokens"), ({"side": 2}, "fewer keys")):
        with pytest.raises(UnsupportedModelError, match=message):
            run([late[0], *(replace(layer, **changed) for layer in late[1:])], special="keep")


def test_the_score_is_an_option_too():
    """By default the caller says what is differentiated; one run of evaluate can compare both."""
    explainer = gradskip_onnx.load(demo_model(), threads=1)
    image = np.random.default_rng(0).normal(size=(3, 96, 96)).astype(np.float32)

    def scores(**options: Any) -> Array:
        found: Array = explainer.explain(image, method="gradskip", **options).map
        return found

    np.testing.assert_array_equal(scores(gradient="probability"), scores(score="probability"))
    np.testing.assert_array_equal(scores(gradient="logit", score="probability"), scores())
    assert not np.allclose(scores(gradient="probability"), scores(), atol=1e-6)


def test_special_tokens_never_matter():
    layers = layers_of(MODELS["registers"])
    rows = list(layers[0].special)
    changed = [replace(layer, went_out=layer.went_out + only(np.ones_like(layer.went_out), rows)) for layer in layers]
    np.testing.assert_array_equal(run(changed).scores, run(layers).scores)
