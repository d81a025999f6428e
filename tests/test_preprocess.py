"""Images in, model inputs out: against torchvision, bit by bit, and against files that mean harm."""

import io
import json
import struct
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from gradskip_onnx.errors import InputError
from gradskip_onnx.images import MAX_PIXELS, decode, open_picture, upright_rgb
from gradskip_onnx.labels import read_labels
from gradskip_onnx.preprocess import PRESETS, Geometry, Preprocess, denormalise, prepare, resolve
from gradskip_onnx.sidecar import beside, from_hugging_face, from_timm

TWO_LEVELS = 2 / 255 / 0.5 + 1e-6  # the torchvision back end of Hugging Face rounds its kernel differently from Pillow
PLACEMENT = 1e-5  # float32 products of interpolation weights


def picture(height: int, width: int, seed: int = 0) -> Image.Image:
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (max(2, height // 9), max(2, width // 7), 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


def encode(image: Image.Image, fmt: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, fmt, **options)
    return buffer.getvalue()


# --- prepare against torchvision -----------------------------------------------------------------------------------


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


# --- untrusted images ----------------------------------------------------------------------------------------------


def png_header(width: int, height: int) -> bytes:
    """A valid PNG start that claims a size; the pixels are missing."""
    body = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + body
    return (
        b"\x89PNG\r\n\x1a\n"
        + struct.pack(">I", 13)
        + chunk
        + struct.pack(">I", zlib.crc32(chunk))
        + struct.pack(">I", 4)
        + b"IDAT\x78\x9c\x00\x00"
        + struct.pack(">I", 0)
    )


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
    assert MAX_PIXELS >= 8192 * 12288 * 0.9


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


# --- settings ------------------------------------------------------------------------------------------------------


def test_json_round_trip():
    settings = Preprocess(size=(96, 64), crop=0.9, resize="stretch", interpolation="bilinear", **PRESETS["clip"])
    assert Preprocess.from_json(json.loads(json.dumps(settings.to_json()))) == settings


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
    {"channels": "cmyk"},
    {"source": 3},
    {"unknown": 1},
    [],
    None,
]


@pytest.mark.parametrize("document", BAD_SETTINGS, ids=str)
def test_bad_settings_are_refused(document):
    with pytest.raises(InputError, match="preprocessing"):
        Preprocess.from_json(document)


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


# --- files beside the model ----------------------------------------------------------------------------------------

HALF = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
HUGGING_FACE = [
    ("vit", {"size": {"height": 224, "width": 224}, "resample": 2, **HALF}, ((224, 224), 1.0, "stretch", "bilinear")),
    ("vit-old", {"size": 224, **HALF}, ((224, 224), 1.0, "stretch", "bilinear")),
    (
        "deit",
        {"size": {"height": 256, "width": 256}, "do_center_crop": True, "crop_size": 224, "resample": 3, **HALF},
        ((224, 224), 0.875, "stretch", "bicubic"),
    ),
    (
        "clip",
        {
            "size": {"shortest_edge": 224},
            "do_center_crop": True,
            "crop_size": {"height": 224, "width": 224},
            "resample": 3,
            **HALF,
        },
        ((224, 224), 1.0, "short-side", "bicubic"),
    ),
    (
        "clip-old",
        {
            "feature_extractor_type": "CLIPFeatureExtractor",
            "size": 224,
            "do_center_crop": True,
            "crop_size": 224,
            **HALF,
        },
        ((224, 224), 1.0, "short-side", "bilinear"),
    ),
    ("segformer", {"size": {"height": 512, "width": 512}, **HALF}, ((512, 512), 1.0, "stretch", "bilinear")),
    (
        "convnext",
        {"size": {"shortest_edge": 224}, "crop_pct": 0.875, "resample": 3, **HALF},
        ((224, 224), 0.875, "short-side", "bicubic"),
    ),
]


@pytest.mark.parametrize(("name", "config", "expected"), HUGGING_FACE, ids=[row[0] for row in HUGGING_FACE])
def test_hugging_face_settings(name, config, expected):
    settings = from_hugging_face(config)
    assert (settings.size, settings.crop, settings.resize, settings.interpolation) == expected, name


NORMALISATIONS = [
    ({}, (100 / 255 - 0.5) / 0.5),
    ({"do_normalize": False}, 100 / 255),
    ({"do_rescale": False, "do_normalize": False}, 100.0),
    ({"rescale_factor": 1 / 127.5, "do_normalize": False}, 100 / 127.5),
    ({"do_rescale": False}, (100 - 0.5) / 0.5),
    ({"rescale_factor": 0.00392156862745098}, (100 / 255 - 0.5) / 0.5),
]


@pytest.mark.parametrize(("fields", "expected"), NORMALISATIONS, ids=str)
def test_hugging_face_rescaling(fields, expected):
    settings = from_hugging_face({"size": 8, **HALF, **fields})
    values, _ = prepare(Image.new("RGB", (8, 8), (100, 100, 100)), settings)
    np.testing.assert_allclose(values, expected, rtol=1e-6)


def test_hugging_face_processor_agrees():
    transformers = pytest.importorskip("transformers")
    image = picture(97, 143)
    processor = transformers.ViTImageProcessor(size={"height": 64, "width": 64})
    theirs = processor(image, return_tensors="np")["pixel_values"][0]
    ours, _ = prepare(image, from_hugging_face(json.loads(processor.to_json_string())))
    np.testing.assert_allclose(ours, theirs, atol=TWO_LEVELS)


def test_timm_settings():
    settings = from_timm(
        {"input_size": [3, 240, 320], "crop_pct": 0.9, "interpolation": "bicubic", "mean": [0, 0, 0], "std": [1, 1, 1]}
    )
    assert settings.size == (240, 320)
    assert settings.crop == 0.9
    assert settings.mean == (0.0, 0.0, 0.0)


def write(folder: Path, name: str, document: object) -> None:
    (folder / name).write_text(document if isinstance(document, str) else json.dumps(document))


def test_files_beside_the_model(tmp_path):
    write(tmp_path, "preprocessor_config.json", {"do_normalize": True, "size": 32, **HALF})
    write(tmp_path, "config.json", {"id2label": {"1": "dog", "0": "cat"}})
    found = beside(tmp_path / "model.onnx")
    assert found.labels == ("cat", "dog")
    assert found.preprocess is not None
    assert found.preprocess.size == (32, 32)
    assert found.preprocess.source == "preprocessor_config.json"
    assert beside(tmp_path / "onnx" / "model.onnx") == found
    assert beside(tmp_path / "other" / "model.onnx").preprocess is None
    assert beside(None).labels == ()


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"do_normalize": true, "size": "x"}', '{"do_normalize": true, "image_mean": [1, 2]}', "[" * 100_000,
     '{"do_resize": true, "size": {"longest_edge": 3}}', '{"pretrained_cfg": {"crop_pct": 7}}'],
)  # fmt: skip
def test_unusable_files_beside_the_model_are_reported(tmp_path, text):
    write(tmp_path, "config.json", text)
    found = beside(tmp_path / "model.onnx")
    assert found.preprocess is None
    assert len(found.warnings) == 1
    assert "config.json" in found.warnings[0]


def test_placeholder_labels_are_no_labels(tmp_path):
    write(tmp_path, "config.json", {"id2label": {"0": "LABEL_0", "1": "LABEL_1"}})
    assert beside(tmp_path / "m.onnx").labels == ()


LABEL_FILES = [
    ("a.txt", "cat\ndog\n", ("cat", "dog")),
    ("a.txt", "n01440764 tench, Tinca tinca\nn01443537 goldfish\n", ("tench, Tinca tinca", "goldfish")),
    ("a.json", '["cat", "dog"]', ("cat", "dog")),
    ("a.json", '{"1": "dog", "0": "cat"}', ("cat", "dog")),
    ("a.json", '{"cat": 0, "dog": 2}', ("cat", "", "dog")),
    ("a.json", '{"0": ["n01440764", "tench"]}', ("tench",)),
    ("a.json", '{"id2label": {"0": "cat"}}', ("cat",)),
]


@pytest.mark.parametrize(("name", "text", "expected"), LABEL_FILES, ids=str)
def test_label_files(tmp_path, name, text, expected):
    write(tmp_path, name, text)
    assert read_labels(tmp_path / name) == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.txt", ""), ("a.json", "{"), ("a.json", "3"), ("a.json", '{"x": "y"}'), ("a.json", '{"999999999": "y"}'),
     ("a.json", "[1]"), ("a.json", "{}")],
)  # fmt: skip
def test_bad_label_files(tmp_path, name, text):
    write(tmp_path, name, text)
    with pytest.raises(InputError, match=name):
        read_labels(tmp_path / name)
