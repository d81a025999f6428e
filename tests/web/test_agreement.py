"""Same image, same file: Python, Node and Chromium name the same class and draw the same map, on real architectures."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from gradskip_onnx.demo import demo_image, demo_model
from gradskip_onnx.demo.scenes import scene
from gradskip_onnx.web.built_file import read_built_file
from gradskip_onnx.web.runtime_files import Runtime
from gradskip_onnx.web.site import write_site
from tests.support.browser import served
from tests.support.clients import MAP_BOUND, Found, by_node, by_python
from tests.support.command_line import run

pytestmark = pytest.mark.slow

ASSETS = os.environ.get("GRADSKIP_ASSETS")
CHECKPOINT = Path(ASSETS or "") / "deit_tiny" / "deit_tiny_patch16_224.pth"
PREPARED = ("--preset", "imagenet", "--crop", "0.9", "--interpolation", "bicubic")

# name -> what `export` is told; None: the demo model
MODELS: dict[str, tuple[str, ...] | None] = {
    "vit": None,
    "deit": ("deit_tiny_patch16_224", "--checkpoint", str(CHECKPOINT)),
    "distilled-deit": ("deit_tiny_distilled_patch16_224", "--random-weights"),
    "segformer": ("segformer_b0", "--random-weights", "--size", "128", "--classes", "7"),
}


def built_file(name: str, folder: Path) -> Path:
    """The built file of a model."""
    words, model = MODELS[name], folder / f"{name}.onnx"
    if words is None:
        shutil.copy(demo_model(), model)
    else:
        if "--checkpoint" in words and not CHECKPOINT.exists():
            pytest.skip("GRADSKIP_ASSETS names no folder with the weights of DeiT-tiny")
        pytest.importorskip("torch")
        made = run("export", *words, "--plain", "-o", model)
        assert made.exit_code == 0, made.output
    options = () if words is None else PREPARED
    made = run("build", model, "-o", folder / "explained.onnx", *options)
    assert made.exit_code == 0, made.output
    return folder / "explained.onnx"


def by_chromium(site: Path, browser: Any, target: int) -> Found:
    """By the modules of the page, with the example of the site."""
    example = json.loads((site / "site.json").read_text())["examples"][0]["file"]
    with served(site) as address:
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector("#model:has-text('classes')", timeout=120_000)
        found = page.evaluate(
            """async ([file, target]) => {
              const { ask } = await import("./client.mjs");
              const { decode } = await import("./decode.mjs");
              const image = await decode(await (await fetch(file)).blob());
              const { classes, maps } = await ask("explain", { image, target });
              const [{ values, rows, target: explained }] = maps;
              return { explained, rows, values: [...values], best: classes[0].index };
            }""",
            [example, target],
        )
        page.close()
    return Found(found["explained"], np.array(found["values"]).reshape(found["rows"], -1), text=str(found["best"]))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.torch] if words else []) for name, words in MODELS.items()]
)
def test_python_node_and_chromium_agree(
    name: str, runtime: Runtime, browser: Any, tmp_path: Path, record_property: Any
) -> None:
    image = tmp_path / "scene.png"
    if name == "vit":
        shutil.copy(demo_image(), image)
    else:
        Image.fromarray(scene(4, 400).image).crop((0, 30, 400, 360)).save(image)
    built = built_file(name, tmp_path)
    write_site(read_built_file(built), runtime, tmp_path / "site", title="t", examples=[image])
    for target in (-1, 1):
        expected = by_python(built, image, target)
        size = np.abs(expected.map).max()
        for client, found in {
            "node": by_node(built, image, tmp_path, target),
            "chromium": by_chromium(tmp_path / "site", browser, target),
        }.items():
            worst = float(np.abs(found.map - expected.map).max() / size)
            record_property(f"{client} {target}", worst)
            print(f"{name:15} {client:9} class {found.explained:4} largest difference {worst:.1e} of the maximum")
            assert found.explained == expected.explained, client
            assert worst < MAP_BOUND, client
