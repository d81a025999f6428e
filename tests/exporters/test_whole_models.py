"""Whole models: values and gradients at every block and every attention against torch autograd, opset by opset."""

from __future__ import annotations

import os
import tempfile
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

pytest.importorskip("torch")
pytest.importorskip("timm")
pytest.importorskip("transformers")

import torch
from gradskip_onnx.exporters import load
from gradskip_onnx.exporters.oracle import differentiate
from gradskip_onnx.exporters.quiet import quiet
from gradskip_onnx.exporters.request import Exportable, ExportRequest
from gradskip_onnx.exporters.trace import trace

from gradskip_onnx.graph.architecture import Reading, read
from gradskip_onnx.graph.read.load import load as load_source
from gradskip_onnx.instrument.build_plan import build_plan
from gradskip_onnx.passes.run_plan import run_plan
from gradskip_onnx.runtime.session import open_session
from gradskip_onnx.selfcontained.tensors import show_tensors
from gradskip_onnx.tasks import task_of
from gradskip_onnx.types import Array, Needs, Source

pytestmark = [pytest.mark.torch, pytest.mark.slow]

AGREEMENT = 1e-4  # relative to the largest entry of the tensor; sums in another order reach about 1e-6 a dozen blocks
# Exposing tensors keeps ONNX Runtime from fusing across them, so a sum may round differently in the last bits.
SAME_LOGITS = 1e-6

ASSETS = os.environ.get("GRADSKIP_ASSETS")
REAL = Path(ASSETS or "") / "deit_tiny" / "deit_tiny_patch16_224.pth"


@dataclass(frozen=True)
class Case:
    name: str
    opset: int
    writer: str = "ours"
    size: tuple[int, int] | None = None
    checkpoint: Path | None = None

    def __str__(self):
        return f"{self.name}-{self.opset}-{self.writer}"


SMALL = (64, 96)  # 4 x 6 patches for ViT; every stage of SegFormer keeps at least 2 x 3 tokens
CASES = [
    Case("vit_tiny_patch16_224", 18),
    *(Case("vit_tiny_patch16_224", opset, size=SMALL) for opset in (13, 14, 17, 20)),
    Case("vit_tiny_patch16_224", 14, "torchscript", SMALL),
    Case("vit_tiny_patch16_224", 18, "dynamo", SMALL),
    Case("deit_tiny_distilled_patch16_224", 18),
    Case("deit_tiny_distilled_patch16_224", 13, size=SMALL),
    *(Case("segformer_b0", opset, size=SMALL) for opset in (13, 14, 17, 18, 20)),
    Case("segformer_b0", 17, "torchscript", SMALL),
    Case("segformer_b0", 18, "dynamo", SMALL),
    Case("vit_base_patch16_224", 17),
    Case("deit_tiny_patch16_224", 20, checkpoint=REAL),
]


@cache
def model(name, size, checkpoint):
    """A torch model; random ones are stirred so that no bias is zero and no scale is one."""
    exportable = load(ExportRequest(name, checkpoint=checkpoint, size=size, random_weights=checkpoint is None))
    if checkpoint is None:
        generator = torch.Generator().manual_seed(3)
        with torch.no_grad():
            for parameter in exportable.module.parameters():
                if parameter.ndim == 1:
                    parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
                else:
                    parameter.mul_(2.0)
    return exportable


def raw_torchscript(module: torch.nn.Module, example: torch.Tensor, opset: int) -> onnx.ModelProto:
    """What other people's exports look like: identities, constants and shape arithmetic left in."""
    axes = {"pixel_values": {0: "batch"}, "logits": {0: "batch"}}
    with quiet(), tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(
            module, (example,), f"{folder}/m.onnx", opset_version=opset, dynamo=False,
            input_names=["pixel_values"], output_names=["logits"], dynamic_axes=axes,
        )  # fmt: skip
        return onnx.load(f"{folder}/m.onnx")


def raw_dynamo(module: torch.nn.Module, example: torch.Tensor, opset: int) -> onnx.ModelProto:
    with quiet():
        program = torch.onnx.export(
            module, (example,), opset_version=opset, dynamo=True, verbose=False,
            input_names=["pixel_values"], output_names=["logits"],
            dynamic_shapes=({0: torch.export.Dim("batch")},),
        )  # fmt: skip
    assert program is not None
    return program.model_proto


def ours(module: torch.nn.Module, example: torch.Tensor, opset: int) -> onnx.ModelProto:
    model: onnx.ModelProto = trace(module, example, opset=opset)
    return model


WRITERS = {"ours": ours, "torchscript": raw_torchscript, "dynamo": raw_dynamo}


@dataclass(frozen=True)
class Stage:
    """From the papers: ViT/DeiT table of variants, SegFormer table 6 (MiT-B0)."""

    depth: int
    stride: int
    heads: int
    special: tuple[int, ...] = ()
    reduction: int = 1


ANATOMY = {
    "vit_tiny": [Stage(12, 16, 3, (0,))],
    "vit_base": [Stage(12, 16, 12, (0,))],
    "deit_tiny_patch16": [Stage(12, 16, 3, (0,))],
    "deit_tiny_distilled": [Stage(12, 16, 3, (0, 1))],
    "segformer_b0": [
        Stage(2, 4, 1, reduction=8), Stage(2, 8, 2, reduction=4), Stage(2, 16, 5, reduction=2), Stage(2, 32, 8),
    ],
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Prepared:
    case: Case
    exportable: Exportable
    source: Source
    reading: Reading
    images: Array


@pytest.fixture(scope="module", params=CASES, ids=str)
def prepared(request):
    """A file read back; the cases run one after the other, so that one large model is held at a time."""
    case = request.param
    if case.checkpoint is not None and (ASSETS is None or not case.checkpoint.is_file()):
        pytest.skip("GRADSKIP_ASSETS is not set")
    exportable = model(case.name, case.size, case.checkpoint)
    proto = WRITERS[case.writer](exportable.module.eval(), torch.zeros(2, 3, *exportable.size), case.opset)
    assert {e.version for e in proto.opset_import if e.domain in ("", "ai.onnx")} == {case.opset}
    source = load_source(proto.SerializeToString())
    images = np.random.default_rng(1).standard_normal((2, 3, *exportable.size)).astype(np.float32)
    return Prepared(case, exportable, source, read(source), images)


def relative(ours: Array, theirs: Array) -> float:
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def test_values_and_gradients_agree_with_torch(prepared):
    """Every attention, every block output, and the gradients at both, for a predicted and for a given class."""
    architecture = prepared.reading.architecture
    every = prepared.reading.architecture.every_block
    everything = Needs(
        attention=every, tokens_in=every, tokens_out=every, attention_gradients=every, tokens_out_gradients=every
    )
    made = build_plan(prepared.source, prepared.reading, everything)
    traces = run_plan(open_session(made.model, None, "cpu"), made, architecture, prepared.images, [None, 3])
    chosen = np.array([t.target for t in traces])
    oracle = differentiate(prepared.exportable, prepared.images, chosen, np.stack([t.logits for t in traces]))

    assert chosen[0] == task_of(architecture).predicted(oracle.logits)[0]
    assert chosen[1] == 3
    assert len(architecture.blocks) == len(oracle.outputs) == len(oracle.gradients) == len(oracle.attention_gradients)
    failures = {}
    for image, seen in enumerate(traces):
        for block in architecture.blocks:
            pairs = {
                "attention": (seen.values[block.attention], oracle.attention),
                "output": (seen.values[block.tokens_out], oracle.outputs),
                "gradient at output": (seen.gradients[block.tokens_out], oracle.gradients),
                "gradient at attention": (seen.gradients[block.attention], oracle.attention_gradients),
            }
            for what, (got, expected) in pairs.items():
                error = relative(got, expected[block.index][image])
                if not error <= AGREEMENT:
                    failures[image, block.index, what] = error
    assert not failures


def test_logits_are_those_of_the_original_file(prepared):
    """With the gradients computed, and with them switched off."""
    whole = show_tensors(prepared.source, prepared.reading, preprocess=None, labels=())
    before = open_session(prepared.source.model, None, "cpu").run(["logits"], {"pixel_values": prepared.images})
    session = open_session(whole, None, "cpu")
    for explain in (True, False):
        feeds = {"pixel_values": prepared.images, "explain": np.array(explain)}
        after = session.run(["logits"], feeds)

        assert relative(after["logits"], before["logits"]) <= SAME_LOGITS


def test_blocks_are_where_torch_has_them(prepared):
    """Grid, special tokens, heads and key reduction, from the torch model's own configuration."""
    blocks = prepared.reading.architecture.blocks
    stages = next(rows for stem, rows in ANATOMY.items() if prepared.case.name.startswith(stem))
    height, width = prepared.exportable.size
    expected = [
        ((height // row.stride, width // row.stride), row.special, row.heads, row.reduction)
        for row in stages
        for _ in range(row.depth)
    ]

    assert [(b.grid, b.special, b.heads, b.reduction) for b in blocks] == expected


def test_deit_with_real_weights_knows_its_labels():
    """The released classes and names belong together: the labels file of the assets is an independent list."""
    if ASSETS is None:
        pytest.skip("GRADSKIP_ASSETS is not set")
    exportable = model("deit_tiny_patch16_224", None, REAL)
    lines = (Path(ASSETS) / "imagenet_labels.txt").read_text().splitlines()
    synonyms = [set(line.split(maxsplit=1)[1].lower().replace("_", " ").split(", ")) for line in lines]
    shared = [names & set(label.lower().split(", ")) for names, label in zip(synonyms, exportable.labels, strict=True)]

    assert sum(map(bool, shared)) >= 990  # a few synsets are spelled differently


@pytest.fixture(autouse=True)
def _no_warnings_from_frameworks():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
