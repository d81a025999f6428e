"""Groups of nodes that are one function: differentiated as that function, so that nothing inside them is held.

ONNX Runtime runs a GELU that is written out, x (1 + erf(x / sqrt 2)) / 2, as one operator, but only while nobody else
reads what is inside; the rule of Gelu reads x alone, and it is shorter than the rules of the parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from gradskip_onnx.autodiff.rules.table import STANDARD_DOMAINS, VJPS, Rule
from gradskip_onnx.types import TensorFact

PARTS = ("Mul", "Add", "Div")
CLOSE = 1e-3  # of constants: half precision rounds them


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Nodes that compute `op` of `source`; `last` makes the result."""

    op: str
    source: Any
    nodes: tuple[Any, ...]

    @property
    def last(self) -> Any:
        return self.nodes[-1]


def groups(
    nodes: Iterable[Any], facts: Mapping[str, TensorFact], rules: Mapping[str, Rule], shown: Iterable[str]
) -> list[Group]:
    """The GELUs among the nodes, if these rules treat a GELU and its parts alike."""
    plain = all(rules.get(op) is VJPS[op] for op in PARTS)
    alike = "Gelu" in rules and (rules.get("Erf") is VJPS["Erf"]) == (rules["Gelu"] is VJPS["Gelu"])
    if not plain or not alike:
        return []
    keep = set(shown)
    found = [_gelu(node, facts) for node in nodes if node.op == "Erf" and node.domain in STANDARD_DOMAINS]
    return [group for group in found if group is not None and _closed(group, keep, facts)]


def _closed(group: Group, keep: set[str], facts: Mapping[str, TensorFact]) -> bool:
    """Whether nothing inside is read from outside."""
    inner = [node.outputs[0] for node in group.nodes[:-1]]
    readers = (reader for tensor in inner for reader in _readers(tensor, facts))
    return not keep & {tensor.name for tensor in inner} and all(reader in group.nodes for reader in readers)


def _gelu(erf: Any, facts: Mapping[str, TensorFact]) -> Group | None:
    """x (1 + erf(x / sqrt 2)) / 2 around an Erf, the three factors in any order."""
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


def _readers(tensor: Any, facts: Mapping[str, TensorFact]) -> list[Any]:
    """The forward nodes that read a tensor."""
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
    """The tensor that a node multiplies by `factor`."""
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
