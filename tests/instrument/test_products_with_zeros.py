"""Backward passes multiply no zeros that are known beforehand: by a count by hand, and by a look at every operand.

The patch embedding is left out of the count: how many products its rule takes is no matter of zeros.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import gradskip_onnx
from gradskip_onnx.api import Explainer
from gradskip_onnx.autodiff.scores.log_odds import LogOdds
from gradskip_onnx.demo import demo_model
from gradskip_onnx.graph.layouts import fed_dims
from gradskip_onnx.instrument.build_plan import build_plan
from gradskip_onnx.methods.choice import choose_method
from gradskip_onnx.metrics.flop_rules import PRODUCTS
from gradskip_onnx.metrics.flops import of_plan
from gradskip_onnx.runtime.session import open_session
from gradskip_onnx.types import Array, Instrumented
from tests.support.optimised_files import optimised

SEGFORMER = Path(__file__).parent.parent / "fixtures" / "segformer.onnx"
DISTILLED = Path(__file__).parent.parent / "fixtures" / "deit_distilled.onnx"
HELD = ("gradskip+", "ah+ln", "attnlrp", "pe-lrp")  # methods that hold attention constant


def plan_of(explainer: Explainer, method: str) -> Instrumented:
    """The plan of a method for a score that reads all logits: at a single one, most of the first gradient is zero."""
    request = choose_method(method).request(explainer.architecture, "logit")
    model = explainer.model
    return build_plan(model.source, model.reading, request.needs, score=LogOdds(0.5), rules=request.rules)


def back_products(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """The products of the backward pass that depend on an input of the model."""
    dependent = {tensor.name for tensor in model.graph.input}
    found = []
    for node in model.graph.node:
        if any(name in dependent for name in node.input):
            dependent.update(node.output)
            found += [node] if node.op_type in PRODUCTS and node.name.startswith("gradskip/") else []
    return found


def operands(explainer: Explainer, plan: Instrumented) -> dict[str, Array]:
    """What the products of the backward pass multiply for a random image, weights apart."""
    made = {name for node in plan.model.graph.node for name in node.output}
    names = sorted({name for node in back_products(plan.model) for name in node.input if name in made})
    probe = onnx.ModelProto()
    probe.CopyFrom(plan.model)
    del probe.graph.output[:]
    probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    architecture = explainer.architecture
    dims = fed_dims(architecture.input_dims, architecture.input_layout)
    image = np.random.default_rng(0).normal(size=(1, *dims)).astype(np.float32)
    return dict(open_session(probe, plan.folder, "cpu", optimise=False).run(names, {architecture.input: image}))


def zero_slices(array: Array) -> int:
    """The number of positions along any axis at which all entries are zero."""
    axes = range(array.ndim)
    return sum(int((~array.any(axis=tuple(a for a in axes if a != axis))).sum()) for axis in axes)


@pytest.mark.parametrize("method", HELD)
@pytest.mark.parametrize("path", [demo_model(), DISTILLED], ids=["demo", "distilled"])
def test_no_operand_has_a_slice_of_zeros(path: Path, method: str):
    explainer = gradskip_onnx.load(path, cache=False)

    found = operands(explainer, plan_of(explainer, method))

    assert len(found) > 10
    assert {name: array.shape for name, array in found.items() if zero_slices(array)} == {}


def test_one_class_of_a_segmentation_is_no_product_with_the_others():
    """The gradient at the logits is that of one class: the product with its weights is one for all pixels."""
    explainer = gradskip_onnx.load(SEGFORMER, cache=False)
    classes = explainer.architecture.classes
    request = choose_method("gradskip+").request(explainer.architecture, "logit")
    model = explainer.model
    plan = build_plan(model.source, model.reading, request.needs, score=request.score, rules=request.rules)

    found = operands(explainer, plan)
    by_class = [array.shape for array in found.values() if array.ndim == 4 and array.shape[1] == classes]

    assert by_class == [(1, classes, 1, 1)]


def test_matrix_products_of_the_demo_by_hand(tmp_path: Path):
    """Forward, and back to the patches with attention held: the same for the file as ONNX Runtime fuses it.

    145 tokens of 96 channels, 6 blocks, an MLP of 1.5 times the width, 8 classes. In the last block only the class
    token is read, from its query on. Back, queries and keys get no gradient: of the packed weight (d, 3 d) a third is
    multiplied, and attention once, for the values.
    """
    n, d, mlp, classes = 145, 96, 144, 8
    block = n * (3 * d * d + d * d + 2 * d * mlp) + 2 * n * n * d
    last = n * 3 * d * d + 2 * n * d + d * d + 2 * d * mlp
    block_back = n * (2 * d * mlp + d * d + d * d) + n * n * d
    last_back = 2 * d * mlp + d * d + n * d + n * d * d
    forward, back = 5 * block + last + d * classes, 5 * block_back + last_back + d * classes
    fused = tmp_path / "fused.onnx"
    onnx.save(optimised(onnx.load(demo_model()), "EXTENDED", tmp_path), fused)

    for path in (demo_model(), fused):
        explainer = gradskip_onnx.load(path, cache=False)
        found = of_plan(plan_of(explainer, "gradskip+"), explainer.architecture)

        assert found.by_op["MatMul"] + found.by_op["Gemm"] == 2 * (forward + back)
