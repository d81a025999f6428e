"""The folder of models and images that most tests of the command line use."""

from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper
from PIL import Image

from tests.support import models
from tests.support.photographs import png_header


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models and images, good and bad."""
    folder: Path = tmp_path_factory.mktemp("files")
    good, broken = models.vit(models.Vit(depth=3)), models.vit()
    broken.graph.initializer[-1].CopyFrom(
        numpy_helper.from_array(np.full(5, np.nan, np.float32), broken.graph.initializer[-1].name)
    )
    for name, model in {
        "vit": good,
        "nan": broken,
        "four": models.vit(models.Vit(channels=4)),
        "cnn": models.cnn(),
        "text": models.text_model(),
        "seg": models.segmenter(),
    }.items():
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString())
    data = (folder / "vit.onnx").read_bytes()
    (folder / "cut.onnx").write_bytes(data[: len(data) // 2])
    (folder / "prose.onnx").write_text("this is no model\n" * 40)
    (folder / "empty.onnx").write_bytes(b"")
    (folder / "photos").mkdir()
    rng = np.random.default_rng(5)
    for index, (height, width) in enumerate([(48, 64), (64, 40), (33, 90)]):
        pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "photos" / f"p{index}.png")
    (folder / "photos" / "notes.txt").write_text("not an image")
    (folder / "corrupt.png").write_bytes((folder / "photos" / "p0.png").read_bytes()[:500])
    (folder / "prose.png").write_text("no image")
    (folder / "huge.png").write_bytes(png_header(20_000, 20_000))
    (folder / "labels.txt").write_text("ant\nbee\ncat\ndog, hound\nelk\n")
    return folder
