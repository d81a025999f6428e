"""PNG files that any reader understands, whichever compressor is there."""

from __future__ import annotations

import io
import zlib

import numpy as np
import pytest
from PIL import Image

from gradskip_onnx.output import png
from gradskip_onnx.output.png import compressor, encode_png


@pytest.mark.parametrize("size", [(1, 1), (1, 7), (9, 1), (33, 20)], ids=str)
@pytest.mark.parametrize("installed", [False, True])
def test_pixels_come_back(size, installed, monkeypatch):
    if installed:
        monkeypatch.setattr(png, "compressor", lambda: pytest.importorskip("isal.isal_zlib").compress)
    else:
        monkeypatch.setattr(png, "compressor", lambda: zlib.compress)
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    with Image.open(io.BytesIO(encode_png(pixels))) as image:
        image.verify()  # checksums
    with Image.open(io.BytesIO(encode_png(pixels))) as image:
        assert (image.format, image.mode) == ("PNG", "RGB")
        np.testing.assert_array_equal(np.asarray(image), pixels)


def test_a_view_of_pixels_is_encoded_as_it_is_seen():
    pixels = np.random.default_rng(0).integers(0, 256, (12, 10, 3), dtype=np.uint8)[::-2, 1::3]
    with Image.open(io.BytesIO(encode_png(pixels))) as image:
        np.testing.assert_array_equal(np.asarray(image), pixels)


def test_smooth_pictures_become_small():
    ramp = np.broadcast_to(np.arange(200, dtype=np.uint8)[:, None, None], (200, 300, 3))
    assert len(encode_png(ramp)) < 3_000


def test_some_compressor_is_there():
    assert zlib.decompress(compressor()(b"abc" * 99, 1)) == b"abc" * 99
