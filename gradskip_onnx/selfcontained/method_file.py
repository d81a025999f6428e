"""The file that explains itself: image and class in, the model's own outputs and the map of a method out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from onnx import helper, numpy_helper

from gradskip_onnx.graph.architecture import Reading
from gradskip_onnx.graph.read.assemble import stored
from gradskip_onnx.images.preprocess import Preprocess
from gradskip_onnx.ingraph.pixels_inside import PixelGraph, write_pixels
from gradskip_onnx.ingraph.view import View
from gradskip_onnx.ingraph.write_map import MapGraph, require_writable, write_map
from gradskip_onnx.instrument.build_plan import build_plan
from gradskip_onnx.methods import MethodChoice
from gradskip_onnx.model_file.original_nodes import changed_nodes, port_text
from gradskip_onnx.surgeon.node_writer import PREFIX
from gradskip_onnx.surgeon.private_names import held_as, node_proto, port_proto
from gradskip_onnx.types import Architecture, Array, Dims, Instrumented, Source

from .compact import make_compact
from .control_flow import SWITCH, put_behind_switch, repeat_for_classes
from .describe import anatomy, annotate, sign

RELEVANCE, EXPLAINED, PIXELS = "relevance", "explained", "pixels"


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """What is built into a file."""

    method: MethodChoice
    score: str = "logit"  # what is differentiated, unless the method has a score of its own
    view: View = field(default_factory=View)
    top: int = 0  # how many classes of an image are explained in one run; 0: one, without an axis of its own
    pixels: bool = False  # whether the file takes uint8 images (H, W, 3) of any size, and prepares them itself
    switch: bool = True  # whether the file has the input `explain`; false: the forward pass only

    @property
    def score_text(self) -> str:
        """The name of the score, as written into the file."""
        return "the method's own" if self.method.own_score else self.score


@dataclass(frozen=True, slots=True)
class Names:
    """Inputs and outputs that a file has besides the model's own; another name is taken where the model has one."""

    image: str
    target: str
    region: str | None
    switch: str | None
    relevance: str
    explained: str


def build(
    source: Source, reading: Reading, settings: BuildSettings, *, preprocess: Preprocess | None, labels: Sequence[str]
) -> onnx.ModelProto:
    """The model of `source` with the map of a method as a further output, and a description in its metadata."""
    require_writable(settings.method)
    settings.method.check(reading.architecture)
    plan, names = _graph(source, reading, settings, preprocess, simplify=True)
    original = changed_nodes(*_nodes_and_constants(reading), plan.model.graph)
    if original is None:  # the rows that are left out are not worth what it takes to remember them
        plan, names = _graph(source, reading, settings, preprocess, simplify=False)
    sign(plan.model)
    more = {
        "forward_outputs": [tensor.name for tensor in reading.graph.outputs],
        "original_nodes": original,
        "original_input": port_text(port_proto(reading.graph.inputs[0])) if settings.pixels else None,
        "anatomy": anatomy(reading.architecture),
        "built": _described(source, reading, settings, names) | {"large": plan.large},
    }
    return annotate(plan.model, preprocess=preprocess, labels=labels, more=more)


def _graph(
    source: Source, reading: Reading, settings: BuildSettings, preprocess: Preprocess | None, *, simplify: bool
) -> tuple[Instrumented, Names]:
    """The plan whose model has the map; `simplify` leaves out rows that nothing reads, as an explanation does."""
    choice, architecture = settings.method, reading.architecture
    own = [tensor.name for tensor in reading.graph.outputs]
    request = choice.request(architecture, settings.score)
    plan = build_plan(
        source, reading, request.needs, score=request.score, rules=request.rules, keep=own,
        simplify_forward=simplify, on_demand=True,
    )  # fmt: skip
    _fix_size(plan.model.graph, architecture.input, reading.facts[architecture.input].dims)
    names = _free_names(plan, settings, architecture)
    written = write_map(plan, reading, source.opset["ai.onnx"], choice, settings.view)
    graph = plan.model.graph
    _append(graph, plan, written, [*own, architecture.logits])
    outputs = {written.relevance: names.relevance, str(plan.target_output): names.explained}
    if settings.top:
        by_image = repeat_for_classes(graph, list(outputs), names.target, settings.top)
        outputs = {by_image[tensor]: name for tensor, name in outputs.items()}
        _set_default(graph, names.target, -1 - np.arange(settings.top, dtype=np.int64)[None])
    if names.switch is None:
        _rename(graph, outputs)
    else:
        put_behind_switch(graph, outputs, names.switch)
    if names.image != architecture.input:
        assert preprocess is not None
        fact, ir = reading.facts[architecture.input], plan.model.ir_version
        pixels = write_pixels(architecture, fact, source.opset["ai.onnx"], ir, preprocess, names.image)
        _put_in_front(graph, pixels, architecture.input)
    make_compact(graph, reading.graph.tensors().keys(), {node.name for node in reading.graph.nodes})
    return plan, names


def _fix_size(graph: onnx.GraphProto, image: str, dims: Dims) -> None:
    """Write the size of the image into the input of a model that takes any: its map is made for one size."""
    (port,) = (entry for entry in graph.input if entry.name == image)
    for dim, size in zip(port.type.tensor_type.shape.dim, dims, strict=True):
        if size is not None:
            dim.dim_value = size


def _put_in_front(graph: onnx.GraphProto, pixels: PixelGraph, image: str) -> None:
    """Let the model's input be made of the pixels of an image."""
    kept = onnx.GraphProto(node=graph.node, input=[entry for entry in graph.input if entry.name != image])
    graph.ClearField("node")
    graph.ClearField("input")
    graph.node.extend([*pixels.nodes, *kept.node])
    graph.input.extend([pixels.image, *kept.input])
    graph.initializer.extend(pixels.constants)


def _nodes_and_constants(reading: Reading) -> tuple[Iterator[onnx.NodeProto], dict[str, onnx.TensorProto]]:
    """The graph that was read, whose large weights stay where they are."""
    tensors = reading.graph.tensors().values()
    dense = [tensor for tensor in tensors if isinstance(tensor, gs.Constant) and held_as(tensor) != "sparse"]
    return map(node_proto, reading.graph.nodes), {tensor.name: stored(tensor) for tensor in dense}


def _free_names(plan: Instrumented, settings: BuildSettings, architecture: Architecture) -> Names:
    taken = set(_names(plan.model.graph))

    def free(name: str) -> str:
        return f"{PREFIX}{name}" if name in taken else name

    return Names(
        image=free(PIXELS) if settings.pixels else architecture.input,
        target=str(plan.target_input),
        region=plan.region_input,
        switch=free(SWITCH) if settings.switch else None,
        relevance=free(RELEVANCE),
        explained=free(EXPLAINED),
    )


def _names(graph: onnx.GraphProto) -> Iterator[str]:
    """The names of all tensors of a graph."""
    for part in (graph.input, graph.output, graph.initializer):
        yield from (entry.name for entry in part)
    yield from (sparse.values.name for sparse in graph.sparse_initializer)
    for node in graph.node:
        yield from (*node.input, *node.output)


def _append(graph: onnx.GraphProto, plan: Instrumented, written: MapGraph, own: Sequence[str]) -> None:
    """Add the nodes of the map; the outputs are then those of the model, the map and the class."""
    graph.node.extend(written.nodes)
    held = {tensor.name for tensor in graph.initializer}  # makers of large tensors have constants of the model
    graph.initializer.extend(tensor for tensor in written.constants if tensor.name not in held)
    shown = {output.name: output for output in graph.output}
    kept = [shown[name] for name in dict.fromkeys(own)]
    relevance = helper.make_tensor_value_info(written.relevance, onnx.TensorProto.FLOAT, written.dims)
    chosen = helper.make_tensor_value_info(str(plan.target_output), onnx.TensorProto.INT64, written.dims[:1])
    outputs = onnx.GraphProto(output=[*kept, relevance, chosen])  # copies, before the originals are freed
    graph.ClearField("output")
    graph.output.extend(outputs.output)


def _set_default(graph: onnx.GraphProto, name: str, value: Array) -> None:
    """Give an input another default value and its rank; a default is an initialiser with the name of an input."""
    for place in [at for at, tensor in enumerate(graph.initializer) if tensor.name == name]:
        del graph.initializer[place]
    graph.initializer.append(numpy_helper.from_array(value, name))
    (entry,) = (entry for entry in graph.input if entry.name == name)
    entry.CopyFrom(helper.make_tensor_value_info(name, onnx.TensorProto.INT64, [None, *value.shape[1:]]))


def _rename(graph: onnx.GraphProto, outputs: Mapping[str, str]) -> None:
    for tensor, name in outputs.items():
        graph.node.append(helper.make_node("Identity", [tensor], [name], name=f"{PREFIX}show/{name}"))
    for output in graph.output:
        output.name = outputs.get(output.name, output.name)


def _described(source: Source, reading: Reading, settings: BuildSettings, names: Names) -> dict[str, Any]:
    """What clients need to use the file, and auditors to know where it comes from."""
    architecture, view = reading.architecture, settings.view
    return {
        "method": settings.method.row.name,
        "options": settings.method.settings,
        "score": settings.score_text,
        "source": source.name,
        "source_sha256": source.sha256,
        "top": settings.top,
        "map": view.map,
        "smoothed": view.smoothed,
        "normalised": view.normalised,
        "precision": str(reading.facts[architecture.blocks[0].tokens_in].dtype),
        "preprocessing": "inside" if settings.pixels else "outside",
        "inputs": {
            "image": names.image,
            "target": names.target,
            "region": names.region,
            "explain": names.switch,
        },
        "outputs": {
            "logits": architecture.logits,
            "relevance": names.relevance,
            "explained": names.explained,
        },
        "task": architecture.task,
        "classes": architecture.classes,
        "image_size": list(architecture.input_dims.size),
    }
