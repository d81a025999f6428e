"""Finds the tensor an attention reads: the residual stream after the norm in front of it."""

from __future__ import annotations

from collections.abc import Mapping

from gradskip_onnx.graph.index import Index
from gradskip_onnx.operators import Kind, of_kind
from gradskip_onnx.types import TensorFact

# A norm, in one operator or written out, moves no token and multiplies with no matrix.
NORM_OPERATORS = (
    of_kind(Kind.NORMALISES | Kind.SPREAD | Kind.DEQUANTISES)
    | {"ReduceMean", "ReduceSum", "ReduceSumSquare", "Sub", "Pow", "Mul", "Add", "Reciprocal", "Div", "Neg"}
    | {"Cast", "QuantizeLinear"}
)


def find_normed(lookup: Index, stream: str, query: str, facts: Mapping[str, TensorFact]) -> str:
    """The normalised tokens: the last tensor that all paths from `stream` to `query` share, with only a norm before it.

    Post-norm blocks read the stream itself; for them this is `stream`.
    """
    path = lookup.between(stream, query)
    last = {tensor.name: at for at, node in enumerate(path) for tensor in node.inputs} | {query: len(path)}
    found, open_ends = stream, {stream}
    for at, node in enumerate(path):
        if node.op not in NORM_OPERATORS:
            break
        open_ends |= {tensor.name for tensor in node.outputs if last.get(tensor.name, -1) > at}
        open_ends -= {tensor.name for tensor in node.inputs if last[tensor.name] == at}
        if len(open_ends) == 1:
            (name,) = open_ends
            if facts[name] == facts[stream]:  # excludes integers of a quantised file, and other layouts
                found = name
    return found
