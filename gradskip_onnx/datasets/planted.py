"""Scenes with exactly known evidence, drawn on demand: planted:COUNT or planted:COUNT:FIRST."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from PIL import Image

from gradskip_onnx.demo.scenes import CLASSES, Scene, label_of, scene
from gradskip_onnx.errors import InputError

from .entry import Dataset, Entry
from .layout import DatasetRequest, Layout

COUNT = 100
FIRST = 20_000  # smaller seeds were watched in training the demo models, or their accuracy is reported on them
NAME = re.compile(r"planted(?::(\d{1,7}))?(?::(\d{1,9}))?")


def detect(where: str) -> bool:
    return where.partition(":")[0] == "planted"


def load(request: DatasetRequest) -> Dataset:
    """COUNT held-out scenes, from seed FIRST on."""
    match = NAME.fullmatch(request.where)
    if match is None:
        raise InputError(f"{request.where!r}: write planted:COUNT or planted:COUNT:FIRST, such as planted:200:20000")
    count, first = int(match[1] or COUNT), int(match[2] or FIRST)
    return Dataset(LAYOUT.name, request.where, tuple(_entry(seed) for seed in range(first, first + count)))


def _entry(seed: int) -> Entry:
    return Entry(
        id=f"scene/{seed}",
        read=lambda: Image.fromarray(_drawn(seed).image),
        digest=lambda: _digest(seed),
        label=CLASSES[label_of(seed)],
        outline=lambda: _drawn(seed).mask,
    )


@lru_cache(16)
def _drawn(seed: int) -> Scene:
    """A scene; its image, its outline and its digest are asked for one after the other."""
    return scene(seed)


def _digest(seed: int) -> str:
    drawn = _drawn(seed)
    return hashlib.sha256(drawn.image.tobytes() + drawn.mask.tobytes()).hexdigest()


LAYOUT = Layout("planted", "planted:COUNT: scenes drawn on the fly", "label, mask", detect, load)
