"""Files for a fixed number of images, as torch writes them by default, also after ONNX Runtime optimised them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

import gradskip_onnx
from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.graph.rewrite.lower import HARDWARE
from gradskip_onnx.types import Array
from tests.support.models import Vit, vit
from tests.support.optimised_files import optimised
from tests.support.relevance import assert_same, explain

FIXTURES = Path(__file__).parent.parent / "fixtures"
LEVELS = ("BASIC", "EXTENDED", "ALL")
READERS = ("Add", "LayerNormalization")  # of the residual stream


# --- fixed batches, optimised by ONNX Runtime -------------------------------------------------------------------------


def with_batch(model: onnx.ModelProto, batch: int) -> onnx.ModelProto:
    """The model as torch writes it by default: for a fixed number of images."""
    for port in (*model.graph.input, *model.graph.output):
        port.type.tensor_type.shape.dim[0].dim_value = batch
    return model


def fixture(name: str) -> onnx.ModelProto:
    return onnx.load(FIXTURES / f"{name}.onnx")


FIXED = {
    "vit": lambda: vit(Vit(batch=1)),
    "vit of two images": lambda: vit(Vit(batch=2)),
    "vit that pools": lambda: vit(Vit(batch=1, pooled=True, decomposed_norm=True)),
    "distilled DeiT": lambda: with_batch(fixture("deit_distilled"), 1),
    "SegFormer": lambda: with_batch(fixture("segformer"), 1),
}


@cache
def unoptimised(name: str) -> Array:
    return explain(FIXED[name]())


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", FIXED)
def test_a_fixed_batch_is_explained_at_every_level_of_optimisation(name: str, level: str, tmp_path: Path):
    model = optimised(FIXED[name](), level, tmp_path)
    if any(node.domain in HARDWARE for node in model.graph.node):  # this machine has layouts of its own
        assert level == "ALL"
        with pytest.raises(UnsupportedModelError, match="hardware-specific"):
            explain(model)
    else:
        assert_same(explain(model), unoptimised(name))


# --- transposes that an optimiser moved -------------------------------------------------------------------------------


def test_a_skip_that_is_transposed_for_the_add_alone_is_still_the_skip():
    """ONNX Runtime lets a norm read the stream as it lies in memory and transposes it for the residual add."""
    model = vit(Vit(batch=1))
    blocks = gradskip_onnx.inspect(model.SerializeToString()).blocks
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        node.input[:] = [
            f"{name}_{node.op_type}" if name in {block.tokens_in for block in blocks} else name for name in node.input
        ]
        nodes.append(node)
        for block in blocks:
            if block.tokens_in in node.output:
                lying = f"{block.tokens_in}_lying"
                ends = [(block.tokens_in, lying), *((lying, f"{block.tokens_in}_{op}") for op in READERS)]
                nodes += [onnx.helper.make_node("Transpose", [a], [b], name=b, perm=[0, 2, 1]) for a, b in ends]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    found = gradskip_onnx.inspect(model.SerializeToString()).blocks

    assert [block.tokens_in for block in found] == [f"{block.tokens_in}_lying" for block in blocks]
    assert {block.tokens_layout for block in found} == {"bdn"}
    assert {block.stage for block in found} == {0}
    assert_same(explain(model), explain(vit(Vit(batch=1))))


# --- a batch that is declared open and is not -------------------------------------------------------------------------


def bound_to_one_image() -> onnx.ModelProto:
    """A vision transformer whose shapes were traced with one image and whose input says otherwise."""
    model = vit(Vit())
    targets = {node.input[1] for node in model.graph.node if node.op_type == "Reshape"}
    for tensor in model.graph.initializer:
        if tensor.name in targets:
            sizes = onnx.numpy_helper.to_array(tensor).copy()
            sizes[0] = 1
            tensor.CopyFrom(onnx.numpy_helper.from_array(sizes, tensor.name))
    return model


def test_an_open_batch_that_takes_one_image_is_explained_image_by_image():
    model = bound_to_one_image()
    explainer = gradskip_onnx.load(model.SerializeToString(), cache=False)
    images = np.random.default_rng(4).standard_normal((3, *explainer.architecture.input_dims)).astype(np.float32)
    free = gradskip_onnx.load(vit(Vit()).SerializeToString(), cache=False)
    (note,) = explainer.architecture.assumptions

    assert "one at a time" in note
    assert "Reshape" in note
    assert explainer.model.image.dims[0] == 1
    for found, expected in zip(explainer.explain(images), free.explain(images), strict=True):
        assert_same(found.relevance.scores, expected.relevance.scores)
    shared, alone = (each.explain(images[0], [0, 1, 2]) for each in (explainer, free))
    for found, expected in zip(shared, alone, strict=True):
        assert_same(found.relevance.scores, expected.relevance.scores)
