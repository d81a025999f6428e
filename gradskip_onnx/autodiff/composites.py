"""Finds groups of nodes that compute one function; the engine differentiates each by the rule of that function.

Softmax written out as exp(x) / sum(exp(x)) must get the Softmax rule of a rule set. GELU written out as
x (1 + erf(x / sqrt 2)) / 2 is fused by ONNX Runtime only if no other node reads its inner tensors; the Gelu rule reads
x alone, and it is shorter than the rules of the parts. Other functions need no entry here: rule sets find gates and
spreads however they are written (`rulesets/gates.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from gradskip_onnx.autodiff.rules.table import STANDARD_DOMAINS, Rule
from gradskip_onnx.types import TensorFact

CLOSE = 1e-3  # relative tolerance of constants, which half precision rounds


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Nodes that together compute `op` of the tensor `source`; `last` outputs the result."""

    op: str
    source: Any
    nodes: tuple[Any, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def last(self) -> Any:
        return self.nodes[-1]


def groups(
    nodes: Iterable[Any], facts: Mapping[str, TensorFact], rules: Mapping[str, Rule], shown: Iterable[str]
) -> list[Group]:
    """The groups among the nodes that have a rule; their inner tensors are not in `shown` and not read from outside."""
    keep = set(shown)
    anchors = [node for node in nodes if node.op in FORMS and node.domain in STANDARD_DOMAINS]
    found = [FORMS[node.op](node, facts) for node in anchors]
    return [group for group in found if group is not None and group.op in rules and _closed(group, keep, facts)]


def _closed(group: Group, keep: set[str], facts: Mapping[str, TensorFact]) -> bool:
    """Whether no inner tensor is in `keep` or read by a node outside the group."""
    inner = [node.outputs[0] for node in group.nodes[:-1]]
    readers = (reader for tensor in inner for reader in _readers(tensor, facts))
    return not keep & {tensor.name for tensor in inner} and all(reader in group.nodes for reader in readers)


def _gelu(erf: Any, facts: Mapping[str, TensorFact]) -> Group | None:
    """GELU x (1 + erf(x / sqrt 2)) / 2 around an Erf node, its three factors in any order."""
    scaled = _maker(erf.inputs[0])
    x = None if scaled is None else _scaled(scaled, math.sqrt(0.5))
    shifted = _only_reader(erf.outputs[0], facts)
    if x is None or shifted is None or shifted.op != "Add" or not _is_other(shifted, erf.outputs[0], 1.0):
        return None
    product = _only_reader(shifted.outputs[0], facts)
    if product is None or product.op != "Mul":
        return None
    other = _other(product, shifted.outputs[0])
    halved = _maker(other)
    if halved is not None and _scaled(halved, 0.5) is x:  # (x / 2) (1 + erf)
        return Group("Gelu", x, (scaled, erf, shifted, halved, product))
    last = _only_reader(product.outputs[0], facts)
    if last is None:
        return None
    if other is x and _scaled(last, 0.5) is product.outputs[0]:  # (x (1 + erf)) / 2
        return Group("Gelu", x, (scaled, erf, shifted, product, last))
    if _is(other, 0.5) and last.op == "Mul" and _other(last, product.outputs[0]) is x:  # x ((1 + erf) / 2)
        return Group("Gelu", x, (scaled, erf, shifted, product, last))
    return None


def _quotient(node: Any, _: Mapping[str, TensorFact]) -> Group | None:
    """Softmax as exp(z) / sum(exp(z)), or as exp(z) times the reciprocal of the sum."""
    whole, part = node.inputs[:2]
    inverse = None
    if node.op == "Mul":
        whole, part = (whole, part) if _made_by(part, "Reciprocal") else (part, whole)
        inverse = _made_by(part, "Reciprocal")
        if inverse is None:
            return None
        part = inverse.inputs[0]
    total, exp = _made_by(part, "ReduceSum"), _made_by(whole, "Exp")
    axis = _axis(total)
    if total is None or exp is None or axis is None or total.inputs[0] is not whole:
        return None
    inner = [exp, total, *([] if inverse is None else [inverse])]
    source, shift = _unshifted(exp.inputs[0], "ReduceMax", axis)
    return Group("Softmax", source, (*shift, *inner, node), {"axis": axis})


def _exponential(node: Any, _: Mapping[str, TensorFact]) -> Group | None:
    """Softmax as exp(LogSoftmax(x)) or as exp(x - log sum(exp(x)))."""
    inner = _made_by(node.inputs[0], "LogSoftmax")
    if inner is not None:
        return Group("Softmax", inner.inputs[0], (inner, node), {"axis": inner.attrs.get("axis", -1)})
    difference = _made_by(node.inputs[0], "Sub")
    axis = None if difference is None else _axis(_made_by(difference.inputs[1], "ReduceLogSumExp"))
    if axis is None:
        return None
    source, shift = _unshifted(node.inputs[0], "ReduceLogSumExp", axis)
    return Group("Softmax", source, (*shift, node), {"axis": axis}) if shift else None


def _unshifted(tensor: Any, op: str, axis: int) -> tuple[Any, tuple[Any, ...]]:
    """x and the two nodes of a tensor x - op(x), op along `axis`; the tensor and no nodes if it has another form."""
    difference = _made_by(tensor, "Sub")
    if difference is None:
        return tensor, ()
    source, measure = difference.inputs[0], _made_by(difference.inputs[1], op)
    same = measure is not None and measure.inputs[0] is source and _axis(measure) == axis
    return (source, (measure, difference)) if same else (tensor, ())


def _axis(reduction: Any | None) -> int | None:
    """The axis of a reduction over a single axis with keepdims; else None."""
    if reduction is None:
        return None
    axes = reduction.attrs.get("axes")
    if axes is None and len(reduction.inputs) > 1 and isinstance(reduction.inputs[1], gs.Constant):
        axes = np.ravel(reduction.inputs[1].values).tolist()
    return int(axes[0]) if axes and len(axes) == 1 and reduction.attrs.get("keepdims", 1) else None


Form = Callable[[Any, Mapping[str, TensorFact]], Group | None]
FORMS: Mapping[str, Form] = {"Erf": _gelu, "Div": _quotient, "Mul": _quotient, "Exp": _exponential}


def _made_by(tensor: Any, op: str) -> Any | None:
    maker = _maker(tensor)
    return maker if maker is not None and maker.op == op else None


def _readers(tensor: Any, facts: Mapping[str, TensorFact]) -> list[Any]:
    """The forward nodes that read a tensor; nodes of a backward pass have no entry in `facts`."""
    return [node for node in tensor.outputs if any(output.name in facts for output in node.outputs)]


def _only_reader(tensor: Any, facts: Mapping[str, TensorFact]) -> Any | None:
    readers = _readers(tensor, facts)
    return readers[0] if len(readers) == 1 else None


def _maker(tensor: Any) -> Any | None:
    return tensor.inputs[0] if tensor.inputs else None


def _other(node: Any, tensor: Any) -> Any:
    first, second = node.inputs[:2]
    return second if first is tensor else first


def _scaled(node: Any, factor: float) -> Any | None:
    """The tensor that a node multiplies by `factor`; None if it does something else."""
    if node.op == "Div" and _is(node.inputs[1], 1 / factor):
        return node.inputs[0]
    if node.op == "Mul":
        for tensor, constant in (node.inputs, reversed(node.inputs)):
            if _is(constant, factor):
                return tensor
    return None


def _is_other(node: Any, tensor: Any, value: float) -> bool:
    return _is(_other(node, tensor), value)


def _is(tensor: Any, value: float) -> bool:
    if not isinstance(tensor, gs.Constant) or int(np.prod(tensor.shape)) != 1:
        return False
    return abs(float(np.asarray(tensor.values).reshape(-1)[0]) / value - 1) < CLOSE
