"""Preprocessing in the graph beside Pillow: the same bytes, but for a level here and there."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from PIL import Image

import gradskip_onnx
from gradskip_onnx.errors import InputError
from gradskip_onnx.images.preprocess import Preprocess, prepare
from gradskip_onnx.ingraph.pixels_inside import FILTERS, write_pixels
from gradskip_onnx.runtime.session import open_session
from gradskip_onnx.types import Array
from tests.support.models import Vit, vit

SIZE = (32, 48)
LEVEL = 1.01  # of 255: Pillow's weights have 22 bits, and a sum near a half may be rounded to either side
SELDOM = 0.06  # share of the values where it is, of noise: a mean of two bytes often ends in a half


def prepared(image: Array, preprocess: Preprocess, opset: int = 17) -> Array:
    explainer = gradskip_onnx.load(vit(Vit(size=SIZE)).SerializeToString(), preprocess="half")
    found = write_pixels(explainer.architecture, explainer.model.image, opset, 8, preprocess, "pixels")
    output = helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, [1, 3, *SIZE])
    graph = helper.make_graph(list(found.nodes), "pixels", [found.image], [output], list(found.constants))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return np.asarray(open_session(model, None, "cpu").run(["image"], {"pixels": image})["image"][0])


@pytest.mark.parametrize("size", [(32, 48), (70, 300), (20, 24), (331, 257)])
@pytest.mark.parametrize("kind", FILTERS)
@pytest.mark.parametrize("settings", [{}, {"resize": "stretch"}, {"channels": "bgr", "crop": 0.9}], ids=str)
def test_as_pillow(size: tuple[int, int], kind: str, settings: dict[str, Any]):
    how = {"size": SIZE, "mean": (0.4, 0.5, 0.6), "std": (0.2, 0.3, 0.25), "interpolation": kind, "crop": 1.0}
    preprocess = Preprocess(**{**how, **settings})
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    expected, _ = prepare(Image.fromarray(pixels), preprocess)
    levels = np.abs(prepared(pixels, preprocess) - expected) * np.reshape(preprocess.std, (3, 1, 1)) * 255

    assert levels.max() <= LEVEL
    assert (levels > 0.5).mean() <= SELDOM


def test_the_newest_opset():
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    preprocess = Preprocess(size=SIZE)

    assert np.abs(prepared(pixels, preprocess, 21) - prepared(pixels, preprocess)).max() == 0


@pytest.mark.parametrize("settings", [{"resize": "pad"}, {"interpolation": "hamming"}], ids=str)
def test_what_has_no_operators_is_refused(settings: dict[str, Any]):
    with pytest.raises(InputError, match="preprocessing inside"):
        prepared(np.zeros((8, 8, 3), np.uint8), Preprocess(size=SIZE, **settings))
