"""Builds and saves an ONNX file that contains the forward graph, a switchable backward graph and a description.

Works on the protobuf and not on graphsurgeon's graph: a graphsurgeon subgraph stores its own copy of every constant,
which would double the weights; in the protobuf the inner graph refers to the constants of the outer one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from gradskip_onnx.errors import InputError
from gradskip_onnx.graph.architecture import Reading
from gradskip_onnx.images.preprocess import Preprocess
from gradskip_onnx.instrument.build_plan import REGION, TARGET, build_plan
from gradskip_onnx.model_file.mapped_weights import lies_elsewhere, weight_bytes
from gradskip_onnx.model_file.metadata import FORMAT, KEY
from gradskip_onnx.output.atomic import make_folder, rename_whole, scratch_folder
from gradskip_onnx.surgeon.node_writer import names_in
from gradskip_onnx.types import Architecture, Needs, Plan, Source
from gradskip_onnx.untrusted_files import shortened
from gradskip_onnx.version import __version__

EXPLAIN = "explain"  # bool input, default true; false: only the forward pass is computed
LARGEST_INLINE = 1_500_000_000  # bytes of weights; a protobuf file ends at 2 GiB and the graph needs room too
WORTH_A_FILE = 100_000_000  # bytes of weights above which external weights of the source stay external
BLOCK_OUTPUTS = {"attention": "attention", "input": "tokens_in", "output": "tokens_out"}


def annotate(
    model: onnx.ModelProto,
    *,
    preprocess: Preprocess | None = None,
    labels: Sequence[str] = (),
    more: Mapping[str, Any] | None = None,
) -> onnx.ModelProto:
    """Write a description into the metadata of a model (in place); an earlier one is replaced."""
    document = {
        "format": FORMAT,
        "preprocess": None if preprocess is None else preprocess.as_dict(),
        "labels": list(labels),
        "versions": {"gradskip-onnx": __version__, "onnx": onnx.__version__},
        **(more or {}),
    }
    kept = {entry.key: entry.value for entry in model.metadata_props if entry.key != KEY}
    helper.set_model_props(model, kept | {KEY: json.dumps(document, sort_keys=True)})
    return model


def assemble(
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
    names = output_names(reading.architecture, plan)
    _guard(model, plan, names)
    for tensor, name in names["values"].items():
        model.graph.node.append(helper.make_node("Identity", [tensor], [name], name=f"{name}/show"))
    _rename_outputs(model, names["values"])
    described = _describe(reading, names)
    model.producer_name, model.producer_version = "gradskip-onnx", __version__
    return annotate(model, preprocess=preprocess, labels=labels, more={"forward_outputs": forward_outputs, **described})


def _require_free_names(reading: Reading, plan: Plan) -> None:
    """The inputs of the written file have fixed names, which programs rely on."""
    taken = [TARGET] if plan.target_input not in (TARGET, None) else []
    taken += [REGION] if plan.region_input not in (REGION, None) else []
    taken += [EXPLAIN] if EXPLAIN in names_in(reading.graph) else []
    if taken:
        raise InputError(f"the model already has something called {taken[0]!r}; rename it first")


def output_names(architecture: Architecture, plan: Plan) -> dict[str, dict[str, str]]:
    """Output names by model tensor. A tensor shared by two blocks (output of one, input of the next) gets one name."""
    values: dict[str, str] = {}
    gradients: dict[str, str] = {}
    for block in architecture.blocks:
        stem = f"gradskip/block{block.index:02d}"
        for word, field in BLOCK_OUTPUTS.items():
            if getattr(block, field) in plan.values:
                values.setdefault(getattr(block, field), f"{stem}/{word}")
        gradients[block.tokens_out] = f"{stem}/gradient"
    return {"values": values, "gradients": gradients}


def _describe(reading: Reading, names: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """The architecture and output names as JSON, for programs in any language."""
    architecture = reading.architecture
    blocks = [
        asdict(block)
        | {
            "outputs": {word: names["values"][getattr(block, field)] for word, field in BLOCK_OUTPUTS.items()}
            | {"gradient": names["gradients"][block.tokens_out]}
        }
        for block in architecture.blocks
    ]
    anatomy = {
        "task": architecture.task,
        "input": architecture.input,
        "input_dims": list(architecture.input_dims),
        "input_layout": architecture.input_layout,
        "logits": architecture.logits,
        "classes": architecture.classes,
        "blocks": blocks,
    }
    return {"anatomy": anatomy, "target_output": "gradskip/target"}


def _rename_outputs(model: onnx.ModelProto, names: Mapping[str, str]) -> None:
    for output in model.graph.output:
        output.name = names.get(output.name, output.name)


def _guard(model: onnx.ModelProto, plan: Plan, names: Mapping[str, Mapping[str, str]]) -> None:
    """Move the backward pass into an `If`, so that explain=false costs no more than the forward pass."""
    graph = model.graph
    outputs = {plan.gradients[tensor]: name for tensor, name in names["gradients"].items()}
    outputs[str(plan.target_output)] = "gradskip/target"
    inner = _needed_only_for(graph, set(outputs))
    inside = {node.name for node in inner}
    outer = [node for node in graph.node if node.name not in inside]
    types = {output.name: output.type.tensor_type.elem_type for output in graph.output}
    # The batch dimension has no fixed size and reads as 0 here, so the tensors of the else branch are empty.
    sizes = {output.name: [dim.dim_value for dim in output.type.tensor_type.shape.dim] for output in graph.output}
    then = helper.make_graph(inner, "gradskip/backward", [], [_info(name, types[name]) for name in outputs])
    blanks = [
        helper.make_node(
            "Constant", [], [f"{name}/none"],
            value=helper.make_tensor(f"{name}/none", types[name], sizes[name], b"", raw=True),
        )
        for name in outputs
    ]  # fmt: skip
    otherwise = helper.make_graph(blanks, "gradskip/nothing", [], [_info(f"{n}/none", types[n]) for n in outputs])
    switch = helper.make_node(
        "If", [EXPLAIN], list(outputs.values()), name="gradskip/switch", then_branch=then, else_branch=otherwise
    )
    keep = onnx.GraphProto(node=[*outer, switch])
    graph.ClearField("node")
    graph.node.extend(keep.node)
    _rename_outputs(model, outputs)
    graph.input.append(helper.make_tensor_value_info(EXPLAIN, onnx.TensorProto.BOOL, []))
    graph.initializer.append(onnx.numpy_helper.from_array(np.array(True), EXPLAIN))


def _needed_only_for(graph: onnx.GraphProto, outputs: set[str]) -> list[onnx.NodeProto]:
    """The nodes, in order, that only the given graph outputs depend on."""
    needed = {output.name for output in graph.output} - outputs
    only: list[onnx.NodeProto] = []
    for node in reversed(graph.node):
        if needed.isdisjoint(node.output):
            only.insert(0, node)
        else:
            needed.update(node.input)
    return only


def _info(name: str, kind: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, None)


def refuse_overwriting(path: Path, force: bool) -> None:
    """Raise InputError if the file exists and `force` is not set."""
    if os.path.lexists(path) and not force:
        raise _taken(path)


def _taken(path: Path) -> InputError:
    return InputError(f"{path} exists already; choose another name or give --force")


def save(model: onnx.ModelProto, path: Path, source: Source | None = None, *, force: bool = False) -> list[Path]:
    """Write a model completely or not at all; `source` is the model it was made from, for its external weights.

    Weights go into a second file if one file cannot hold them, or if they are large and external in the source.
    """
    refuse_overwriting(path, force)
    size, was_external = weight_bytes(model), source is not None and bool(source.others)
    external = size > LARGEST_INLINE or (was_external and size > WORTH_A_FILE)
    if source is not None and any(lies_elsewhere(tensor) for tensor in model.graph.initializer):
        onnx.load_external_data_for_model(model, str(source.folder))
    try:
        make_folder(path.parent)
        with scratch_folder(path.parent) as scratch:
            whole = scratch / path.name
            location = f"{path.name}.data" if external else None
            onnx.save_model(model, whole, save_as_external_data=external, location=location)
            written = sorted(scratch.iterdir(), key=lambda file: file == whole)  # the model file last
            for file in written:
                file.chmod(whole.stat().st_mode)  # onnx makes weight files readable by their owner only
            return _put_in_place(written, path, force)
    except OSError as failure:
        raise InputError(f"{shortened(path)} cannot be written: {failure.strerror or failure}") from failure


def _put_in_place(written: Sequence[Path], path: Path, force: bool) -> list[Path]:
    """Give the finished files their names beside `path`, the model last: where it is, all is there.

    A model that is replaced goes before its weights do, so that it is never read with those of another.
    """
    if force and len(written) > 1:
        path.unlink(missing_ok=True)
    placed: list[Path] = []
    for file in written:
        try:
            rename_whole(file, path.with_name(file.name), force)
        except FileExistsError as taken:
            for earlier in placed:
                earlier.unlink()
            raise _taken(path.with_name(file.name)) from taken
        placed.append(path.with_name(file.name))
    return placed[::-1]
