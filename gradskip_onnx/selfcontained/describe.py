"""The description in a file's metadata: preprocessing, labels, the architecture, what was built."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import onnx
from onnx import helper

from gradskip_onnx.images.preprocess import Preprocess
from gradskip_onnx.model_file.metadata import FORMAT, KEY
from gradskip_onnx.types import Architecture
from gradskip_onnx.version import __version__


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


def sign(model: onnx.ModelProto) -> None:
    """Name this project as the maker of a file, and import no operators that it does not use.

    Files that a runtime has optimised import its own, which are written out in ours.
    """
    model.producer_name, model.producer_version = "gradskip-onnx", __version__
    used = {*_domains(model.graph.node), ""}
    kept = [entry for entry in model.opset_import if ("" if entry.domain == "ai.onnx" else entry.domain) in used]
    imports = onnx.ModelProto(opset_import=kept)  # copies, before the originals are freed
    model.ClearField("opset_import")
    model.opset_import.extend(imports.opset_import)


def _domains(nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    """The domains of nodes, also inside bodies; the standard one is empty."""
    for node in nodes:
        yield "" if node.domain == "ai.onnx" else node.domain
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from _domains(body.node)


def anatomy(architecture: Architecture) -> dict[str, Any]:
    """The architecture as JSON, for programs in any language."""
    return {
        "task": architecture.task,
        "input": architecture.input,
        "input_dims": list(architecture.input_dims),
        "input_layout": architecture.input_layout,
        "logits": architecture.logits,
        "classes": architecture.classes,
        "blocks": [asdict(block) for block in architecture.blocks],
    }
