"""The input that the page makes of an image is, number for number, the one that Pillow and we make of it."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import pytest
from PIL import Image

from gradskip_onnx.images.preprocess import INTERPOLATIONS, Preprocess, prepare

HERE = Path(__file__).parent
# Earlier versions always resample along rows first, which rounds tall images a little differently.
ORDERS_PASSES = int(PIL.__version__.split(".")[0]) >= 13
SIZES = ((40, 60), (61, 33), (16, 16), (7, 200), (31, 18), (1, 1), (250, 251))  # height, width


@dataclass(frozen=True)
class Case:
    image: Image.Image
    preprocess: Preprocess
    channels: int = 3

    def described(self) -> dict[str, Any]:
        width, height = self.image.size
        return {"width": width, "height": height, "channels": self.channels, "settings": self.preprocess.as_dict()}

    def pixels(self) -> bytes:
        """The bytes of the image; a fourth channel holds what must not count."""
        pixels = np.asarray(self.image)
        return np.dstack([pixels, np.full(pixels.shape[:2], 77, np.uint8)])[..., : self.channels].tobytes()


def cases() -> list[Case]:
    rng = np.random.default_rng(11)
    made = []
    for height, width in SIZES if ORDERS_PASSES else [(40, 60), (16, 16), (250, 251)]:
        noise = Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))
        extremes = Image.fromarray(np.where(rng.random((height, width, 3)) < 0.5, 0, 255).astype(np.uint8))
        for interpolation in INTERPOLATIONS:
            made += [
                Case(noise, Preprocess(size=(32, 32), interpolation=interpolation)),
                Case(extremes, Preprocess(size=(24, 40), crop=1.0, resize="stretch", interpolation=interpolation)),
                Case(noise, Preprocess(size=(33, 20), crop=0.9, resize="pad", interpolation=interpolation), 4),
                Case(
                    extremes,
                    Preprocess(
                        size=(16, 31), crop=224 / 232, interpolation=interpolation, channels="bgr", std=(0.2, 0.3, 0.4)
                    ),
                    4,
                ),
            ]
    return made


@pytest.fixture(scope="module")
def by_node(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Case], list[np.ndarray], list[list[float]]]:
    """The cases, with what the module of the page makes of each."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    folder, made = tmp_path_factory.mktemp("prepared"), cases()
    (folder / "cases.json").write_text(json.dumps([case.described() for case in made]))
    for at, case in enumerate(made):
        (folder / f"{at}.pixels").write_bytes(case.pixels())
    subprocess.run([node, str(HERE / "prepare_cases.mjs"), str(folder)], check=True, timeout=120)
    inputs = [np.fromfile(folder / f"{at}.prepared", np.float32) for at in range(len(made))]
    return made, inputs, json.loads((folder / "boxes.json").read_text())


def test_inputs_are_those_of_python(by_node):
    for case, found, _ in zip(*by_node, strict=True):
        expected, _ = prepare(case.image, case.preprocess)
        assert np.array_equal(found.reshape(expected.shape), expected), case.described()


def test_parts_covered_are_those_of_python(by_node):
    for case, _, found in zip(*by_node, strict=True):
        _, geometry = prepare(case.image, case.preprocess)
        assert found == pytest.approx(geometry.box, abs=1e-9), case.described()
