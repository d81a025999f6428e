"""What the page says of broken images, and of a site of which something is missing or damaged."""

from __future__ import annotations

import io
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from gradskip_onnx.demo import demo_image
from tests.support.browser import explain, served

pytestmark = pytest.mark.slow

NO_MEMORY = """WebAssembly.Memory = class {
  constructor() {
    throw new RangeError("WebAssembly.Memory(): could not allocate memory");
  }
};"""


def encoded(kind: str, **options: object) -> bytes:
    stream = io.BytesIO()
    Image.open(demo_image()).convert("RGB").save(stream, kind, **options)
    return stream.getvalue()


def with_preview(jpeg: bytes) -> bytes:
    """A JPEG with another inside, in a segment of its own, as cameras write it."""
    stream = io.BytesIO()
    Image.open(io.BytesIO(jpeg)).resize((32, 32)).save(stream, "JPEG")
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(stream.getvalue()) + 2) + stream.getvalue() + jpeg[2:]


IMAGES: dict[str, Callable[[], bytes]] = {
    "PNG": lambda: encoded("PNG"),
    "JPEG": lambda: encoded("JPEG", quality=90),
    "progressive JPEG": lambda: encoded("JPEG", quality=90, progressive=True),
    "JPEG with a preview": lambda: with_preview(encoded("JPEG", quality=90)),
    "WebP": lambda: encoded("WEBP"),
}


def given(page, content: bytes) -> None:
    page.set_input_files("#file", {"name": "a.png", "mimeType": "image/png", "buffer": content})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no image that the browser can read"),
        (b"\xff\xd8", "cut short"),
        (b"this is no image", "no image that the browser can read"),
        (b"\x89PNG\r\n\x1a\n", "cut short"),
    ],
)
def test_a_bad_image_gets_one_clear_line(content, message, page):
    given(page, content)
    page.wait_for_selector("#error:not([hidden])")
    assert message in page.inner_text("#error")
    explain(page, demo_image())  # and the next one works
    assert not page.is_visible("#error")


@pytest.mark.parametrize("kind", IMAGES)
def test_an_image_that_was_cut_short_is_refused_and_a_whole_one_is_not(kind, page):
    """Browsers show what there is of it, and grey for the rest, which a model would then be asked about."""
    whole = IMAGES[kind]()
    given(page, whole[: len(whole) * 3 // 4])
    page.wait_for_selector("#error:not([hidden])")
    assert "cut short" in page.inner_text("#error")
    given(page, whole + b"what some cameras write behind an image")
    page.wait_for_selector("#result:not([hidden])")
    assert not page.is_visible("#error")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda site: (site / "model" / "explained.onnx").unlink(), "model/explained.onnx is missing on the server"),
        (lambda site: cut(site / "model" / "explained.onnx"), "model/explained.onnx was cut short"),
        (lambda site: (site / "site.json").unlink(), "site.json is missing"),
        (lambda site: cut(site / "site.json"), "site.json on the server is damaged"),
        (lambda site: (site / "worker.mjs").unlink(), "A script of this page is missing on the server"),
        (lambda site: (site / "runtime" / "ort.wasm.min.mjs").unlink(), "runtime/ort.wasm.min.mjs is missing on the"),
        (lambda site: begin(site / "worker.mjs", "delete globalThis.WebAssembly;"), "has no WebAssembly"),
        (lambda site: begin(site / "worker.mjs", NO_MEMORY), "too little free memory for the model (0 MB)"),
    ],
)
def test_a_damaged_site_says_what_is_wrong(spoil, message, site, browser, tmp_path):
    shutil.copytree(site, tmp_path / "site")
    spoil(tmp_path / "site")
    with served(tmp_path / "site") as address:
        found = browser.new_page()
        found.goto(address)
        found.wait_for_selector("#error:not([hidden])")
        assert message in found.inner_text("#error")
        assert not found.inner_text("#error").startswith("Error")
        found.close()


def cut(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def begin(script: Path, code: str) -> None:
    """What the worker meets in other browsers."""
    script.write_text(code + "\n" + script.read_text())


def test_scripts_that_a_server_sends_as_something_else_are_named(site, browser, tmp_path):
    """Nothing of the page runs then: its text says what to look for."""
    shutil.copytree(site, tmp_path / "site")
    (tmp_path / "site" / "app.mjs").unlink()
    with served(tmp_path / "site") as address:
        found = browser.new_page()
        found.goto(address)
        found.wait_for_timeout(4200)
        assert ".mjs files as JavaScript" in found.inner_text("#unstarted")
        assert "loaded" not in found.inner_text("#model")
        found.close()
