"""A built file, the runtime and the site of it, made once for all tests of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from gradskip_onnx.demo import demo_image
from gradskip_onnx.errors import InputError
from gradskip_onnx.web.built_file import read_built_file
from gradskip_onnx.web.runtime_files import Runtime, find_runtime
from gradskip_onnx.web.site import write_site
from tests.support.browser import browsers, served
from tests.support.built_models import built_model


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of a small file that explains itself."""
    path = tmp_path_factory.mktemp("built") / "tiny.onnx"
    path.write_bytes(built_model().SerializeToString())
    return path


@pytest.fixture(scope="session")
def runtime() -> Runtime:
    """ONNX Runtime Web; tests are skipped where npm cannot give it."""
    try:
        return find_runtime(None, webgpu=True, cache=None)
    except InputError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def site(built: Path, runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a site with two examples: a scene, and the same as JPEG that must be turned."""
    folder = tmp_path_factory.mktemp("web")
    turned = folder / "turned.jpg"
    exif = Image.Exif()
    exif[274] = 6
    Image.open(demo_image()).convert("RGB").resize((300, 200)).save(turned, quality=90, exif=exif)
    write_site(read_built_file(built), runtime, folder / "site", title="A test", examples=[demo_image(), turned])
    return folder / "site"


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    with served(site) as found:
        yield found


@pytest.fixture(scope="module")  # not longer: there can be one such context at a time
def launch() -> Iterator[Callable[..., Any]]:
    with browsers() as found:
        yield found


@pytest.fixture(scope="module")
def browser(launch: Callable[..., Any]) -> Iterator[Any]:
    found = launch()
    yield found
    found.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """The page with its model loaded; an error in a script fails the test."""
    found = browser.new_page(viewport={"width": 1280, "height": 900})
    errors: list[str] = []
    found.on("pageerror", lambda error: errors.append(str(error)))
    found.goto(address)
    found.wait_for_selector("#model:has-text('classes')")
    yield found
    found.close()
    assert errors == []
