"""What people have as images: every kind gives the same answer."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gradskip_onnx
from gradskip_onnx.errors import InputError, PreprocessingWarning
from gradskip_onnx.images.read import open_picture
from gradskip_onnx.types import Array
from tests.support.models import Vit, vit

from .pictures import BATCHED, floats, pixels, png


class Tensor:
    """What other libraries hold arrays in."""

    def __init__(self, values: Array) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self.values

    def __iter__(self) -> Iterator[Array]:
        return iter(self.values)


class Exchanged:
    """A tensor that has no `__array__`, only the protocol by which libraries exchange memory."""

    def __init__(self, values: Array) -> None:
        self.values = values.copy()

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[Any, int]:
        return self.values.__dlpack_device__()


class OnDevice:
    """As PyTorch has them: part of a gradient, on a device, and NumPy gets neither."""

    def __init__(self, values: Array, cut: bool = False) -> None:
        self.values, self.cut = values, cut

    def detach(self) -> OnDevice:
        return OnDevice(self.values, True)

    def cpu(self) -> Any:
        return Tensor(self.values) if self.cut else Elsewhere()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


class Elsewhere:
    """A tensor that does not leave its device."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


KINDS: dict[str, Callable[[Path], Any]] = {
    "text": str,
    "path": lambda path: path,
    "bytes": lambda path: path.read_bytes(),
    "bytearray": lambda path: bytearray(path.read_bytes()),
    "PIL image": Image.open,
    "picture": open_picture,
    "open file": lambda path: path.open("rb"),
    "file in memory": lambda path: io.BytesIO(path.read_bytes()),
    "pixels": lambda path: np.asarray(Image.open(path)),
    "strided pixels": lambda path: np.asarray(Image.open(path))[::-1][::-1],
    "tensor of pixels": lambda path: Tensor(np.asarray(Image.open(path))),
    "channels first": lambda path: np.asarray(Image.open(path)).transpose(2, 0, 1),
    "with transparency": lambda path: np.asarray(Image.open(path).convert("RGBA")),
    "exchanged memory": lambda path: Exchanged(np.asarray(Image.open(path))),
    "tensor on a device": lambda path: OnDevice(np.asarray(Image.open(path))),
}


@pytest.mark.parametrize("kind", KINDS)
def test_one_image_of_any_kind(explainer, tmp_path, kind):
    (tmp_path / "a.png").write_bytes(png(pixels()))
    expected = explainer.explain(tmp_path / "a.png")
    found = explainer.explain(KINDS[kind](tmp_path / "a.png"))

    assert found.map.shape == (40, 60)
    np.testing.assert_array_equal(found.map, expected.map)
    assert explainer.classify(KINDS[kind](tmp_path / "a.png")) == explainer.classify(tmp_path / "a.png") == expected.top


def test_grey_pixels_are_a_grey_image(explainer):
    grey = pixels(size=(40, 60))

    np.testing.assert_array_equal(explainer.explain(grey).map, explainer.explain(Image.fromarray(grey)).map)


@pytest.mark.parametrize("wrap", [lambda values: values, Tensor], ids=["array", "tensor"])
def test_preprocessed_floats(explainer, wrap):
    """Without a batch axis it is one image, with one a list."""
    batch = floats(3, 3, 32, 32)
    many, one = explainer.explain(wrap(batch)), explainer.explain(wrap(batch[0]))

    assert len(many) == 3
    assert one.map.shape == (32, 32)
    np.testing.assert_allclose(one.map, many[0].map, **BATCHED)
    np.testing.assert_array_equal(one.map, explainer.explain(wrap(batch[:1]))[0].map)
    assert [each[0].index for each in explainer.classify(wrap(batch))] == [each.top[0].index for each in many]


REFUSED: dict[str, tuple[Any, str]] = {
    "channels first or last": (pixels(size=(3, 40, 3)), r"\(3, 40, 3\) and type uint8 may have.*PIL image"),
    "two channels": (pixels(size=(40, 60, 2)), r"\(40, 60, 2\) and type uint8.*\(H, W, 3\)"),
    "an input with channels last": (floats(32, 32, 3), r"give array\.transpose\(2, 0, 1\).*floats \(3, 32, 32\)"),
    "pixels of 0 to 1": (np.abs(floats(3, 40, 60)), r"give \(array \* 255\)"),
    "pixels as whole numbers": (np.zeros((40, 60, 3), np.int64), r"give array\.astype\('uint8'\)"),
    "floats as from a camera": (floats(40, 60, 3), r"\(40, 60, 3\) and type float32.*floats \(3, 32, 32\)"),
    "another size": (floats(3, 16, 32), r"\(3, 16, 32\)"),
    "a batch of floats of another size": (floats(2, 3, 40, 60), r"\(2, 3, 40, 60\) and type float32"),
    "an open text file": (io.StringIO("cat"), "gave str and not bytes; open it in binary mode"),
    "whole numbers": (np.zeros((1, 3, 32, 32), np.int64), "int64"),
    "a vector": (floats(3), r"\(3,\)"),
    "no pixels": (pixels(size=(0, 60, 3)), "empty image"),
    "no image in a batch": (floats(0, 3, 32, 32), "holds no image"),
    "texts": (np.array(["a.png", "b.png"]), r"\(2,\) and type <U5"),
    "a number": (3, "int is no image; give a path"),
    "nothing": (None, "NoneType is no image"),
    "not finite": (np.full((3, 32, 32), np.nan, np.float32), "NaN"),
    "bytes of something else": (b"no image", "not an image"),
    "another device": (Elsewhere(), "Elsewhere cannot become a NumPy array .*cuda"),
    "a list in a list": ([[1, 2, 3]], r"image( 1)?: list is no image"),
    "a batch in a list": ([pixels(), floats(2, 3, 32, 32)], r"image 2: an array of shape \(2, 3, 32, 32\)"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_image_is_refused(explainer, case):
    """What it is, and what would have been one, in a single InputError; `classify` says the same."""
    given, message = REFUSED[case]
    for call in (explainer.explain, explainer.classify):
        with pytest.raises(InputError, match=message):
            call(given)


@pytest.mark.parametrize("shape", [(2, 40, 60, 3), (2, 3, 40, 60)], ids=str)
def test_a_batch_of_pixels_is_a_list(explainer, shape):
    batch = pixels(size=shape)
    found = explainer.explain(batch)

    assert [each.map.shape for each in found] == [(40, 60)] * 2
    for each, alone in zip(found, batch, strict=True):
        np.testing.assert_array_equal(each.map, explainer.explain(alone).map)


@pytest.mark.parametrize("top", [1.0, 255.0])
def test_floats_that_look_like_pixels(explainer, top):
    """Used as they are, as documented; but said."""
    values = np.random.default_rng(0).uniform(0, top, (3, 32, 32)).astype(np.float32)
    with pytest.warns(PreprocessingWarning, match=r"look like pixels.*uint8 \(H, W, 3\)"):
        explainer.explain(values)


def test_floats_that_look_preprocessed_are_taken_silently(explainer):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        explainer.explain(floats(3, 32, 32))
        explainer.explain(np.zeros((3, 32, 32)))


@pytest.mark.torch
def test_tensors_of_torch(explainer):
    """Pixels as torchvision reads them, preprocessed floats of any width, and part of a gradient."""
    torch = pytest.importorskip("torch")
    image, values = pixels(size=(3, 40, 60)), floats(2, 3, 32, 32)

    np.testing.assert_array_equal(explainer.explain(torch.from_numpy(image)).map, explainer.explain(image).map)
    expected = explainer.explain(values)
    for tensor in (torch.from_numpy(values), torch.from_numpy(values).double().requires_grad_()):
        for found, each in zip(explainer.explain(tensor), expected, strict=True):
            np.testing.assert_array_equal(found.map, each.map)
    assert len(explainer.explain(list(torch.from_numpy(values)))) == 2
    with pytest.raises(InputError, match="BFloat16"):
        explainer.explain(torch.zeros(3, 32, 32, dtype=torch.bfloat16))


def test_a_model_that_takes_no_pictures():
    explainer = gradskip_onnx.load(vit(Vit(channels=4)).SerializeToString())
    with pytest.raises(InputError, match=r"4 channels.*floats \(4, 32, 32\)"):
        explainer.explain(pixels())
    assert explainer.explain(floats(4, 32, 32)).map.shape == (32, 32)
