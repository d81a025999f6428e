"""The same model in other operators: norms in pieces, powers for roots, quotients as products, sums turned round.

A table: operator -> the same function, written otherwise. Rows take a node and a writer, as lowerings do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx_graphsurgeon as gs

from gradskip_onnx.api import Explainer
from gradskip_onnx.graph.rewrite.lower import lower
from gradskip_onnx.graph.rewrite.lowerings import Outputs, Row
from gradskip_onnx.graph.rewrite.write import Write, optional_input
from gradskip_onnx.instrument.build_plan import build_plan
from gradskip_onnx.types import Needs


def respelled(explainer: Explainer) -> Explainer:
    """The explainer of the same function in other operators; the new graph is read and proven from the start."""
    source, reading = explainer.model.source, explainer.model.reading
    graph = lower(reading.graph, reading.facts, source.opset["ai.onnx"], RESPELLINGS).graph
    written = build_plan(source, replace(reading, graph=graph), Needs(), simplify_forward=False)
    return replace(explainer, model=explainer.model.with_model(written.model))


def _is_float(w: Write, node: gs.Node) -> bool:
    return bool(np.dtype(w.dtype(node.inputs[0])).kind == "f")


def _as_it_is(w: Write, n: gs.Node) -> Outputs:
    return (w.op(n.op, *n.inputs, **n.attrs),)


def norm_in_pieces(w: Write, n: gs.Node) -> Outputs:
    """(x - mean) (var + eps)^(-1/2) gain + bias, over the last axis."""
    x, gain, bias = n.inputs[0], n.inputs[1], optional_input(n, 2)
    if n.attrs.get("axis", -1) not in (-1, w.rank(x) - 1):
        return _as_it_is(w, n)
    centred = w.op("Add", w.op("Neg", w.mean_last(x)), x)
    variance = w.mean_last(w.op("Pow", centred, 2.0))
    spread = w.op("Pow", w.op("Add", variance, float(n.attrs.get("epsilon", 1e-5))), -0.5)
    normed = w.op("Mul", gain, w.op("Mul", spread, centred))
    return (normed if bias is None else w.op("Add", bias, normed),)


def product_and_sum(w: Write, n: gs.Node) -> Outputs:
    """alpha A' B' + beta C by MatMul and Add."""
    a, b = (
        w.swap_last(x, 2) if n.attrs.get(flag) else x for x, flag in zip(n.inputs, ("transA", "transB"), strict=False)
    )
    product, added = w.op("MatMul", a, b), optional_input(n, 2)
    if n.attrs.get("alpha", 1.0) != 1.0:
        product = w.op("Mul", product, float(n.attrs["alpha"]))
    if added is not None and n.attrs.get("beta", 1.0) != 1.0:
        added = w.op("Mul", added, float(n.attrs["beta"]))
    return (w.add_if(product, added),)


def root_as_power(w: Write, n: gs.Node) -> Outputs:
    return (w.op("Pow", n.inputs[0], 0.5),)


def quotient_as_product(w: Write, n: gs.Node) -> Outputs:
    return (w.op("Mul", n.inputs[0], w.op("Reciprocal", n.inputs[1])),) if _is_float(w, n) else _as_it_is(w, n)


def difference_as_sum(w: Write, n: gs.Node) -> Outputs:
    return (w.op("Add", w.op("Neg", n.inputs[1]), n.inputs[0]),) if _is_float(w, n) else _as_it_is(w, n)


def other_way_round(w: Write, n: gs.Node) -> Outputs:
    return (w.op(n.op, *n.inputs[::-1]),)


RESPELLINGS: Mapping[tuple[str, str], Row] = {
    ("", "LayerNormalization"): norm_in_pieces,
    ("", "Gemm"): product_and_sum,
    ("", "Sqrt"): root_as_power,
    ("", "Div"): quotient_as_product,
    ("", "Sub"): difference_as_sum,
    ("", "Add"): other_way_round,
    ("", "Mul"): other_way_round,
}
