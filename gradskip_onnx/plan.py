"""From what a method needs to a model that shows it: chosen tensors as outputs, and their gradients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from .autodiff.emit import Emit, Sym
from .autodiff.engine import backward
from .autodiff.rulesets import RULESETS
from .autodiff.seeds import SEEDS
from .errors import InputError
from .graph.architecture import Reading
from .types import Architecture, Needs, Plan, Source, TensorFact

TARGET, REGION = "target", "region"
AUTOMATIC = -1  # the default of both: the predicted class, the pixels predicted as the class
DEFAULTS_IR = 4  # the first ONNX file version in which an input may have a default value
VALUES = ("attention", "tokens_in", "tokens_out", "branch")


def build(
    source: Source,
    reading: Reading,
    needs: Needs,
    *,
    score: str = "logit",
    ruleset: str = "gradient",
    keep: Sequence[str] = (),
) -> Plan:
    """A plan for `needs` that also keeps the outputs named; where no gradient is asked for, none is computed."""
    architecture = reading.architecture
    graph = reading.graph.copy()
    values = _wanted(architecture, needs, "")
    at = _wanted(architecture, needs, "_gradients")
    outputs = [*keep, architecture.logits, *values]
    gradients: dict[str, str] = {}
    inputs: dict[str, Any] = {}
    chosen = None
    if at:
        graph, inputs, gradients, chosen = _differentiate(graph, reading, source.opset, at, score, ruleset)
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
        ruleset=ruleset,
        score=score,
        target_input=TARGET if TARGET in inputs else None,
        region_input=REGION if REGION in inputs else None,
        target_output=chosen,
    )


def _wanted(architecture: Architecture, needs: Needs, suffix: str) -> list[str]:
    """Tensors of all blocks that `needs` asks for, each once, in the order of the blocks."""
    kinds = [kind for kind in VALUES if getattr(needs, kind + suffix)]
    return list(dict.fromkeys(getattr(block, kind) for block in architecture.blocks for kind in kinds))


def _differentiate(
    graph: gs.Graph, reading: Reading, opset: Mapping[str, int], at: Iterable[str], score: str, ruleset: str
) -> tuple[gs.Graph, dict[str, Any], dict[str, str], str]:
    """Append the choice of the class and the backward pass."""
    architecture, facts = reading.architecture, reading.facts
    if (architecture.task, score) not in SEEDS:
        known = sorted(name for task, name in SEEDS if task == architecture.task)
        raise InputError(f"unknown score {score!r} for {architecture.task}; known: {', '.join(known)}")
    if ruleset not in RULESETS:
        raise InputError(f"unknown rule set {ruleset!r}; known: {', '.join(sorted(RULESETS))}")
    emit = Emit(graph, facts, opset["ai.onnx"])
    logits = emit.sym(architecture.logits)
    target = _input(emit, TARGET, TensorFact((None,), np.dtype(np.int64)))
    inputs = {TARGET: np.full(1, AUTOMATIC, np.int64)}
    region = None
    if architecture.task == "segmentation":
        region = _input(emit, REGION, TensorFact((None, *logits.dims[2:]), np.dtype(np.float32)))
        inputs[REGION] = np.full((1, 1, 1), AUTOMATIC, np.float32)
    seed, chosen = SEEDS[architecture.task, score](emit, logits, target, region)
    found = backward(emit, of=architecture.logits, seed=seed, at=list(at), rules=RULESETS[ruleset])
    return graph, inputs, {name: sym.name for name, sym in found.items()}, chosen.name


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
