"""Rewrites fused operators by the table of lowerings, and proves each rewrite against the original node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.graph.prove.partial_model import PartialModel, partial_model
from gradskip_onnx.graph.prove.proofs import GRID_STEPS, difference, rounding
from gradskip_onnx.graph.read.image_input import ImageInput
from gradskip_onnx.surgeon.node_writer import PREFIX, NodeWriter, replace_reads
from gradskip_onnx.surgeon.sorting import sort_nodes
from gradskip_onnx.types import Array, Proof, TensorFact

from . import lowerings_quantised  # noqa: F401  (adds its rows)
from .lowerings import LOWERINGS, Row
from .write import Write

STANDARD = ("", "ai.onnx")
WITNESS = "gradskip/witness/"
HARDWARE = frozenset({"com.microsoft.nchwc", "com.ms.internal.nhwc"})


@dataclass(frozen=True, slots=True, eq=False)
class Lowered:
    """A graph of plain operators, and the fused nodes that they replace."""

    graph: gs.Graph
    witnesses: Mapping[str, gs.Node]  # tensor -> the fused node that computed it before


def needs_lowering(graph: gs.Graph) -> bool:
    return any(_key(node) in LOWERINGS for node in graph.nodes)


def refuse_hardware(graph: gs.Graph) -> None:
    """Refuse a file that ONNX Runtime optimised for one machine: it holds operators that other machines lack."""
    for node in graph.nodes:
        if node.domain in HARDWARE:
            raise UnsupportedModelError(
                "hardware-specific",
                f"{node.op} of domain {node.domain} at node {node.name!r} is bound to the machine the file was "
                "optimised on; take the file from before that, or optimise it at level extended",
            )


def lower(
    graph: gs.Graph,
    facts: Mapping[str, TensorFact],
    opset: int,
    table: Mapping[tuple[str, str], Row] = MappingProxyType(LOWERINGS),
) -> Lowered:
    """A copy of `graph` with every operator in the table rewritten."""
    graph = graph.copy()
    nodes = NodeWriter(graph, opset)
    witnesses: dict[str, gs.Node] = {}
    for node in [node for node in graph.nodes if _key(node) in table]:
        outputs = table[_key(node)](Write(nodes.under(f"{PREFIX}plain/{node.name}/"), facts), node)
        targets = list(node.outputs)
        node.outputs.clear()
        for position, tensor in enumerate(targets):
            new = outputs[position] if position < len(outputs) else None
            if new is None:
                if tensor.name and tensor.outputs:
                    raise UnsupportedModelError(
                        "fused-form",
                        f"{node.op} at node {node.name!r}: output {position} is read, and no rule gives it",
                    )
                continue
            if tensor.name:
                maker = new.inputs[0]
                maker.outputs[maker.outputs.index(new)] = tensor
                replace_reads(new, tensor)
                witnesses[tensor.name] = node
    sort_nodes(graph.cleanup())
    return Lowered(graph, witnesses)


def _key(node: gs.Node) -> tuple[str, str]:
    return ("" if node.domain in (None, *STANDARD) else node.domain), node.op


def prove_lowering(original: PartialModel, lowered: Lowered, image: ImageInput, size: tuple[int, int]) -> list[Proof]:
    """Compare each fused node with its replacement; both read the inputs of the rewritten graph."""
    if not lowered.witnesses:
        return []
    plain = partial_model(lowered.graph, original.folder, original.weights)
    replaced = {node.name for node in lowered.witnesses.values()}
    pairs: dict[str, str] = {}
    witnesses = []
    for node in original.nodes:
        if node.name in replaced:
            pairs |= {name: WITNESS + name for name in node.output if name in lowered.witnesses}
            witness = onnx.NodeProto()
            witness.CopyFrom(node)
            witness.output[:] = [name and WITNESS + name for name in node.output]
            witnesses.append(witness)
    both = replace(
        original,
        nodes=[*plain.nodes, *witnesses],
        stored={**original.stored, **plain.stored},
        weights={**original.weights, **plain.weights},
    )
    names = [name for pair in pairs.items() for name in pair]
    values = both.open(names).run(names, {image.name: image.probe(size, image.batch or 1)})
    return [_compare(name, values[name], values[other]) for name, other in pairs.items()]


def _compare(name: str, plain: Array, fused: Array) -> Proof:
    claim = "a rewritten operator gives what the fused one gave"
    if plain.dtype.kind in "iu":  # on an integer grid the unit is one step
        steps = np.abs(plain.astype(np.int64) - fused.astype(np.int64)).max(initial=0)
        return Proof(claim, name, float(steps), GRID_STEPS)
    return Proof(claim, name, difference(plain, fused.astype(np.float64)), rounding(plain.dtype))
