"""Whole models: values and gradients at every block and every attention against torch autograd, opset by opset."""

from __future__ import annotations

import io
import os
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("timm")
pytest.importorskip("transformers")

from gradskip_onnx.exporters import load  # noqa: E402
from gradskip_onnx.exporters.oracle import differentiate  # noqa: E402
from gradskip_onnx.exporters.quiet import quiet  # noqa: E402
from gradskip_onnx.exporters.sources import Request  # noqa: E402
from gradskip_onnx.exporters.trace import trace  # noqa: E402

from gradskip_onnx import bundle, plan, runtime  # noqa: E402
from gradskip_onnx.graph.architecture import read  # noqa: E402
from gradskip_onnx.graph.load import load as load_source  # noqa: E402
from gradskip_onnx.session import open_session  # noqa: E402
from gradskip_onnx.types import Needs  # noqa: E402

AGREEMENT = 1e-4  # relative to the largest entry of the tensor; sums in another order reach about 1e-6 a dozen blocks
# Exposing tensors keeps ONNX Runtime from fusing across them, so a sum may round differently in the last bits.
SAME_LOGITS = 1e-6
EVERYTHING = Needs(attention=True, tokens_in=True, tokens_out=True, attention_gradients=True, tokens_out_gradients=True)

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
    exportable = load(Request(name, checkpoint=checkpoint, size=size, random_weights=checkpoint is None))
    if checkpoint is None:
        generator = torch.Generator().manual_seed(3)
        with torch.no_grad():
            for parameter in exportable.module.parameters():
                if parameter.ndim == 1:
                    parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
                else:
                    parameter *= 2.0
    return exportable


def raw_torchscript(module, example, opset):
    stream = io.BytesIO()
    axes = {"pixel_values": {0: "batch"}, "logits": {0: "batch"}}
    with quiet():
        torch.onnx.export(
            module, (example,), stream, opset_version=opset, dynamo=False,
            input_names=["pixel_values"], output_names=["logits"], dynamic_axes=axes,
        )  # fmt: skip
    return onnx.load_from_string(stream.getvalue())


def raw_dynamo(module, example, opset):
    with quiet():
        program = torch.onnx.export(
            module, (example,), opset_version=opset, dynamo=True, verbose=False,
            input_names=["pixel_values"], output_names=["logits"],
            dynamic_shapes=({0: torch.export.Dim("batch")},),
        )  # fmt: skip
    return program.model_proto


def ours(module, example, opset):
    return trace(module, example, opset=opset)


WRITERS = {"ours": ours, "torchscript": raw_torchscript, "dynamo": raw_dynamo}


@dataclass(frozen=True, eq=False)
class Prepared:
    case: Case
    exportable: object
    source: object
    reading: object
    images: np.ndarray


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


def relative(ours, theirs):
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def test_values_and_gradients_agree_with_torch(prepared):
    """Every attention, every block output, and the gradients at both, for a predicted and for a given class."""
    architecture = prepared.reading.architecture
    made = plan.build(prepared.source, prepared.reading, EVERYTHING)
    traces = runtime.run(open_session(made.model, None, "cpu"), made, architecture, prepared.images, [None, 3])
    chosen = np.array([t.target for t in traces])
    oracle = differentiate(prepared.exportable, prepared.images, chosen, np.stack([t.logits for t in traces]))

    assert chosen[0] == runtime.predicted(oracle.logits)[0]
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
    whole = bundle.assemble(prepared.source, prepared.reading, preprocess=None, labels=())
    before = open_session(prepared.source.model, None, "cpu").run(["logits"], {"pixel_values": prepared.images})
    session = open_session(whole, None, "cpu")
    for explain in (True, False):
        feeds = {"pixel_values": prepared.images, "explain": np.array(explain)}
        after = session.run(["logits"], feeds)

        assert relative(after["logits"], before["logits"]) <= SAME_LOGITS


def test_blocks_are_where_torch_has_them(prepared):
    """Grid, special tokens, heads and key reduction, from the torch model's own configuration."""
    blocks = prepared.reading.architecture.blocks
    height, width = prepared.exportable.size
    if prepared.case.name.startswith("segformer"):
        strides, heads, reductions = (4, 8, 16, 32), (1, 2, 5, 8), (8, 4, 2, 1)
        expected = [
            ((height // strides[s], width // strides[s]), (), heads[s], reductions[s]) for s in range(4) for _ in "ab"
        ]
    else:
        special = (0, 1) if "distilled" in prepared.case.name else (0,)
        heads = 12 if "base" in prepared.case.name else 3
        expected = [((height // 16, width // 16), special, heads, 1)] * 12

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
