"""From what a method needs to a model that shows it: chosen tensors as outputs, and their gradients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from .autodiff.emit import Emit, Sym
from .autodiff.engine import backward
from .autodiff.rulesets import Rules
from .autodiff.seeds import SEEDS, Seed
from .errors import InputError
from .graph.architecture import Reading
from .types import Architecture, Needs, Plan, Source, TensorFact

TARGET, REGION = "target", "region"
AUTOMATIC = -1  # the default of both: the predicted class, the pixels predicted as the class
DEFAULTS_IR = 4  # the first ONNX file version in which an input may have a default value
VALUES = ("attention", "tokens_in", "tokens_out", "branch", "normed")
OF: Mapping[str, slice] = {"": slice(0, 0), "first": slice(0, 1), "last": slice(-1, None), "all": slice(None)}


def build(
    source: Source,
    reading: Reading,
    needs: Needs,
    *,
    score: str | Seed = "logit",
    rules: Rules = Rules("gradient"),
    keep: Sequence[str] = (),
) -> Plan:
    """A plan for `needs` that also keeps the outputs named; where no gradient is asked for, none is computed."""
    architecture = reading.architecture
    graph = reading.graph.copy()
    values = _wanted(architecture, needs, "")
    at = _wanted(architecture, needs, "_gradients") + [architecture.input] * needs.input_gradients
    outputs = [*keep, architecture.logits, *values]
    gradients: dict[str, str] = {}
    inputs: dict[str, Any] = {}
    chosen = None
    if at:
        graph, inputs, gradients, chosen = _differentiate(graph, reading, source.opset, at, score, rules)
        outputs += [chosen, *gradients.values()]
    tensors = graph.tensors()
    graph.outputs = [tensors[name] for name in dict.fromkeys(outputs)]
    for tensor in graph.outputs:
        if tensor.name in reading.facts:  # files often leave the type of inner tensors out
            fact = reading.facts[tensor.name]
            tensor.dtype, tensor.shape = fact.dtype, list(fact.dims)
    graph.cleanup().toposort()
    model = _finish(graph, source, inputs)
    return Plan(
        model=model,
        folder=source.folder,
        logits=architecture.logits,
        values={name: name for name in values},
        gradients=gradients,
        target_input=TARGET if TARGET in inputs else None,
        region_input=REGION if REGION in inputs else None,
        target_output=chosen,
    )


def _wanted(architecture: Architecture, needs: Needs, suffix: str) -> list[str]:
    """Tensors of the blocks that `needs` asks for, each once."""
    wanted = [(kind, architecture.blocks[OF[getattr(needs, kind + suffix)]]) for kind in VALUES]
    return list(dict.fromkeys(getattr(block, kind) for kind, blocks in wanted for block in blocks))


def _differentiate(
    graph: gs.Graph, reading: Reading, opset: Mapping[str, int], at: Iterable[str], score: str | Seed, rules: Rules
) -> tuple[gs.Graph, dict[str, Any], dict[str, str], str]:
    """Append the choice of the class and the backward pass."""
    architecture, facts = reading.architecture, reading.facts
    build_seed = score if callable(score) else _named_seed(architecture, score)
    table = rules.table()
    emit = Emit(graph, facts, opset["ai.onnx"])
    logits = emit.sym(architecture.logits)
    target = _input(emit, TARGET, TensorFact((None,), np.dtype(np.int64)))
    inputs = {TARGET: np.full(1, AUTOMATIC, np.int64)}
    region = None
    if architecture.task == "segmentation":
        region = _input(emit, REGION, TensorFact((None, *logits.dims[2:]), np.dtype(np.float32)))
        inputs[REGION] = np.full((1, 1, 1), AUTOMATIC, np.float32)
    seed, chosen = build_seed(emit, logits, target, region)
    found = backward(emit, of=architecture.logits, seed=seed, at=list(at), rules=table)
    return graph, inputs, {name: sym.name for name, sym in found.items()}, chosen.name


def _named_seed(architecture: Architecture, score: str) -> Seed:
    if (architecture.task, score) not in SEEDS:
        known = sorted(name for task, name in SEEDS if task == architecture.task)
        raise InputError(f"unknown score {score!r} for {architecture.task}; known: {', '.join(known)}")
    return SEEDS[architecture.task, score]


def _input(emit: Emit, name: str, fact: TensorFact) -> Sym:
    """A new graph input; its default value is added when the graph is finished."""
    if any(tensor.name == name for tensor in emit.graph.inputs):
        raise InputError(f"the model already has an input called {name!r}; rename it first")
    tensor = gs.Variable(name, fact.dtype, [None] * len(fact.dims))
    emit.graph.inputs.append(tensor)
    return Sym(emit, tensor, fact.dtype, fact.dims)


def _finish(graph: gs.Graph, source: Source, inputs: Mapping[str, Any]) -> onnx.ModelProto:
    """The finished model. An initialiser of the same name is how ONNX gives an input a default value."""
    model: onnx.ModelProto = gs.export_onnx(graph, do_type_check=False)
    del model.graph.value_info[:]  # shapes seen for one batch size must not bind another
    model.ir_version = max(source.model.ir_version, DEFAULTS_IR)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(value, name) for name, value in inputs.items())
    return model
