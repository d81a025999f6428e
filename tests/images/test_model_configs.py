"""Settings and labels from files beside the model, as several tools write them."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.labels import read_labels
from gradskip_onnx.images.model_configs import beside, from_hugging_face, from_timm
from gradskip_onnx.images.preprocess import prepare
from tests.support.photographs import picture

TWO_LEVELS = 2 / 255 / 0.5 + 1e-6  # the torchvision back end of Hugging Face rounds its kernel differently from Pillow


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
        ((224, 224), 1.0, "shorter", "bicubic"),
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
        ((224, 224), 1.0, "shorter", "bilinear"),
    ),
    ("segformer", {"size": {"height": 512, "width": 512}, **HALF}, ((512, 512), 1.0, "stretch", "bilinear")),
    (
        "convnext",
        {"size": {"shortest_edge": 224}, "crop_pct": 0.875, "resample": 3, **HALF},
        ((224, 224), 0.875, "shorter", "bicubic"),
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


@pytest.mark.torch
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
