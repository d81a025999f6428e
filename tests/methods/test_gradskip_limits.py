"""GradSkip where the equations stop: 0/0 cases, unusable arrays, options that do not fit, needs."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradskip_onnx.errors import InputError, UnsupportedModelError
from gradskip_onnx.methods import choose_method
from gradskip_onnx.methods.gradskip.gradskip import GUARDS, gradskip
from gradskip_onnx.methods.gradskip.readings import GradSkipOptions, needs, propagated_blocks
from gradskip_onnx.types import Architecture, Needs, Relevance

from . import oracles
from .oracles import Layer
from .traces import MODELS, Model, Stage, architecture_of, layers_of, shown

TWIN = 1e-9  # float64 on both sides, on the same float32 arrays
ROUNDING = 1e-11  # sums of a few hundred float64 values around 1


def run(layers: list[Layer], **options: Any) -> Relevance:
    chosen = GradSkipOptions(**options)
    return gradskip(*shown(layers, partial(needs, chosen)), chosen)


# --- 0/0 cases: resolved, counted, said


def without_gradient(layer: Layer, tokens: slice = slice(None)) -> Layer:
    gone = layer.d_out.copy()
    gone[tokens] = 0
    return replace(layer, d_out=gone)


def blank(layer: Layer, name: str) -> Layer:
    return replace(layer, **{name: np.zeros_like(getattr(layer, name))})


def guarded_cases() -> dict[str, tuple[list[Layer], dict[str, Any], float]]:
    plain, staged = layers_of(MODELS["average pool"]), layers_of(MODELS["odd grids"])
    one_head_blind = plain[2].attention.copy()
    one_head_blind[1] = 0
    flat = np.full_like(plain[2].attention, 1 / 16)
    return {
        "zero_rows": ([*plain[:2], without_gradient(plain[2], slice(0, 3)), plain[3]], {}, 3),
        "uniform_flow": ([*plain[:2], without_gradient(plain[2]), plain[3]], {}, 1),
        "empty_heads": ([*plain[:2], replace(plain[2], attention=one_head_blind), plain[3]], {}, 1),
        "uniform_heads": ([*plain[:2], replace(plain[2], attention=flat), plain[3]], {"alpha": 0.0}, 1),
        "even_gates": ([*plain[:2], blank(blank(plain[2], "went_out"), "came_in"), plain[3]], {}, 1),
        "uniform_cells": ([staged[0], blank(staged[1], "went_out"), *staged[2:]], {"transition": "gradient"}, 12),
        "uniform_start": ([*plain[:3], blank(plain[3], "went_out")], {}, 1),
    }


@pytest.mark.parametrize("name", GUARDS)
def test_guarded_event(name):
    layers, options, count = guarded_cases()[name]
    result = run(layers, **options)
    assert result.checks[name] == count
    assert any(GUARDS[name] in note for note in result.notes)
    assert np.isfinite(result.scores).all()
    assert result.checks["sum"] == pytest.approx(1, abs=ROUNDING)
    if name not in ("uniform_start",):  # the equations say nothing there, so neither does the twin
        np.testing.assert_allclose(result.scores, oracles.gradskip(layers, **options)[0], atol=TWIN)


@pytest.mark.parametrize("model", MODELS)
def test_nothing_is_guarded_on_ordinary_passes(model):
    result = run(layers_of(MODELS[model]))
    assert {name: result.checks[name] for name in GUARDS} == dict.fromkeys(GUARDS, 0)


def test_start_is_the_last_block_with_a_gradient_at_its_patches():
    pooled = run(layers_of(MODELS["vit"]))
    assert pooled.checks["start_block"] == 3
    assert pooled.notes == ("started at block 3 of 4: no gradient at the patches of later blocks",)
    assert [block.index for block in pooled.blocks] == [2, 1]
    averaged = run(layers_of(MODELS["average pool"]))
    assert (averaged.checks["start_block"], averaged.notes) == (4, ())
    entered = run(layers_of(MODELS["vit"]), tokens="input")
    assert (entered.checks["start_block"], entered.notes) == (4, ())


def test_stage_without_gradient_has_no_start_of_its_own():
    layers = [without_gradient(layer) if layer.stage == 1 else layer for layer in layers_of(MODELS["segformer"])]
    result = run(layers, stages="each")
    assert "blocks 3 to 4 have no gradient at their patches: no start there" in result.notes
    np.testing.assert_allclose(result.scores, oracles.gradskip(layers, stages="each")[0], atol=TWIN)


@pytest.mark.parametrize("blanked", [{3}, {0, 1, 2, 3}])
def test_stage_starts_without_mass(blanked):
    """A stage whose tokens are all zero starts nothing; if all are, the stages start equal and uniform."""
    layers = layers_of(MODELS["segformer"])
    layers = [blank(layer, "went_out") if layer.stage in blanked else layer for layer in layers]
    result = run(layers, stages="each")
    assert result.checks["start_block"] == (8 if blanked == {0, 1, 2, 3} else 6)
    assert result.checks["uniform_start"] == (4 if blanked == {0, 1, 2, 3} else 0)
    assert result.checks["sum"] == pytest.approx(1, abs=ROUNDING)


def test_stages_that_grow_are_refused():
    layers = layers_of(Model((Stage((2, 2)), Stage((4, 4)))))
    with pytest.raises(UnsupportedModelError, match="must be coarser") as caught:
        run(layers)
    assert caught.value.code == "grid-mismatch"
    assert run(layers, stages="last").scores.shape == (4, 4)


@pytest.mark.parametrize("model", ["vit", "segformer"])
def test_no_gradient_at_all_is_an_error(model):
    layers = [without_gradient(layer) for layer in layers_of(MODELS[model])]
    with pytest.raises(UnsupportedModelError, match="no gradient at any patch") as caught:
        run(layers)
    assert caught.value.code == "zero-gradient"


def test_one_pooled_block_can_only_be_read_at_its_input():
    layers = layers_of(Model((Stage((2, 3), blocks=1, special=(0,)),), pooled=True))
    with pytest.raises(UnsupportedModelError, match="tokens=input"):
        run(layers)
    assert run(layers, tokens="input").scores.shape == (2, 3)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda layer: replace(layer, went_out=layer.went_out * np.nan), "not-finite"),
        (lambda layer: replace(layer, d_out=layer.d_out * np.inf), "not-finite"),
        (lambda layer: replace(layer, attention=layer.attention * np.nan), "not-finite"),
        (lambda layer: replace(layer, attention=np.where(layer.attention > 0, np.inf, 0)), "not-finite"),
        (lambda layer: replace(layer, attention=layer.attention - 0.01), "negative-attention"),
        (lambda layer: replace(layer, attention=layer.attention[:, :, 1:]), "grid-mismatch"),
        (lambda layer: replace(layer, went_out=layer.went_out[1:]), "grid-mismatch"),
    ],
)
def test_unusable_arrays_are_refused(change, code):
    layers = layers_of(MODELS["average pool"])
    layers[2] = change(layers[2])
    with pytest.raises(UnsupportedModelError, match="block 2") as caught:
        run(layers)
    assert caught.value.code == code


def test_minus_zero_is_no_negative_attention():
    layers = layers_of(MODELS["average pool"])
    layers[2] = replace(layers[2], attention=np.where(layers[2].attention > 0.1, layers[2].attention, 0.0))
    expected = run(layers).scores
    layers[2] = replace(layers[2], attention=np.where(layers[2].attention > 0, layers[2].attention, -0.0))
    np.testing.assert_array_equal(run(layers).scores, expected)


# --- options and needs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokens": "middle"}, "tokens: got 'middle', allowed: output, input, normed, branch"),
        ({"gate": 1}, "gate: got 1, allowed: output, branch, attention"),
        ({"alpha": 1.5}, "alpha: got 1.5, allowed: a number at least 0.0 and at most 1.0"),
        ({"alpha": float("nan")}, "alpha: got nan"),
        ({"gamma": "high"}, "gamma: got 'high'"),
        ({"eps": 0.0}, "eps: got 0.0"),
        ({"start": -1}, "start: got -1, allowed: a whole number at least 0"),
        ({"steps": 1.5}, "steps: got 1.5"),
        ({"renorm_rows": "yes"}, "renorm_rows: got 'yes', allowed: True, False"),
        ({"steps": True}, "steps: got True"),
    ],
)
def test_bad_option_is_named_with_what_is_allowed(options, message):
    with pytest.raises(InputError) as caught:
        choose_method("gradskip", **options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("vit", {"start": 5}, "start: got 5, allowed: 0, 1 to 4"),
        ("vit", {"start": 4}, "block 4 has no gradient"),
        ("vit", {"steps": 4}, "steps: got 4, allowed: -1 to 3"),
        ("segformer", {"stages": "last", "start": 6}, "allowed: 0, 7 to 8"),
        ("segformer", {"stages": "each", "steps": 1}, "leave start at 0 and steps at -1"),
    ],
)
def test_option_that_does_not_fit_the_model(model, options, message):
    with pytest.raises(InputError, match=message):
        run(layers_of(MODELS[model]), **options)


EVERY, WALKED = (0, 1, 2, 3), (1, 2)  # of four blocks, of the last of which the score reads no patch


def blocks(count: int, *, patches_read: bool) -> Architecture:
    layers = layers_of(Model((Stage((4, 4), blocks=count, heads=2),)))
    return replace(architecture_of(layers), patches_read=patches_read)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, Needs(attention=WALKED, tokens_in=WALKED, tokens_out=WALKED, tokens_out_gradients=WALKED)),
        ({"start": 2}, Needs(attention=EVERY, tokens_in=EVERY, tokens_out=EVERY, tokens_out_gradients=EVERY)),
        ({"tokens": "input"}, Needs(attention=EVERY, tokens_in=EVERY, tokens_in_gradients=EVERY)),
        ({"steps": 0}, Needs(tokens_out=EVERY, tokens_out_gradients=EVERY)),
        ({"tokens": "branch"}, Needs(attention=WALKED, tokens_in=WALKED, branch=WALKED, branch_gradients=WALKED)),
    ],
)
def test_needs_no_more_than_it_reads(options, expected):
    assert needs(GradSkipOptions(**options), blocks(4, patches_read=False)) == expected


@pytest.mark.parametrize(
    ("count", "patches_read", "expected"),
    [
        (4, True, (1, 2, 3)),
        (4, False, (1, 2)),
        (3, False, (1,)),
        (2, True, (0, 1)),  # which of the two has a gradient at its patches is known after the pass
        (2, False, (0,)),
        (1, True, (0,)),
        (1, False, (0,)),
    ],
)
def test_blocks_of_the_printed_walk(count, patches_read, expected):
    assert propagated_blocks(blocks(count, patches_read=patches_read)) == expected


def test_the_page_names_every_option_value_and_count():
    page = (Path(__file__).parent.parent.parent / "docs" / "gradskip.md").read_text(encoding="utf-8")
    for field in fields(GradSkipOptions):
        for word in (field.name, *field.metadata.get("choices", ())):
            assert f"`{word}`" in page, word
    for name in (*GUARDS, "start_block", "steps", "sum", "drift"):
        assert f"`{name}`" in page, name
