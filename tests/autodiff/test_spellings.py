"""One function, one map: however a file writes a function, every rule set gives the same at the input."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest
from onnx import helper

from gradskip_onnx.autodiff import RULESETS
from gradskip_onnx.graph.rewrite.lower import lower
from gradskip_onnx.types import Array

from .gradient_models import SEED, differentiate, ir_version, run, seen
from .spelling_parts import MICROSOFT, TOKENS, WIDTH, Pen, Spelling
from .spellings import APART, SPELLINGS

# Relative to the largest value. Float32 keeps 6e-8; a sum of a few dozen terms and the quotients of relevance rules
# (denominators near 0) lose two to three digits. A gate that is not held is off by tenths.
CLOSE = 2e-5
BATCH = 3

RULES = {
    **{name: (name, {}) for name in RULESETS},
    "conservative, gamma": ("conservative", {"gamma_conv": 100.0}),
    "ah+ln, mean held": ("ah+ln", {"mean": 1.0}),
    "ah+ln, gates held": ("ah+ln", {"gates": 1.0}),
    "attnlrp, gamma": ("attnlrp", {"gamma_linear": 0.05, "gamma_conv": 0.25}),
}


def model_of(spelling: Spelling) -> onnx.ModelProto:
    """x -> layer e -> layer h -> the function -> head; fused operators are rewritten as they are in files."""
    w = Pen(np.random.default_rng(0))
    e = w.layer("x", "embedding")
    y = spelling.text(w, w.layer(e, "before"), e)
    w.layer(y, "head")
    w.nodes[-1].output[0] = "y"
    ports = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", TOKENS, WIDTH]) for name in ("x", "y")
    ]
    graph = helper.make_graph(w.nodes, "spelling", ports[:1], ports[1:], w.tensors)
    opsets = [helper.make_opsetid("", spelling.opset), helper.make_opsetid(MICROSOFT, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version(spelling.opset))
    x, _ = inputs()
    plain = lower(gs.import_onnx(model), seen(model, "x", x, x[:2]), spelling.opset).graph
    made: onnx.ModelProto = gs.export_onnx(plain, do_type_check=False)
    made.ir_version = model.ir_version
    del made.graph.value_info[:]
    return made


def inputs() -> tuple[Array, Array]:
    rng = np.random.default_rng(1)
    x, seed = rng.standard_normal((2, BATCH, TOKENS, WIDTH)).astype(np.float32)
    return 1.5 * x, seed


@cache
def results(spelling: Spelling, rules: str) -> tuple[Array, Array]:
    """The output, and the gradient or relevance at the input."""
    model = model_of(spelling)
    x, seed = inputs()
    name, settings = RULES[rules]
    derived, names = differentiate(model, seen(model, "x", x, x[:2]), ["y"], ["x"], RULESETS[name](**settings))
    found = run(derived, [names["x"]], {"x": x, f"{SEED}/y": seed})[names["x"]]
    return run(model, ["y"], {"x": x})["y"], found


def furthest(one: Spelling, other: Spelling, rules: str) -> float:
    """The largest difference at the input, relative to the largest value there."""
    (y, expected), (same_y, found) = results(one, rules), results(other, rules)
    np.testing.assert_allclose(same_y, y, rtol=0, atol=CLOSE * np.abs(y).max(), err_msg="these are two functions")
    return float(np.abs(found - expected).max() / np.abs(expected).max())


CASES = [
    pytest.param(first, spelling, rules, id=f"{function}: {name}, {rules}")
    for function, (first, *others) in ((function, forms.values()) for function, forms in SPELLINGS.items())
    for name, spelling in zip(list(SPELLINGS[function])[1:], others, strict=True)
    for rules in RULES
]


@pytest.mark.parametrize(("first", "spelling", "rules"), CASES)
def test_one_function_has_one_map(first: Spelling, spelling: Spelling, rules: str) -> None:
    assert furthest(first, spelling, rules) < CLOSE


@pytest.mark.parametrize(("pair", "differ"), APART.values(), ids=APART)
def test_what_is_not_told_apart_is_listed(pair: tuple[Spelling, Spelling], differ: tuple[str, ...]) -> None:
    """docs/methods.md names these; a rule set that does better must be taken off the list."""
    assert tuple(name for name in RULESETS if furthest(*pair, name) > CLOSE) == differ
