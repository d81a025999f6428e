"""Reads the configuration files beside a model: preprocessor_config.json and config.json of Hugging Face and timm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gradskip_onnx.errors import InputError
from gradskip_onnx.limits import CLASSES, STORED_SIDE
from gradskip_onnx.types import Size

from .labels import from_json, read_json
from .preprocess import INTERPOLATIONS, Preprocess

# Image processors that read a single number as the short side; all others stretch to a square of that side.
SHORT_SIDE_TYPES = ("clip", "siglip2", "convnext", "levit", "poolformer", "mobilevit", "bit", "blip", "chinese_clip")

LARGEST = 1e6  # of means, deviations and factors; pixels have values up to 255
CONVNEXT_STRETCH_FROM = 384  # from this size on, `crop_pct` is not applied and the image is stretched


@dataclass(frozen=True, slots=True)
class Sidecar:
    """Preprocessing, labels and numbers of classes found in the files beside a model."""

    preprocess: Preprocess | None = None
    labels: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    class_counts: tuple[int, ...] = ()  # also where the classes have no names


def beside(model: Path | str | None) -> Sidecar:
    """Preprocessing and labels from the folder of a model file, and from its parent if the folder is called onnx."""
    if model is None:
        return Sidecar()
    folder = Path(model).parent
    found = Sidecar()
    for place in (folder, folder.parent) if folder.name == "onnx" else (folder,):
        for name in ("preprocessor_config.json", "config.json"):
            if (place / name).is_file():
                found = _merge(found, _read(place / name))
    return found


def _merge(first: Sidecar, second: Sidecar) -> Sidecar:
    """Both sidecars as one; the first has priority."""
    return Sidecar(
        first.preprocess or second.preprocess,
        first.labels or second.labels,
        first.warnings + second.warnings,
        first.class_counts + second.class_counts,
    )


def _read(path: Path) -> Sidecar:
    """Read one file; unusable content is a warning and no error, because the file may belong to something else."""
    try:
        document = read_json(path)
        if not isinstance(document, Mapping):
            raise InputError(f"{path}: expected an object")
        labels, counts = _labels(document, path)
        preprocess = _preprocess(document)
    except InputError as error:
        return Sidecar(warnings=(f"ignored {error}" if str(path) in str(error) else f"ignored {path}: {error}",))
    return Sidecar(None if preprocess is None else replace(preprocess, source=path.name), labels, class_counts=counts)


def _labels(document: Mapping[str, Any], path: Path) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Names of the classes, and the numbers of classes that are stated with them or without."""
    timm = document.get("pretrained_cfg")
    places = (document, timm if isinstance(timm, Mapping) else {})
    stated = (place.get(key) for place in places for key in ("num_labels", "num_classes"))
    counts = [count for count in stated if isinstance(count, int) and 1 < count <= CLASSES.amount]
    for place in places:
        for key in ("id2label", "label_names"):
            if place.get(key):
                labels = from_json(place[key], str(path))
                placeholder = all(label == f"LABEL_{index}" for index, label in enumerate(labels))
                return () if placeholder else labels, (len(labels), *counts)
    return (), tuple(counts)


def _preprocess(document: Mapping[str, Any]) -> Preprocess | None:
    if isinstance(document.get("pretrained_cfg"), Mapping):
        return from_timm(document["pretrained_cfg"])
    if any(key in document for key in ("do_normalize", "image_mean", "do_resize", "do_rescale")):
        return from_hugging_face(document)
    return None


def from_timm(config: Mapping[str, Any]) -> Preprocess:
    """Preprocessing from timm's `pretrained_cfg`."""
    values: dict[str, Any] = {"interpolation": config.get("interpolation", "bicubic")}
    if "input_size" in config:
        values["size"] = _pair(config["input_size"][1:] if isinstance(config["input_size"], list) else None)
    if "crop_pct" in config:
        values["crop"] = config["crop_pct"]
    if config.get("crop_mode") == "squash":
        values["resize"] = "stretch"
    for name in ("mean", "std"):
        if name in config:
            values[name] = _triple(config[name])
    return Preprocess(**values)


def from_hugging_face(config: Mapping[str, Any]) -> Preprocess:
    """Preprocessing from a Hugging Face image processor; a rescaling other than 1/255 is folded into mean and std."""
    size, resize = _resize(config)
    crop = 1.0
    if config.get("do_center_crop") and config.get("crop_size"):
        window = _pair(config["crop_size"])
        crop = min(1.0, window[0] / size[0])
        size = window
    elif isinstance(config.get("crop_pct"), (int, float)):
        stretch = min(size) >= CONVNEXT_STRETCH_FROM
        crop, resize = (1.0, "stretch") if stretch else (_number(config["crop_pct"], "crop_pct"), "shorter")
    return Preprocess(
        size=size,
        crop=crop,
        interpolation=_interpolation(config.get("resample", 2)),
        resize="stretch" if resize == "stretch" else "shorter",
        channels="bgr" if config.get("do_flip_channel_order") else "rgb",
        **_normalisation(config),
    )


def _normalisation(config: Mapping[str, Any]) -> dict[str, Any]:
    """(v r - mean) / std = (v/255 - mean/(255 r)) / (std/(255 r)), where r is the rescaling factor."""
    factor = config.get("rescale_factor", 1 / 255) if config.get("do_rescale", True) else 1.0
    factor = _number(factor, "rescale_factor")
    if not factor > 0:
        raise InputError(f"rescale_factor = {factor!r:.40} (a positive number)")
    normalised = config.get("do_normalize", True)
    mean = _triple(config.get("image_mean", 0.5)) if normalised else (0.0, 0.0, 0.0)
    std = _triple(config.get("image_std", 0.5)) if normalised else (1.0, 1.0, 1.0)
    scale = 1.0 if abs(255 * factor - 1) < 1e-6 else 255 * factor  # the stored 0.00392156862745098 is 1/255
    return {"mean": tuple(m / scale for m in mean), "std": tuple(s / scale for s in std)}


def _resize(config: Mapping[str, Any]) -> tuple[Size, str]:
    """The size before cropping, and the way of resizing: shorter or stretch."""
    size = config.get("size", 224)
    if isinstance(size, Mapping) and "shortest_edge" in size:
        return _pair(size["shortest_edge"]), "shorter"
    if isinstance(size, Mapping):
        return _pair(size), "stretch"
    kind = str(config.get("image_processor_type") or config.get("feature_extractor_type") or "").lower()
    short = any(kind.startswith(name.replace("_", "")) for name in SHORT_SIDE_TYPES)
    return _pair(size), "shorter" if short else "stretch"


def _pair(value: object) -> Size:
    """Height and width from a number, a pair or {"height": h, "width": w}."""
    if isinstance(value, Mapping):
        value = [value.get("height"), value.get("width")]
    pair = [value, value] if isinstance(value, int) else value
    if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(n, int) for n in pair):
        raise InputError(f"size = {_shown(value)} (a number, or height and width)")
    if not all(0 < n <= STORED_SIDE.amount for n in pair):
        raise InputError(f"size = {_shown(value)} (1 to {STORED_SIDE.amount} pixels a side; --size may ask for more)")
    return pair[0], pair[1]


def _triple(value: object) -> tuple[float, float, float]:
    triple = [value] * 3 if isinstance(value, (int, float)) else value
    if not isinstance(triple, list) or len(triple) != 3:
        raise InputError(f"mean or std = {_shown(value)} (three numbers)")
    red, green, blue = (_number(n, "mean or std") for n in triple)
    return red, green, blue


def _number(value: object, name: str) -> float:
    """A number as float; JSON has integers of any length, which float does not take, and infinity."""
    if not isinstance(value, (int, float)) or not -LARGEST <= value <= LARGEST:
        raise InputError(f"{name} = {_shown(value)} (a number, at most {LARGEST:g})")
    return float(value)


def _shown(value: object) -> str:
    """A value for messages; Python refuses to print integers of more than 4300 digits."""
    try:
        return f"{value!r:.60}"
    except ValueError:
        return "a number of thousands of digits"


def _interpolation(code: object) -> str:
    """The name of a Pillow resampling code."""
    names = {int(value): name for name, value in INTERPOLATIONS.items()}
    if not isinstance(code, int) or code not in names:
        raise InputError(f"resample = {_shown(code)} (a Pillow code, 0 to 5)")
    return names[code]
