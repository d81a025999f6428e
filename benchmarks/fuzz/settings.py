"""Damaged labels and configuration files."""

from __future__ import annotations

import json
import os

import numpy as np

from .case import EXPLAIN, IMAGE, MODEL, OUTPUT, Mutator, Scene, Trial, pick
from .seeds import encoded, model_bytes, picture

ROWS: dict[str, Mutator] = {}
Draw = np.random.Generator
NUMBERS = ("0", "-1", "1e309", "-1e309", "1e-320", "NaN", "Infinity", "9" * 400, "2147483648", "1" + "0" * 5000, "0.5")
TEXTS = ("", "\x1b[31m", "a\nb", "\u202e", "x" * 10_000, "💥", "LABEL_0", "nan", "\ud800", "null")


def raw_json(rng: Draw, depth: int = 0) -> str:
    """Random JSON as text, numbers of any size included, which `json.dumps` could not write."""
    match int(rng.integers(7 if depth < 4 else 4)):
        case 0:
            return pick(rng, ("true", "false", "null"))
        case 1 | 2:
            return pick(rng, NUMBERS)
        case 3:
            return json.dumps(pick(rng, TEXTS))
        case 4 | 5:
            return "[" + ",".join(raw_json(rng, depth + 1) for _ in range(int(rng.integers(5)))) + "]"
        case _:
            keys = [
                json.dumps(pick(rng, (*TEXTS, "0", "1", "-5", "size", "mean"))) for _ in range(int(rng.integers(5)))
            ]
            return "{" + ",".join(f"{key}:{raw_json(rng, depth + 1)}" for key in keys) + "}"


def nested(rng: Draw) -> str:
    depth = int(pick(rng, (50, 900, 100_000)))
    opening = pick(rng, ("[", '{"a":', '{"id2label":'))
    return opening * depth + "1" + ("]" if opening == "[" else "}") * depth


def set_scene(scene: Scene) -> None:
    """A sound model, of one size or of any, and a picture."""
    (scene.folder / MODEL).write_bytes(model_bytes(pick(scene.rng, ("vit", "vit-any-size"))))
    (scene.folder / IMAGE).write_bytes(encoded(picture()))


def labels_text(scene: Scene) -> Trial:
    set_scene(scene)
    texts = [pick(scene.rng, TEXTS) for _ in range(int(scene.rng.integers(0, 12)))]
    data = pick(scene.rng, (
        "\n".join(texts).encode("utf-8", "replace"), scene.rng.bytes(300), b"\xff\xfea\0b\0", b"\0" * 50,
        b"n01440764 tench\n" * 3, b"a,b,c\n" * 5, b"x" * 200_000,
    ))  # fmt: skip
    (scene.folder / "labels.txt").write_bytes(data)
    target = pick(scene.rng, ("top5", "0", "x"))
    return Trial(f"labels {data[:30]!r}", (*EXPLAIN, "--labels", "labels.txt", "--target", target))


def labels_json(scene: Scene) -> Trial:
    set_scene(scene)
    text = nested(scene.rng) if scene.rng.random() < 0.2 else raw_json(scene.rng)
    if scene.rng.random() < 0.4:
        text = f'{{"id2label": {text}}}'
    (scene.folder / "labels.json").write_text(text, encoding="utf-8")
    return Trial(f"labels {text[:60]!r}", (*EXPLAIN, "--labels", "labels.json"))


def labels_path(scene: Scene) -> Trial:
    set_scene(scene)
    os.mkfifo(scene.folder / "pipe")
    (scene.folder / "loop").symlink_to("loop")
    with (scene.folder / "large").open("wb") as stream:
        stream.truncate(3 << 30)
    odd = ("pipe", "loop", "large", ".", "", "/dev/zero", "/dev/null", "x" * 5000, "missing", "\udcff", MODEL, IMAGE)
    chosen = pick(scene.rng, odd)
    return Trial(f"labels from {chosen[:20]!r}", (*EXPLAIN, "--labels", chosen))


HUGGING_FACE = {
    "do_resize": "true", "do_normalize": "true", "size": '{"height": 32, "width": 32}', "image_mean": "[0.5, 0.5, 0.5]",
    "image_std": "[0.5, 0.5, 0.5]", "rescale_factor": "0.00392156862745098", "resample": "3", "do_center_crop": "true",
    "crop_size": '{"height": 32, "width": 32}', "crop_pct": "0.9", "image_processor_type": '"ViTImageProcessor"',
}  # fmt: skip
TIMM = {
    "input_size": "[3, 32, 32]", "mean": "[0.5, 0.5, 0.5]", "std": "[0.5, 0.5, 0.5]", "crop_pct": "0.9",
    "interpolation": '"bicubic"', "crop_mode": '"center"', "label_names": '["a", "b", "c", "d", "e"]',
}  # fmt: skip
ODD_SIZES = (
    "16384",
    "[16384, 16384]",
    '{"height": 99999, "width": 1}',
    '{"shortest_edge": 65536}',
    "[1, 1]",
    "[-3, 3]",
)


def _odd_entry(rng: Draw, sound: dict[str, str]) -> tuple[str, str]:
    """A configuration as text with one odd entry, and that entry in words."""
    key, number = pick(rng, tuple(sound)), pick(rng, NUMBERS)
    text = pick(rng, (number, number, f"[{number}, {number}, {number}]", pick(rng, ODD_SIZES), raw_json(rng)))
    entries = sound | {key: text}
    return "{" + ", ".join(f'"{name}": {value}' for name, value in entries.items()) + "}", f"{key} = {text[:60]}"


def _configured(scene: Scene, name: str, text: str, what: str) -> Trial:
    """A configuration beside the model; the command line leaves it its say."""
    set_scene(scene)
    (scene.folder / name).write_text(text, encoding="utf-8")
    return Trial(what, ("explain", MODEL, IMAGE, "--threads", "1", "--json", "-o", OUTPUT))


def hugging_face(scene: Scene) -> Trial:
    text, what = _odd_entry(scene.rng, HUGGING_FACE)
    return _configured(scene, "preprocessor_config.json", text, what)


def timm(scene: Scene) -> Trial:
    inner, what = _odd_entry(scene.rng, TIMM)
    return _configured(scene, "config.json", f'{{"pretrained_cfg": {inner}}}', what)


def config_junk(scene: Scene) -> Trial:
    set_scene(scene)
    text = pick(
        scene.rng,
        (raw_json(scene.rng), nested(scene.rng), "", "{", "\ufeff{}", f'{{"id2label": {raw_json(scene.rng)}}}'),
    )
    (scene.folder / pick(scene.rng, ("config.json", "preprocessor_config.json"))).write_text(text, encoding="utf-8")
    return Trial(f"configuration {text[:60]!r}")


ROWS.update({
    "labels as text": labels_text, "labels as JSON": labels_json, "labels from odd paths": labels_path,
    "configuration of Hugging Face": hugging_face, "configuration of timm": timm,
    "configuration that is junk": config_junk,
})  # fmt: skip
