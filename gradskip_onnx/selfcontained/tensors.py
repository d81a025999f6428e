"""The file that shows tensors: forward graph, attention and tokens of every block, gradients behind a switch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import helper

from gradskip_onnx.errors import InputError
from gradskip_onnx.graph.architecture import Reading
from gradskip_onnx.images.preprocess import Preprocess
from gradskip_onnx.instrument.build_plan import REGION, TARGET, build_plan
from gradskip_onnx.surgeon.node_writer import names_in
from gradskip_onnx.types import Architecture, Needs, Plan, Source

from .control_flow import SWITCH, put_behind_switch
from .describe import anatomy, annotate, sign

BLOCK_OUTPUTS = {"attention": "attention", "input": "tokens_in", "output": "tokens_out"}


def show_tensors(
    source: Source, reading: Reading, *, preprocess: Preprocess | None, labels: Sequence[str]
) -> onnx.ModelProto:
    """Build the model of the file: forward graph, named outputs, gradients behind the switch, description."""
    forward_outputs = [tensor.name for tensor in reading.graph.outputs]
    every = reading.architecture.every_block
    needs = Needs(attention=every, tokens_in=every, tokens_out=every, tokens_out_gradients=every)
    # the forward graph of the source is kept unchanged
    plan = build_plan(source, reading, needs, keep=forward_outputs, simplify_forward=False)
    _require_free_names(reading, plan)
    model = plan.model
    values, gradients = output_names(reading.architecture, plan)
    outputs = {plan.gradients[tensor]: name for tensor, name in gradients.items()}
    put_behind_switch(model.graph, outputs | {str(plan.target_output): "gradskip/target"}, SWITCH)
    for tensor, name in values.items():
        model.graph.node.append(helper.make_node("Identity", [tensor], [name], name=f"{name}/show"))
    for output in model.graph.output:
        output.name = values.get(output.name, output.name)
    sign(model)
    described = {"anatomy": _described(reading.architecture, values, gradients), "target_output": "gradskip/target"}
    return annotate(model, preprocess=preprocess, labels=labels, more={"forward_outputs": forward_outputs, **described})


def _require_free_names(reading: Reading, plan: Plan) -> None:
    """The inputs of the written file have fixed names, which programs rely on."""
    taken = [TARGET] if plan.target_input not in (TARGET, None) else []
    taken += [REGION] if plan.region_input not in (REGION, None) else []
    taken += [SWITCH] if SWITCH in names_in(reading.graph) else []
    if taken:
        raise InputError(f"the model already has something called {taken[0]!r}; rename it first")


def output_names(architecture: Architecture, plan: Plan) -> tuple[dict[str, str], dict[str, str]]:
    """Output names by model tensor, of values and of gradients.

    A tensor shared by two blocks (output of one, input of the next) gets one name.
    """
    values: dict[str, str] = {}
    gradients: dict[str, str] = {}
    for block in architecture.blocks:
        stem = f"gradskip/block{block.index:02d}"
        for word, field in BLOCK_OUTPUTS.items():
            if getattr(block, field) in plan.values:
                values.setdefault(getattr(block, field), f"{stem}/{word}")
        gradients[block.tokens_out] = f"{stem}/gradient"
    return values, gradients


def _described(architecture: Architecture, values: Mapping[str, str], gradients: Mapping[str, str]) -> dict[str, Any]:
    """The architecture with the output names of every block."""
    described = anatomy(architecture)
    for block, entry in zip(architecture.blocks, described["blocks"], strict=True):
        entry["outputs"] = {word: values[getattr(block, field)] for word, field in BLOCK_OUTPUTS.items()}
        entry["outputs"]["gradient"] = gradients[block.tokens_out]
    return described
