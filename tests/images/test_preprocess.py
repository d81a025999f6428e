"""From an image to the model's input: equal to torchvision, placed back exactly, settings in their order."""

import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.preprocess import PRESETS, Geometry, Preprocess, denormalise, prepare, resized, resolve
from tests.support.photographs import picture

PLACEMENT = 1e-5  # float32 products of interpolation weights


# --- prepare against torchvision -----------------------------------------------------------------------------------


@pytest.mark.torch
@pytest.mark.parametrize("crop", [1.0, 0.9, 0.875, 224 / 232])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "nearest"])
@pytest.mark.parametrize(("height", "width"), [(301, 457), (457, 301), (224, 224), (97, 64), (500, 333), (33, 301)])
def test_short_side_equals_torchvision(height, width, interpolation, crop):
    transforms = pytest.importorskip("torchvision.transforms")
    image = picture(height, width)
    settings = Preprocess(size=(224, 224), crop=crop, interpolation=interpolation)
    reference = transforms.Compose(
        [
            transforms.Resize(
                int(224 / crop + 1e-6), interpolation=transforms.InterpolationMode(interpolation), antialias=True
            ),
            transforms.CenterCrop(224),
            transforms.ToTensor(),
            transforms.Normalize(settings.mean, settings.std),
        ]
    )
    values, _ = prepare(image, settings)
    assert values.dtype == np.float32
    assert values.shape == (3, 224, 224)
    np.testing.assert_array_equal(values, reference(image).numpy())


@pytest.mark.torch
def test_stretch_equals_torchvision():
    transforms = pytest.importorskip("torchvision.transforms")
    image = picture(120, 301)
    reference = transforms.Compose([transforms.Resize((64, 96)), transforms.ToTensor()])
    settings = Preprocess(size=(64, 96), crop=1.0, resize="stretch", interpolation="bilinear", **PRESETS["none"])
    values, geometry = prepare(image, settings)
    np.testing.assert_array_equal(values, reference(image).numpy())
    assert geometry.box == (0, 0, 301, 120)


@pytest.mark.parametrize(("height", "width"), [(100, 400), (400, 100), (64, 96), (3, 300)])
def test_oblong_input_is_covered(height, width):
    values, geometry = prepare(picture(height, width), Preprocess(size=(64, 96), crop=1.0))
    assert values.shape == (3, 64, 96)
    x0, y0, x1, y1 = geometry.box
    assert x0 >= 0
    assert y0 >= 0
    assert x1 <= width
    assert y1 <= height
    assert (x1 - x0) / (y1 - y0) == pytest.approx(1.5, rel=0.02)


def test_elongated_image_is_refused_before_memory_is_spent():
    with pytest.raises(InputError, match="elongated"):
        prepare(Image.new("RGB", (60_000, 1)), Preprocess())


def test_bgr_and_back():
    image = picture(32, 32)
    settings = Preprocess(size=(32, 32), crop=1.0, channels="bgr")
    values, _ = prepare(image, settings)
    same, _ = prepare(image, replace(settings, channels="rgb", mean=settings.mean[::-1], std=settings.std[::-1]))
    np.testing.assert_array_equal(values, same[::-1])
    np.testing.assert_array_equal(np.asarray(denormalise(values, settings)), np.asarray(image))


# --- geometry ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("height", "width", "crop"), [(301, 457, 0.875), (90, 60, 0.9), (64, 64, 1.0), (700, 900, 0.5)]
)
def test_place_is_linear_interpolation_over_the_seen_box(height, width, crop):
    settings = Preprocess(size=(56, 56), crop=crop)
    _, geometry = prepare(picture(height, width), settings)
    values = np.random.default_rng(1).random((56, 56)).astype(np.float32)
    placed = geometry.place(values)
    assert placed.shape == (height, width)
    assert placed.dtype == np.float32
    x0, y0, x1, y1 = geometry.box
    rng = np.random.default_rng(2)
    for y, x in zip(rng.integers(0, height, 50), rng.integers(0, width, 50), strict=True):
        if not (y0 <= y + 0.5 <= y1 and x0 <= x + 0.5 <= x1):
            assert placed[y, x] == 0
        elif x1 - x0 >= 56:  # enlarged: the four neighbours, borders repeated
            v = np.clip((y + 0.5 - y0) / (y1 - y0) * 56 - 0.5, 0, 55)
            u = np.clip((x + 0.5 - x0) / (x1 - x0) * 56 - 0.5, 0, 55)
            a, b = min(int(v), 54), min(int(u), 54)
            p, q = v - a, u - b
            corner = values[a : a + 2, b : b + 2].astype(np.float64)
            expected = (1 - p) * ((1 - q) * corner[0, 0] + q * corner[0, 1])
            expected += p * ((1 - q) * corner[1, 0] + q * corner[1, 1])
            assert placed[y, x] == pytest.approx(expected, abs=PLACEMENT)


def test_place_equals_pillow_when_the_whole_image_is_seen():
    values = np.random.default_rng(3).random((40, 30)).astype(np.float32)
    for size in ((90, 77), (11, 9)):
        reference = Image.fromarray(values).resize((size[1], size[0]), Image.Resampling.BILINEAR)
        placed = Geometry(size, (0, 0, size[1], size[0])).place(values)
        np.testing.assert_allclose(placed, np.asarray(reference), atol=PLACEMENT)


def test_a_bright_spot_comes_back_where_it_was():
    image = Image.new("RGB", (400, 250))
    image.paste((255, 255, 255), (230, 120, 250, 140))
    settings = Preprocess(size=(112, 112), crop=0.875, **PRESETS["none"])
    values, geometry = prepare(image, settings)
    placed = geometry.place(values.mean(axis=0))
    y, x = np.unravel_index(placed.argmax(), placed.shape)
    assert 230 <= x < 250
    assert 120 <= y < 140


@pytest.mark.parametrize("size", [(400, 250), (250, 400), (112, 112), (223, 112), (60, 300)], ids=str)
def test_a_padded_image_is_seen_whole(size):
    """Inside it is the resized image, around it the mean colour, and a spot comes back where it was."""
    width, height = size
    image = Image.new("RGB", size, (40, 90, 140))
    spot = (width * 6 // 10, height * 3 // 10, width * 7 // 10 + 1, height * 4 // 10 + 1)
    image.paste((255, 255, 255), spot)
    settings = Preprocess(size=(112, 112), crop=1.0, resize="pad", mean=(0.1, 0.2, 0.3), std=(0.5, 0.5, 0.5))
    values, geometry = prepare(image, settings)
    rows, columns = resized((height, width), settings)

    assert values.shape == (3, 112, 112)
    assert max(rows, columns) == 112
    np.testing.assert_allclose(rows / columns, height / width, rtol=0.2)
    shown = (values != 0).any(axis=0)
    assert shown.sum() == rows * columns
    x0, y0, x1, y1 = geometry.box
    assert max(x0, y0) <= 0
    assert min(x1 - width, y1 - height) >= -1e-6
    bright = geometry.place(np.where(shown, values.mean(axis=0), -9))
    y, x = np.unravel_index(bright.argmax(), bright.shape)
    assert spot[0] <= x < spot[2]
    assert spot[1] <= y < spot[3]


def test_the_pad_colour_is_the_mean_whatever_the_rounding():
    """Sides that differ by one pixel are padded on one side only."""
    settings = Preprocess(size=(32, 32), crop=1.0, resize="pad")
    values, _ = prepare(Image.new("RGB", (32, 31), "white"), settings)

    assert (values == 0).all(axis=(0, 2)).sum() == 1


# --- settings ------------------------------------------------------------------------------------------------------


def test_json_round_trip():
    settings = Preprocess(size=(96, 64), crop=0.9, resize="stretch", interpolation="bilinear", **PRESETS["clip"])
    assert Preprocess.from_dict(json.loads(json.dumps(settings.as_dict()))) == settings


BAD_SETTINGS = [
    {"size": [224]},
    {"size": [0, 224]},
    {"size": [10**9, 224]},
    {"size": [2.5, 224]},
    {"size": "224"},
    {"crop": 0},
    {"crop": 1.5},
    {"crop": float("nan")},
    {"crop": True},
    {"mean": [0, 0]},
    {"mean": [0, 0, float("inf")]},
    {"std": [1, 1, 0]},
    {"std": ["1", "1", "1"]},
    {"interpolation": "magic"},
    {"interpolation": ["bilinear"]},
    {"resize": None},
    {"resize": "squash"},
    {"resize": ["pad"]},
    {"mean": "0.5"},
    {"size": True},
    {"channels": "cmyk"},
    {"source": 3},
    {"unknown": 1},
    [],
    None,
]


@pytest.mark.parametrize("document", BAD_SETTINGS, ids=str)
def test_bad_settings_are_refused(document):
    with pytest.raises(InputError, match="preprocessing"):
        Preprocess.from_dict(document)


def test_flags_win_over_metadata_over_sidecar_over_assumption():
    meta = Preprocess(size=(64, 64), crop=0.8, source="metadata")
    side = Preprocess(size=(64, 64), crop=0.7, source="config.json")
    flags = {"mean": (0.1, 0.1, 0.1)}
    both, warnings = resolve(flags=flags, metadata=meta, sidecar=side, input_size=(64, 64))
    assert (both.crop, both.mean, warnings) == (0.8, (0.1, 0.1, 0.1), ())
    assert both.source == "mean: command line; other: metadata"
    only, _ = resolve(flags={}, metadata=None, sidecar=side, input_size=(64, 64))
    assert only == side
    none, warnings = resolve(flags={}, metadata=None, sidecar=None, input_size=(64, 64))
    assert none.size == (64, 64)
    assert len(warnings) == 1
    assert "assumed mean 0.485 0.456 0.406" in warnings[0]
    whole, warnings = resolve(flags={"resize": "pad"}, metadata=None, sidecar=None, input_size=(64, 64))
    assert whole.crop == 1.0
    assert "crop 1.0" in warnings[0]
    said, warnings = resolve(flags={**PRESETS["half"], "crop": 1.0}, metadata=None, sidecar=None, input_size=(64, 64))
    assert warnings == ()
    assert said.mean == (0.5, 0.5, 0.5)


def test_the_model_decides_its_size():
    meta = Preprocess(size=(64, 64), source="metadata")
    with pytest.raises(InputError, match="32x32 only"):
        resolve(flags={"size": (64, 64)}, metadata=None, sidecar=None, input_size=(32, 32))
    settings, warnings = resolve(flags={}, metadata=meta, sidecar=None, input_size=(32, 32))
    assert settings.size == (32, 32)
    assert "32x32, not 64x64 as in metadata" in warnings[0]
    settings, warnings = resolve(flags={"size": (48, 80)}, metadata=meta, sidecar=None, input_size=None)
    assert settings.size == (48, 80)
    assert warnings == ()
    _, warnings = resolve(flags={"crop": 1.0, **PRESETS["none"]}, metadata=None, sidecar=None, input_size=None)
    assert "assumed 224x224" in warnings[0]
