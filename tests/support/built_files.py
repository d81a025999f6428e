"""Built files in memory, and what they give for images."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import onnxruntime

from gradskip_onnx.api import Explainer
from gradskip_onnx.selfcontained.method_file import BuildSettings, build
from gradskip_onnx.selfcontained.save import save
from gradskip_onnx.types import Array


def build_into(folder: Path, explainer: Explainer, settings: BuildSettings) -> Path:
    """A file built from an open model."""
    model = explainer.model
    built = build(model.source, model.reading, settings, preprocess=explainer.preprocess, labels=explainer.labels)
    path = folder / "explained.onnx"
    save(built, path, model.source, force=True)
    return path


def session_of(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run(session: onnxruntime.InferenceSession, images: Array, **feeds: Any) -> dict[str, Array]:
    names = [output.name for output in session.get_outputs()]
    image = session.get_inputs()[0].name
    return dict(zip(names, session.run(names, {image: images, **feeds}), strict=True))


def nodes_of(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """All nodes, also inside bodies."""
    yield from graph.node
    for body in bodies_of(graph):
        yield from nodes_of(body)


def bodies_of(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    """The graphs in attributes of the nodes of a graph."""
    return [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]


def domains(graph: onnx.GraphProto) -> set[str]:
    """The domains of all operators, also inside bodies."""
    return {node.domain for node in nodes_of(graph)}
