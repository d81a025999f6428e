"""Images are untrusted: every broken one is one line, every good one becomes upright RGB."""

import numpy as np
import pytest
from PIL import Image

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.preprocess import Preprocess, prepare
from gradskip_onnx.images.read import decode, open_picture, upright_rgb
from gradskip_onnx.limits import PIXELS
from tests.support.photographs import encode, picture, png_header

# --- untrusted images ----------------------------------------------------------------------------------------------


BAD_FILES = [
    ("gigantic", png_header(12_000, 12_000), r"144000000 pixels.*limit 100000000"),
    ("bomb", png_header(60_000, 60_000), r"3600000000 pixels.*100000000|100000000.*3600000000"),
    ("truncated", encode(picture(64, 64))[:-900], "broken image"),
    ("truncated-jpeg", encode(picture(64, 64), "JPEG")[:-300], "broken image"),
    ("text", b"hello, I am no image", "not an image"),
    ("empty", b"", "not an image"),
    ("eps", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n", "not an image"),
    ("bad-header", b"\x89PNG\r\n\x1a\n" + b"\x00" * 40, "image"),
]


@pytest.mark.parametrize(("name", "data", "message"), BAD_FILES, ids=[row[0] for row in BAD_FILES])
def test_bad_images_are_named_in_one_line(tmp_path, name, data, message, recwarn):
    path = tmp_path / f"{name}.png"
    path.write_bytes(data)
    with pytest.raises(InputError, match=message) as caught:
        open_picture(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not recwarn.list


def test_missing_image_and_folder(tmp_path):
    for path in (tmp_path / "none.png", tmp_path):
        with pytest.raises(InputError, match=path.name):
            open_picture(path)


def test_limit_is_above_what_cameras_make():
    assert PIXELS.default >= 8192 * 12288 * 0.9


@pytest.mark.parametrize("fmt", ["PNG", "WEBP", "TIFF", "GIF"])
def test_a_raised_limit_goes_beyond_that_of_pillow(monkeypatch, fmt):
    """Pillow refuses twice its own bound; whoever raises ours means both, and everybody else still has Pillow's."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 500)
    data = encode(picture(64, 64), fmt)
    with pytest.raises(InputError, match="too large"):
        decode(data, "x")
    monkeypatch.setenv(PIXELS.variable, str(2 * PIXELS.default))
    assert decode(data, "x").size == (64, 64)
    assert Image.MAX_IMAGE_PIXELS == 500
    with pytest.raises(InputError, match=f"limit {2 * PIXELS.default}"):
        decode(png_header(60_000, 60_000), "x")
    assert Image.MAX_IMAGE_PIXELS == 500


def test_exif_orientation_is_applied():
    image = picture(20, 30)
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned; viewers rotate by 270 degrees
    turned = decode(encode(image, "PNG", exif=exif), "x")
    np.testing.assert_array_equal(np.asarray(turned), np.asarray(image.transpose(Image.Transpose.ROTATE_270)))
    _, geometry = prepare(turned, Preprocess(size=(8, 8), crop=1.0))
    assert geometry.image_size == (30, 20)


def test_broken_exif_is_no_orientation():
    image = picture(20, 30)
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encode(image, "JPEG", exif=exif)
    spoilt = decode(data.replace(b"MM\x00*", b"MM\x00\xf5"), "x")
    assert prepare(spoilt, Preprocess(size=(8, 8), crop=1.0))[1].image_size == (20, 30)


def test_changed_bytes_never_escape_as_another_error():
    rng = np.random.default_rng(11)
    seeds = [encode(picture(24, 30), fmt) for fmt in ("PNG", "JPEG", "GIF", "TIFF", "WEBP", "BMP", "PPM")]
    outcomes = set()
    for trial in range(700):
        data = bytearray(seeds[trial % len(seeds)])
        for position in rng.integers(0, min(len(data), (40, 200, len(data))[trial % 3]), 1 + trial % 5):
            data[position] = rng.integers(256)
        try:
            outcomes.add(decode(bytes(data), "x").mode)
        except InputError:
            outcomes.add("refused")
    assert outcomes == {"RGB", "refused"}


def test_modes_become_rgb():
    grey = np.arange(0, 256, dtype=np.uint8).reshape(16, 16)
    expected = np.repeat(grey[..., None], 3, axis=2)
    rgba = np.dstack([expected, np.full_like(grey, 255)])
    table = {
        "L": Image.fromarray(grey),
        "LA": Image.fromarray(np.dstack([grey, np.full_like(grey, 255)])),
        "RGBA": Image.fromarray(rgba),
        "P": Image.fromarray(grey).convert("P"),
        "I;16": Image.fromarray(grey.astype(np.uint16) * 257),
        "I": Image.fromarray(grey.astype(np.int32)),
        "F": Image.fromarray(grey.astype(np.float32) / 255),
    }
    for mode, image in table.items():
        np.testing.assert_array_equal(np.asarray(upright_rgb(image)), expected, err_msg=mode)
    assert decode(encode(table["I;16"]), "x").getpixel((15, 15)) == (255, 255, 255)


def test_transparency_shows_white():
    image = Image.new("RGBA", (4, 4), (10, 20, 30, 0))
    assert upright_rgb(image).getpixel((0, 0)) == (255, 255, 255)


def test_impossible_grey_values_are_refused():
    for values in ([[np.nan, 1.0]], [[-5.0, 1.0]], [[1e9, 0.0]]):
        with pytest.raises(InputError, match="grey values"):
            upright_rgb(Image.fromarray(np.array(values, np.float32)))


def test_animation_gives_its_first_frame():
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    data = encode(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert decode(data, "x").getpixel((0, 0)) == (255, 0, 0)
