"""The page draws what Python draws, and its numbers of half precision are those of NumPy."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gradskip_onnx.demo.scenes import scene
from gradskip_onnx.drawing.heat_map import HeatMap
from gradskip_onnx.drawing.legend import words
from gradskip_onnx.drawing.outline import line_around, line_width
from gradskip_onnx.drawing.panels import cutout_panel, ground_of, overlay_panel
from gradskip_onnx.drawing.style import PictureStyle
from gradskip_onnx.drawing.view import view_of
from gradskip_onnx.web.drawing_constants import drawing_constants

HERE = Path(__file__).parent
# Steps of a byte. Python blurs the mask of the line by three box filters and the page by a Gaussian, which moves the
# edge of the line by a fraction of a pixel; elsewhere colours are rounded from slightly different strengths.
TYPICAL, WORST_SHARE = 1.0, 0.02


@dataclass(frozen=True)
class Case:
    name: str
    size: tuple[int, int]  # width and height
    box: tuple[float, float, float, float]
    grid: tuple[int, int]
    opacity: float = 0.9

    def map(self) -> np.ndarray:
        """A smooth map at the size of the image; the name says what is special."""
        width, height = self.size
        y, x = np.mgrid[0:height, 0:width]
        near = np.exp(-(((x - 0.6 * width) / (0.15 * width)) ** 2 + ((y - 0.4 * height) / (0.2 * height)) ** 2))
        far = np.exp(-(((x - 0.2 * width) / (0.1 * width)) ** 2 + ((y - 0.7 * height) / (0.1 * height)) ** 2))
        kinds = {
            "positive": near + 0.3 * far,
            "signed": near - 0.8 * far,
            "against": -near,
            "even": 1 + 0.01 * near,
            "constant": np.zeros_like(near),
            "spiky": near + 50.0 * ((x == width // 2) & (y == height // 2)),
            "cropped": near,
            "transparent": near,
        }
        found: np.ndarray = kinds[self.name].astype(np.float32)
        return found


CASES = [
    Case("positive", (340, 340), (0, 0, 340, 340), (14, 14)),
    Case("signed", (400, 340), (0, 0, 400, 340), (12, 12)),
    Case("against", (340, 340), (0, 0, 340, 340), (12, 12)),
    Case("even", (340, 340), (0, 0, 340, 340), (12, 12)),
    Case("constant", (340, 340), (0, 0, 340, 340), (12, 12)),
    Case("spiky", (340, 360), (0, 0, 340, 360), (56, 56)),
    Case("cropped", (500, 340), (100, 20, 400, 320), (14, 14)),
    Case("transparent", (340, 340), (0, 0, 340, 340), (14, 14), opacity=0.3),
]


@pytest.fixture(scope="module")
def by_node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the cases and what the page draws of them."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    folder = tmp_path_factory.mktemp("drawn")
    cases = []
    for at, case in enumerate(CASES):
        (folder / f"{at}.photo").write_bytes(np.asarray(photo(case).convert("RGBA")).tobytes())
        x0, y0, x1, y1 = map(int, case.box)
        part = np.ascontiguousarray(case.map()[y0:y1, x0:x1])
        (folder / f"{at}.map").write_bytes(part.tobytes())
        width, height = case.size
        place = {
            "width": width,
            "height": height,
            "box": case.box,
            "grid": case.grid,
            "smoothed": False,
            "normalised": False,
        }
        shape = {"rows": part.shape[0], "columns": part.shape[1]}
        cases.append({"map": shape, "place": place, "opacity": case.opacity})
    (folder / "cases.json").write_text(json.dumps({"drawing": drawing_constants(), "cases": cases}))
    subprocess.run([node, str(HERE / "view_cases.mjs"), str(folder)], check=True, timeout=120)
    return folder


def photo(case: Case) -> Image.Image:
    return Image.fromarray(scene(5, 400).image).resize(case.size)


def heat_map(case: Case) -> HeatMap:
    values = np.zeros(case.size[::-1], np.float32)
    x0, y0, x1, y1 = map(int, case.box)
    values[y0:y1, x0:x1] = case.map()[y0:y1, x0:x1]
    patch = ((y1 - y0) / case.grid[0], (x1 - x0) / case.grid[1])
    return HeatMap(values, patch, case.box)


@pytest.mark.parametrize("at", range(len(CASES)), ids=[case.name for case in CASES])
def test_panels_are_those_of_python(by_node, at):
    case, style = CASES[at], PictureStyle(opacity=CASES[at].opacity)
    view = view_of(heat_map(case), case.size, style)
    ground, line = ground_of(photo(case), view), line_around(view.area, line_width(case.size))
    expected = {
        "overlay": overlay_panel(ground, view, style, line),
        "cutout": cutout_panel(photo(case), ground, view, line),
    }
    for kind, picture in expected.items():
        drawn = np.fromfile(by_node / f"{at}.{kind}", np.uint8).reshape(*case.size[::-1], 4)
        steps = np.abs(drawn[..., :3].astype(int) - np.asarray(picture).astype(int)).max(axis=2)
        assert steps.mean() < TYPICAL, kind
        assert (steps > 8).mean() < WORST_SHARE, kind
        assert (drawn[..., 3] == 255).all()


def test_what_is_said_is_what_python_says(by_node):
    found = json.loads((by_node / "found.json").read_text())
    for case, drawn in zip(CASES, found, strict=True):
        view = view_of(heat_map(case), case.size, PictureStyle())
        assert drawn["signed"] == view.signed, case.name
        assert drawn["whole"] == view.whole, case.name
        assert drawn["areaShare"] == pytest.approx(view.area_share, abs=2e-3), case.name
        assert tuple(drawn["notes"]) == words(view, PictureStyle()).notes, case.name


def test_half_precision():
    """Every number of 16 bits comes back, and every kind of number is rounded as NumPy rounds it."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    rng = np.random.default_rng(3)
    values = np.concatenate(
        [
            rng.standard_normal(2000) * 10.0 ** rng.integers(-9, 6, 2000),
            [
                0.0,
                -0.0,
                65504,
                65519.99,
                65520,
                -65520,
                1e30,
                2.0**-24,
                2.0**-25,
                1.5 * 2.0**-24,
                2.0**-14,
                1 + 2.0**-11,
            ],
        ]
    ).astype(np.float32)
    module = HERE.parent.parent / "gradskip_onnx/web/page/half.mjs"
    script = f"""
      import {{ toHalf, fromHalf }} from {json.dumps(module.as_uri())};
      const values = Float32Array.from({json.dumps(values.astype(float).tolist())});
      const back = fromHalf(Uint16Array.from({{ length: 65536 }}, (_, at) => at));
      console.log(JSON.stringify([[...toHalf(values)], [...toHalf(back)]]));
    """
    done = subprocess.run(
        [node, "--input-type=module"], input=script, capture_output=True, text=True, check=True, timeout=60
    )
    halves, again = json.loads(done.stdout)
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16).view(np.uint16)
    numbers = ~np.isnan(np.arange(65536, dtype=np.uint16).view(np.float16))

    assert np.array_equal(halves, expected)
    assert np.array_equal(np.array(again)[numbers], np.arange(65536)[numbers])
