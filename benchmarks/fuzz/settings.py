"""Damaged labels and configuration files, and odd values of options."""

from __future__ import annotations

import json
import os

import numpy as np

from .case import EXPLAIN, IMAGE, MODEL, Mutator, Scene, Trial, pick
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


def _scene(scene: Scene) -> None:
    (scene.folder / MODEL).write_bytes(model_bytes("vit"))
    (scene.folder / IMAGE).write_bytes(encoded(picture()))


def labels_text(scene: Scene) -> Trial:
    _scene(scene)
    texts = [pick(scene.rng, TEXTS) for _ in range(int(scene.rng.integers(0, 12)))]
    data = pick(scene.rng, (
        "\n".join(texts).encode("utf-8", "replace"), scene.rng.bytes(300), b"\xff\xfea\0b\0", b"\0" * 50,
        b"n01440764 tench\n" * 3, b"a,b,c\n" * 5, b"x" * 200_000,
    ))  # fmt: skip
    (scene.folder / "labels.txt").write_bytes(data)
    target = pick(scene.rng, ("top5", "0", "x"))
    return Trial(f"labels {data[:30]!r}", (*EXPLAIN, "--labels", "labels.txt", "--target", target))


def labels_json(scene: Scene) -> Trial:
    _scene(scene)
    text = nested(scene.rng) if scene.rng.random() < 0.2 else raw_json(scene.rng)
    if scene.rng.random() < 0.4:
        text = f'{{"id2label": {text}}}'
    (scene.folder / "labels.json").write_text(text, encoding="utf-8")
    return Trial(f"labels {text[:60]!r}", (*EXPLAIN, "--labels", "labels.json"))


def labels_path(scene: Scene) -> Trial:
    _scene(scene)
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
    key = pick(rng, tuple(sound))
    text = pick(
        rng, (pick(rng, NUMBERS), raw_json(rng), pick(rng, ODD_SIZES), f"[{', '.join([pick(rng, NUMBERS)] * 3)}]")
    )
    entries = sound | {key: text}
    return "{" + ", ".join(f'"{name}": {value}' for name, value in entries.items()) + "}", f"{key} = {text[:60]}"


def config(scene: Scene) -> Trial:
    """A configuration beside the model, in the way of Hugging Face or timm; the command line leaves it its say."""
    _scene(scene)
    ours = ("explain", MODEL, IMAGE, "--threads", "1", "--json", "-o", "out")
    if scene.rng.random() < 0.5:
        text, what = _odd_entry(scene.rng, HUGGING_FACE)
        (scene.folder / "preprocessor_config.json").write_text(text, encoding="utf-8")
    else:
        inner, what = _odd_entry(scene.rng, TIMM)
        (scene.folder / "config.json").write_text(f'{{"pretrained_cfg": {inner}}}', encoding="utf-8")
    return Trial(what, ours)


def config_junk(scene: Scene) -> Trial:
    _scene(scene)
    text = pick(
        scene.rng,
        (raw_json(scene.rng), nested(scene.rng), "", "{", "\ufeff{}", f'{{"id2label": {raw_json(scene.rng)}}}'),
    )
    (scene.folder / pick(scene.rng, ("config.json", "preprocessor_config.json"))).write_text(text, encoding="utf-8")
    return Trial(f"configuration {text[:60]!r}")


ODD = (
    "",
    "-1",
    "0",
    "1e309",
    "nan",
    "inf",
    "9" * 400,
    "2147483648",
    "\x1b[31m",
    "x" * 5000,
    "💥",
    "\udcff",
    "-",
    "0.5",
)
OPTIONS: dict[str, tuple[str, ...]] = {
    "--target": (*ODD, "top5", "top0", "top99999", "99999999", "class 1", "predicted"),
    "--score": (*ODD, "probability"),
    "--method": (*ODD, "rise", "gradskip", "rollout", "GRADSKIP"),
    "--alpha": ODD,
    "--gamma": ODD,
    "-O": (*ODD, "a=b", "share=nan", "agree=-1", "first=99999999999999999999", "last=-5", "="),
    "--batch-size": (*ODD, "1024", "1025"),
    "--preset": (*ODD, "none"),
    "--size": (*ODD, "99999", "1", "99999x1", "16384", "224x", "x", "32,32", "٣٢"),
    "--crop": (*ODD, "1e-9", "2", "1e9"),
    "--labels": (*ODD, "/dev/null"),
    "--device": (*ODD, "cuda", "cuda:999", "cpu", "cuda:-1"),
    "--threads": (*ODD, "2147483647", "10000", "99999999999"),
    "-o": (*ODD, "/dev/null", "/dev/full", IMAGE, MODEL, "a/" * 2000, "/proc/x", ".", "y" * 300),
    "--region": (*ODD, "1,1", IMAGE),
}  # fmt: skip
TRIPLES = ("--mean", "--std")


def options(scene: Scene) -> Trial:
    """One to three options with odd values; of an option that is given twice the last counts."""
    _scene(scene)
    words: list[str] = []
    for _ in range(int(scene.rng.integers(1, 4))):
        name = pick(scene.rng, (*OPTIONS, *TRIPLES))
        words += [name, *([pick(scene.rng, ODD)] * 3 if name in TRIPLES else [pick(scene.rng, OPTIONS[name])])]
    return Trial(" ".join(word[:20] for word in words), (*EXPLAIN, *words))


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("inspect",), ("inspect", IMAGE), ("inspect", ""), ("inspect", "."), ("inspect", MODEL, "--size", "99999"),
    ("inspect", "pipe"), ("explain", MODEL), ("explain", "", IMAGE), ("explain", ".", IMAGE), ("explain", IMAGE, MODEL),
    ("explain", "pipe", IMAGE), ("explain", "loop", IMAGE), ("explain", "/dev/zero", IMAGE),
    ("explain", "/dev/null", IMAGE), ("explain", "x" * 5000, IMAGE), ("explain", "\udcff", IMAGE),
    ("methods", "\x1b[31m"), ("methods", ""), ("methods", "gradskip"), ("cache", "nothing"), ("cache",), ("",),
    ("nonsense",), ("study", "no such", MODEL, "."), ("evaluate", MODEL, "missing"),
    ("evaluate", MODEL, "."),
    ("evaluate", "pipe", "."), ("evaluate", MODEL, "", "-o", "out"), ("evaluate", MODEL, "pipe", "-o", "out"),
    ("evaluate", MODEL, "folder", "--methods", "\x1b[31m", "-o", "out"),
)  # fmt: skip


def commands(scene: Scene) -> Trial:
    """Whole commands with arguments that make no sense."""
    _scene(scene)
    os.mkfifo(scene.folder / "pipe")
    (scene.folder / "loop").symlink_to("loop")
    (scene.folder / "folder").mkdir()
    words = pick(scene.rng, COMMANDS)
    return Trial(" ".join(word[:20] for word in words), words)


ROWS.update({
    "labels as text": labels_text, "labels as JSON": labels_json, "labels from odd paths": labels_path,
    "configuration with an odd entry": config, "configuration that is junk": config_junk, "options": options,
    "commands": commands,
})  # fmt: skip
