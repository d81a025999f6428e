"""Every emitted node has a CUDA kernel, by ONNX Runtime's published table, so the graph stays on the GPU."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import numpy as np
import onnx
import pytest

pytest.importorskip("torch")

from gradskip_onnx.surgeon.node_writer import PREFIX

from . import vjp_cases_layout  # noqa: F401  (adds its rows to CASES)
from .test_seeds import seeded
from .test_vjps import derive
from .vjp_cases import CASES

pytestmark = pytest.mark.torch

KERNELS = json.loads((Path(__file__).parent / "cuda_kernels.json").read_text())["kernels"]

# Newer opsets than the exporters write: what ONNX Runtime would run on the CPU instead, by the same table.
GAPS = {
    22: {"ConvTranspose", "Cos", "MaxPool", "Sin", "Softplus"},
    23: {"ConvTranspose", "Cos", "MaxPool", "Sin", "Softplus"},
}
TYPES = {"float32": "float", "float64": "double"}


def has_kernel(op: str, dtype: str, opset: int) -> bool:
    """ONNX Runtime takes a kernel without a last version only for the very version it was registered for."""
    version = onnx.defs.get_schema(op, opset).since_version
    return any(
        (first == version or (last is not None and first <= version <= last)) and TYPES.get(dtype, dtype) in types
        for first, last, types in KERNELS.get(op, [])
    )


@lru_cache
def emitted(opset: int) -> frozenset[tuple[str, str]]:
    """(operator, element type) of all nodes written for the table of cases and the seeds."""
    models = [derive(case, opset, np.float32, dynamic=True)[0] for case in CASES if opset in case.opsets]
    models += [
        seeded(task, score, opset) for task in ("classification", "segmentation") for score in ("logit", "probability")
    ]
    found = set()
    for model in models:
        types = {x.name: onnx.helper.tensor_dtype_to_np_dtype(x.data_type).name for x in model.graph.initializer}
        known = [*model.graph.input, *onnx.shape_inference.infer_shapes(model).graph.value_info, *model.graph.output]
        for entry in known:
            kind = entry.type.tensor_type.elem_type
            if kind:
                types[entry.name] = onnx.helper.tensor_dtype_to_np_dtype(kind).name
        for node in model.graph.node:
            if node.name.startswith(PREFIX):
                typed = node.input[1 if node.op_type == "Where" else 0]  # the table lists the type of what is chosen
                found.add((node.op_type, types[typed]))
    return frozenset(found)


@pytest.mark.parametrize("opset", range(13, 22))
def test_every_emitted_node_has_a_cuda_kernel(opset: int) -> None:
    """Nodes written for the tested opsets nearest below and above, judged at this one."""
    form = (13, 17) if opset < 18 else (18,) if opset == 18 else (20, 21)
    nodes = {entry for known in form for entry in emitted(known) if exists(entry[0], opset)}
    assert len({op for op, _ in nodes}) > 40
    assert sorted(entry for entry in nodes if not has_kernel(*entry, opset)) == []


def exists(op: str, opset: int) -> bool:
    return onnx.defs.get_schema(op).since_version <= opset or opset >= min(
        schema.since_version for schema in onnx.defs.get_all_schemas_with_history() if schema.name == op
    )


@pytest.mark.parametrize("opset", sorted(GAPS))
def test_gaps_of_newer_opsets_are_the_known_ones(opset: int) -> None:
    assert {op for op, dtype in emitted(21) if not has_kernel(op, dtype, opset)} == GAPS[opset]


def test_the_rule_about_versions_is_applied() -> None:
    assert has_kernel("Pad", "float32", 18)
    assert not has_kernel("Pad", "float32", 19)  # Pad-19 exists, a kernel for it does not
    assert not has_kernel("Pad", "int64", 18)
    assert not has_kernel("Det", "float32", 18)
