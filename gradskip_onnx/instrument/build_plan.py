"""Builds the instrumented model of a method: chosen tensors become outputs, and so do their gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from gradskip_onnx.autodiff.emit import Emit, Sym
from gradskip_onnx.autodiff.engine import backward
from gradskip_onnx.autodiff.patch_embeddings import patch_embeddings, unsigned_gradient
from gradskip_onnx.autodiff.per_class_rows import RowEmit
from gradskip_onnx.autodiff.rules.table import Rule
from gradskip_onnx.autodiff.rulesets.choice import TRUE_GRADIENT, Rules
from gradskip_onnx.autodiff.rulesets.gamma_rule import after_embedding
from gradskip_onnx.autodiff.rulesets.table import GRADIENT
from gradskip_onnx.autodiff.scores.seeds import Seed, logit, named_seed
from gradskip_onnx.graph.architecture import Reading
from gradskip_onnx.graph.read.assemble import assemble
from gradskip_onnx.graph.rewrite.integer_kernels import keep_integer_kernels
from gradskip_onnx.graph.rewrite.mix_before_enlarging import OPERATORS, mix_before_enlarging
from gradskip_onnx.graph.rewrite.prune_rows import prune_rows
from gradskip_onnx.graph.rewrite.repeat_head import mean_in_place_of_each, readable, repeat_head
from gradskip_onnx.surgeon.node_writer import NodeWriter
from gradskip_onnx.surgeon.pause_collector import collector_paused
from gradskip_onnx.surgeon.sorting import sort_nodes
from gradskip_onnx.tasks import task_of
from gradskip_onnx.types import AUTOMATIC, Block, Instrumented, Needs, Source, TensorFact

from .on_demand import makers_of_large
from .recompute import recompute_large

TARGET, REGION = "target", "region"
DEFAULTS_IR = 4  # the first ONNX file version in which an input may have a default value
VALUES = ("attention", "tokens_in", "tokens_out", "branch", "normed")


@collector_paused()
def build_plan(
    source: Source,
    reading: Reading,
    needs: Needs,
    *,
    score: str | Seed = "logit",
    rules: Rules = TRUE_GRADIENT,
    keep: Sequence[str] = (),
    simplify_forward: bool = True,
    rows: bool = False,
    on_demand: bool = False,
) -> Instrumented:
    """Build a plan for `needs`; outputs named in `keep` stay, and a backward pass is added only if one is needed.

    `simplify_forward` removes arithmetic that does not affect the outputs. With `rows` the model takes one image and
    any number of targets, even where images share an axis with windows or heads. With `on_demand` large attentions and
    their gradients are no outputs, but have makers.
    """
    architecture = reading.architecture
    graph = reading.graph.copy()
    values = _block_tensors(architecture.blocks, needs, "")
    at = _block_tensors(architecture.blocks, needs, "_gradients") + [architecture.input] * needs.input_gradients
    if needs.position and architecture.position:
        values = list(dict.fromkeys([*values, architecture.position.before, architecture.position.after]))
        at = list(dict.fromkeys([*at, architecture.position.after]))
    forward: list[Any] = []
    heads = _heads(graph, reading, source, needs.readout_gradients == "mean") if needs.readout_gradients else {}
    outputs = [*keep, architecture.logits, *values]
    added, facts = _Added(), reading.facts
    table = rules.table()
    if simplify_forward and not heads and not needs.attention_relevance:
        facts = _simplify(graph, [*outputs, *at], facts, table)
    if at or heads or needs.attention_relevance or needs.unsigned_input_gradients:
        relevance = Rules(needs.attention_relevance).table() if needs.attention_relevance else {}
        simplified = replace(reading, facts=facts)
        forward = list(graph.nodes)
        added = _differentiate(
            graph, simplified, source.opset, at, heads, score, table, relevance, rows, needs.unsigned_input_gradients
        )
        shown = (added.gradients, added.readouts, added.relevances, added.unsigned)
        outputs += [added.chosen, *(name for part in shown for name in part.values())]
    makers = makers_of_large(graph, _of_attention(architecture.blocks, values, added), facts) if on_demand else {}
    outputs = [name for name in outputs if name not in makers] + [n for maker in makers.values() for n in maker.inputs]
    again = bool(added.chosen) and recompute_large(graph, forward, outputs, facts, source.opset["ai.onnx"])
    keep_integer_kernels(graph, forward or list(graph.nodes), outputs, facts, source.opset["ai.onnx"])
    tensors = graph.tensors()
    graph.outputs = [tensors[name] for name in dict.fromkeys(outputs)]
    for tensor in graph.outputs:
        if tensor.name in reading.facts:  # files often leave the type of inner tensors out
            fact = reading.facts[tensor.name]
            tensor.dtype, tensor.shape = fact.dtype, list(fact.dims)
    sort_nodes(graph.cleanup())
    return Instrumented(
        model=_finish(graph, source, added.inputs),
        folder=source.folder,
        logits=architecture.logits,
        values={name: name for name in values},
        gradients=added.gradients,
        readouts=added.readouts,
        relevances=added.relevances,
        unsigned=added.unsigned,
        target_input=added.target,
        region_input=added.region,
        target_output=added.chosen or None,
        makers=makers,
        large=again or bool(makers),
    )


def _simplify(
    graph: gs.Graph, shown: Sequence[str], facts: Mapping[str, TensorFact], table: Mapping[str, Rule]
) -> Mapping[str, TensorFact]:
    """Rewrite the forward pass in place so that the tensors in `shown` take less arithmetic; returns the new facts."""
    if all(after_embedding(table.get(op)) is GRADIENT.get(op) for op in OPERATORS):
        facts = mix_before_enlarging(graph, shown, facts)
    return prune_rows(graph, shown, facts)


def _block_tensors(blocks: Sequence[Block], needs: Needs, suffix: str) -> list[str]:
    """Names of the block tensors in `needs` (of their gradients with suffix "_gradients"), each once."""
    return list(dict.fromkeys(getattr(blocks[at], kind) for kind in VALUES for at in getattr(needs, kind + suffix)))


Heads = Mapping[str, tuple[str, Mapping[str, TensorFact]]]  # attention -> scores of its head copy, facts of new tensors


def _heads(graph: gs.Graph, reading: Reading, source: Source, mean: bool) -> Heads:
    """Append a copy of the head to every block whose tokens, or their mean, it can read."""
    architecture = reading.architecture
    average = mean_in_place_of_each(NodeWriter(graph, source.opset["ai.onnx"])) if mean else None
    return {
        block.attention: repeat_head(graph, architecture, reading.facts, block, average)
        for block in readable(architecture)
    }


@dataclass(frozen=True, slots=True)
class _Added:
    """What the backward pass adds to a graph: inputs with their defaults, and names of outputs."""

    inputs: Mapping[str, Any] = field(default_factory=dict)
    gradients: Mapping[str, str] = field(default_factory=dict)
    readouts: Mapping[str, str] = field(default_factory=dict)
    relevances: Mapping[str, str] = field(default_factory=dict)
    unsigned: Mapping[str, str] = field(default_factory=dict)
    chosen: str = ""
    target: str | None = None
    region: str | None = None


def _of_attention(blocks: Sequence[Block], values: Sequence[str], added: _Added) -> list[str]:
    """The outputs that are an attention, its gradient or its relevance."""
    shown = (dict(zip(values, values, strict=True)), added.gradients, added.readouts, added.relevances)
    attentions = [block.attention for block in blocks]
    return [part[name] for part in shown for name in attentions if name in part]


def _differentiate(
    graph: gs.Graph, reading: Reading, opset: Mapping[str, int], at: Sequence[str], heads: Heads,
    score: str | Seed, table: Mapping[str, Rule], relevance: Mapping[str, Rule], rows: bool,
    unsigned: bool,
) -> _Added:  # fmt: skip
    """Append the choice of the class and the backward pass; head copies start from the seed of the model's own head."""
    architecture, facts = reading.architecture, dict(reading.facts)
    for _, written in heads.values():
        facts |= written
    build_seed = score if callable(score) else named_seed(score)
    emit = (RowEmit if rows else Emit)(graph, facts, opset["ai.onnx"])
    logits = emit.sym(architecture.logits)
    target = _input(emit, TARGET, TensorFact((None,), np.dtype(np.int64)))
    inputs = {target.name: np.full(1, AUTOMATIC, np.int64)}
    names = {"target": target.name}
    region = None
    if task_of(architecture).takes_region:
        region = _input(emit, REGION, TensorFact((None, *logits.dims[2:]), np.dtype(np.float32)))
        names["region"] = region.name
        inputs[region.name] = np.full((1, 1, 1), AUTOMATIC, np.float32)
    if isinstance(emit, RowEmit):
        target, region = emit.per_row(target), region and emit.per_row(region)
    seed, chosen = build_seed(emit, logits, target, region)
    image = architecture.input
    embeddings = patch_embeddings(emit, architecture.logits) if unsigned else []
    found = backward(emit, of=architecture.logits, seed=seed, at=[*at, *embeddings], rules=table)
    gradients = {name: found[name] for name in at}
    sizes = unsigned_gradient(emit, image, {name: found[name] for name in embeddings}, table) if unsigned else None
    readouts = {name: backward(emit, of=of, seed=seed, at=[name], rules=table)[name] for name, (of, _) in heads.items()}
    attention = [block.attention for block in architecture.blocks] if relevance else []
    logit_seed = logit(emit, logits, target, region)[0] if relevance else seed
    relevances = (
        backward(emit, of=architecture.logits, seed=logit_seed, at=attention, rules=relevance) if relevance else {}
    )
    return _Added(
        inputs=inputs,
        gradients={name: sym.name for name, sym in gradients.items()},
        readouts={name: sym.name for name, sym in readouts.items()},
        relevances={name: sym.name for name, sym in relevances.items()},
        unsigned={} if sizes is None else {image: sizes.name},
        chosen=chosen.name,
        **names,
    )


def _input(emit: Emit, name: str, fact: TensorFact) -> Sym:
    """A new graph input, called otherwise where the file has the name; its default value is added at the end."""
    tensor = gs.Variable(emit.free_name(name), fact.dtype, [None] * len(fact.dims))
    emit.graph.inputs.append(tensor)
    return Sym(emit, tensor, fact.dtype, fact.dims)


def _finish(graph: gs.Graph, source: Source, inputs: Mapping[str, Any]) -> onnx.ModelProto:
    """Assemble the model; an initialiser with the name of an input is its default value in ONNX."""
    model = assemble(graph)
    model.ir_version = max(source.model.ir_version, DEFAULTS_IR)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(value, name) for name, value in inputs.items())
    return model
