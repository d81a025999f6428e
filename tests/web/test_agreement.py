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

# name -> what `export` is told
EXPORTED = {
    "deit": ("deit_tiny_patch16_224", "--checkpoint", str(CHECKPOINT)),
    "distilled-deit": ("deit_tiny_distilled_patch16_224", "--random-weights"),
    "segformer": ("segformer_b0", "--random-weights", "--size", "128", "--classes", "7"),
}


def built_of(model: Path, *options: str) -> Path:
    """The file built of a model, beside it."""
    built = model.with_name("explained.onnx")
    made = run("build", model, "-o", built, *options)
    assert made.exit_code == 0, made.output
    return built


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


def check(name: str, built: Path, image: Path, runtime: Runtime, browser: Any) -> None:
    """Every client agrees with Python, for the predicted class and for another."""
    scratch = built.parent
    write_site(read_built_file(built), runtime, scratch / "site", title="t", examples=[image])
    for target in (-1, 1):
        expected = by_python(built, image, target)
        for client, found in {
            "node": by_node(built, image, scratch, target),
            "chromium": by_chromium(scratch / "site", browser, target),
        }.items():
            worst = np.abs(found.map - expected.map).max() / np.abs(expected.map).max()
            print(f"{name:15} {client:9} class {found.explained:4} largest difference {worst:.1e} of the maximum")
            assert found.explained == expected.explained, client
            assert worst < MAP_BOUND, client


def test_the_demo(runtime, browser, tmp_path):
    shutil.copy(demo_model(), tmp_path / "vit.onnx")
    shutil.copy(demo_image(), tmp_path / "scene.png")
    check("vit", built_of(tmp_path / "vit.onnx"), tmp_path / "scene.png", runtime, browser)


@pytest.mark.torch
@pytest.mark.parametrize("name", EXPORTED)
def test_exported_models(name, runtime, browser, tmp_path):
    pytest.importorskip("torch")
    words = EXPORTED[name]
    if "--checkpoint" in words and not CHECKPOINT.exists():
        pytest.skip("GRADSKIP_ASSETS names no folder with the weights of DeiT-tiny")
    made = run("export", *words, "--plain", "-o", tmp_path / f"{name}.onnx")
    assert made.exit_code == 0, made.output
    Image.fromarray(scene(4, 400).image).crop((0, 30, 400, 360)).save(tmp_path / "scene.png")
    check(name, built_of(tmp_path / f"{name}.onnx", *PREPARED), tmp_path / "scene.png", runtime, browser)
