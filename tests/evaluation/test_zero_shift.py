"""The zero shift: the model stays the same function of the photograph, maps that hang on zero are found out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import gradskip_onnx
from gradskip_onnx import api
from gradskip_onnx.datasets import load
from gradskip_onnx.demo import demo_model
from gradskip_onnx.errors import InputError, UnsupportedModelError
from gradskip_onnx.evaluation import choose_method, choose_metric
from gradskip_onnx.evaluation.forward import Forward
from gradskip_onnx.evaluation.moved_zero import moved_images, with_moved_zero
from gradskip_onnx.evaluation.same_function import largest_difference
from gradskip_onnx.images.preprocess import prepare
from gradskip_onnx.types import Array
from tests.support.altered_models import first
from tests.support.evaluation_data import PREPROCESS, SIDE
from tests.support.models import Vit, vit

OTHER = replace(PREPROCESS, mean=(0.1, 0.9, 0.4), std=(1.0, 0.2, 0.5))
IMAGES = np.random.default_rng(4).standard_normal((2, 3, SIDE, SIDE)).astype(np.float32)
PATCH, GRID, WIDTH = 8, 4, 12
ROUNDING = 1e-4  # of scores near 1: sums of a few hundred float32 numbers near 10, then three blocks


def embedding(model: onnx.ModelProto) -> onnx.NodeProto:
    return first(model, "Conv")


def stored(model: onnx.ModelProto, name: str) -> onnx.TensorProto:
    found: onnx.TensorProto = next(tensor for tensor in model.graph.initializer if tensor.name == name)
    return found


def plain() -> onnx.ModelProto:
    return vit(Vit(depth=3))


def channels_last() -> onnx.ModelProto:
    return vit(Vit(depth=3, channels_last=True))


def without_bias() -> onnx.ModelProto:
    model = plain()
    embedding(model).input.pop()
    return model


def by_matrix(op: str, transposed: bool = False) -> onnx.ModelProto:
    """Patches as rows of numbers, the three of a pixel side by side, times a matrix."""
    model = plain()
    conv, reshape, transpose = model.graph.node[:3]
    assert [node.op_type for node in (conv, reshape, transpose)] == ["Conv", "Reshape", "Transpose"]
    W = numpy_helper.to_array(stored(model, conv.input[1])).transpose(2, 3, 1, 0).reshape(-1, WIDTH)
    shapes = {"split": [-1, 3, GRID, PATCH, GRID, PATCH], "rows": [-1, W.shape[0]], "tokens": [-1, GRID**2, WIDTH]}
    tensors = {name: np.array(shape, np.int64) for name, shape in shapes.items()}
    tensors["matrix"] = np.ascontiguousarray(W.T if transposed else W)
    model.graph.initializer.extend(numpy_helper.from_array(values, name) for name, values in tensors.items())
    nodes = [
        helper.make_node("Reshape", ["image", "split"], ["pieces"]),
        helper.make_node("Transpose", ["pieces"], ["ordered"], perm=[0, 2, 4, 3, 5, 1]),
        helper.make_node("Reshape", ["ordered", "rows"], ["flat"]),
    ]
    if op == "Gemm":
        nodes.append(helper.make_node("Gemm", ["flat", "matrix", conv.input[2]], ["embedded"], transB=int(transposed)))
    else:
        nodes.append(helper.make_node("MatMul", ["flat", "matrix"], ["product"]))
        nodes.append(helper.make_node("Add", [conv.input[2], "product"], ["embedded"]))
    nodes.append(helper.make_node("Reshape", ["embedded", "tokens"], list(transpose.output)))
    rest = list(model.graph.node)[3:]
    del model.graph.node[:]
    model.graph.node.extend([*nodes, *rest])
    return model


def opened(model: onnx.ModelProto) -> api.Explainer:
    return api.load(model.SerializeToString(), preprocess=PREPROCESS, threads=1)


FOLDED: dict[str, Callable[[], onnx.ModelProto]] = {
    "convolution": plain,
    "channels last": channels_last,
    "no bias": without_bias,
    "MatMul and Add": lambda: by_matrix("MatMul"),
    "Gemm": lambda: by_matrix("Gemm"),
    "Gemm, transposed": lambda: by_matrix("Gemm", transposed=True),
}


@pytest.mark.parametrize("name", FOLDED)
def test_the_model_stays_the_same_function(name: str):
    explainer = opened(FOLDED[name]())
    before = Forward(explainer).logits(IMAGES)
    moved = with_moved_zero(explainer, OTHER)
    after = Forward(moved).logits(moved_images(IMAGES, PREPROCESS, OTHER))

    np.testing.assert_allclose(after, before, atol=ROUNDING)
    assert np.abs(Forward(moved).logits(IMAGES) - before).max() > 0.01  # of other numbers it is another one
    np.testing.assert_array_equal(Forward(explainer).logits(IMAGES), before)  # the first one is left alone


def test_the_spellings_are_one_model():
    """Or the test above would say nothing about matrices."""
    one, *others = (Forward(opened(FOLDED[name]())).logits(IMAGES) for name in FOLDED if name not in ("no bias",))
    for other in others:
        np.testing.assert_allclose(other, one, atol=ROUNDING)


def test_images_are_normalised_otherwise():
    pixels = IMAGES * np.float32(0.25) + np.float32(0.5)
    mean, std = (np.array(values, np.float32)[:, None, None] for values in (OTHER.mean, OTHER.std))

    np.testing.assert_allclose(moved_images(IMAGES, PREPROCESS, OTHER), (pixels - mean) / std, atol=1e-5)


def overlapping(pads: tuple[int, ...]) -> onnx.ModelProto:
    """Patches of 10 pixels, 8 apart: with one pixel more on every side there are as many as before."""
    model = plain()
    conv = embedding(model)
    wide = 0.1 * np.random.default_rng(0).standard_normal((WIDTH, 3, PATCH + 2, PATCH + 2))
    stored(model, conv.input[1]).CopyFrom(numpy_helper.from_array(wide.astype(np.float32), conv.input[1]))
    del conv.attribute[:]
    conv.attribute.extend([helper.make_attribute("strides", [PATCH] * 2), helper.make_attribute("pads", pads)])
    return model


def before_the_embedding(model: onnx.ModelProto, node: onnx.NodeProto, tensor: onnx.TensorProto) -> onnx.ModelProto:
    embedding(model).input[0] = node.output[0]
    model.graph.initializer.append(tensor)
    model.graph.node.insert(0, node)
    return model


def padded() -> onnx.ModelProto:
    pads = numpy_helper.from_array(np.array([0, 0, 1, 1, 0, 0, 1, 1]), "pads")
    return before_the_embedding(overlapping((0,) * 4), helper.make_node("Pad", ["image", "pads"], ["wide"]), pads)


def scaled() -> onnx.ModelProto:
    factor = numpy_helper.from_array(np.array(2, np.float32), "factor")
    doubling = helper.make_node("Mul", ["image", "factor"], ["twice"], name="doubling")
    return before_the_embedding(plain(), doubling, factor)


def in_half_precision() -> onnx.ModelProto:
    model = plain()
    conv = embedding(model)
    for name in conv.input[1:]:
        tensor = stored(model, name)
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), name))
    nodes = [
        helper.make_node("Cast", ["image"], ["short"], to=onnx.TensorProto.FLOAT16),
        helper.make_node("Cast", ["embedded"], [conv.output[0]], to=onnx.TensorProto.FLOAT),
    ]
    conv.input[0], conv.output[0] = "short", "embedded"
    model.graph.node.insert(0, nodes[0])
    model.graph.node.insert(2, nodes[1])
    return model


def read_twice() -> onnx.ModelProto:
    """The embedding plus itself: two products read the image."""
    model = plain()
    conv = embedding(model)
    again = onnx.NodeProto()
    again.CopyFrom(conv)
    again.name, again.input[2] = "again", ""
    total = helper.make_node("Add", ["one", "two"], [conv.output[0]])
    conv.output[0], again.output[0] = "one", "two"
    model.graph.node.insert(1, again)
    model.graph.node.insert(2, total)
    return model


REFUSED: dict[str, Callable[[], onnx.ModelProto]] = {
    "pads the image with zeros": lambda: overlapping((1,) * 4),
    "the image is padded before it": padded,
    "Mul 'doubling'.*only Conv, MatMul, Gemm": scaled,
    "not stored floats of its own": in_half_precision,
    "2 nodes compute with pixels": read_twice,
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_folded_is_refused(message: str):
    with pytest.raises(UnsupportedModelError, match=message):
        with_moved_zero(opened(REFUSED[message]()), OTHER)


def test_maps_that_hang_on_zero_are_found_out():
    explainer = gradskip_onnx.load(demo_model(), threads=1)
    images = np.stack([prepare(entry.read(), explainer.preprocess)[0] for entry in load("planted:2").entries])
    targets = [top[0].index for top in explainer.classify(images)]
    choice: Any = choose_metric("zero-shift")

    def differences(method: str) -> Array:
        found = choice.row.measure(explainer, choose_method(method), images, targets, "logit", choice.options)
        return np.array([one.numbers["difference"] for one in found])

    assert differences("gradskip+").max() < 1e-3
    assert differences("pe-lrp").min() > 0.05


def test_a_wrong_fold_is_no_measurement(monkeypatch):
    monkeypatch.setattr("gradskip_onnx.evaluation.zero_shift.with_moved_zero", lambda explainer, _: explainer)
    choice: Any = choose_metric("zero-shift")
    with pytest.raises(UnsupportedModelError, match=r"scores up to .* differ by"):
        choice.row.measure(opened(plain()), choose_method("rollout"), IMAGES, [0, 1], "logit", choice.options)


def test_the_preprocessing_of_the_model_moves_nothing():
    choice: Any = choose_metric("zero-shift", mean=PREPROCESS.mean[0], std=PREPROCESS.std[0])
    with pytest.raises(InputError, match=r"mean 0\.5 and deviation 0\.25 are the model"):
        choice.row.measure(opened(plain()), choose_method("rollout"), IMAGES, [0, 1], "logit", choice.options)


def test_differences_by_hand():
    one = np.array([[0.0, 2.0], [-4.0, 1.0]])

    assert largest_difference(one, 10 * one) == 0  # the scale of a map says nothing
    assert largest_difference(one, -one) == 2
    assert largest_difference(one, np.array([[0.0, 2.0], [-4.0, 3.0]])) == 0.5
    assert largest_difference(one, np.zeros((2, 2))) == 1
    assert largest_difference(np.zeros((2, 2)), np.zeros((2, 2))) == 0
