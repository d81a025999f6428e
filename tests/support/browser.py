"""A real browser for tests of pages: the Chromium of the system, driven by Playwright; a test skips without them."""

from __future__ import annotations

import functools
import http.server
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    "--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
NO_GPU = ("--disable-gpu",)
SOFTWARE_GPU = (
    "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--use-vulkan=swiftshader",
    "--use-angle=swiftshader", "--enable-features=Vulkan", "--enable-unsafe-swiftshader",
)  # fmt: skip
DESKTOP, PHONE = (1280, 900), (390, 844)


@dataclass(slots=True)
class Opened:
    """A page that was opened, what it asked the network for, and what the browser complained about."""

    page: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@contextmanager
def browsers() -> Iterator[Callable[..., Any]]:
    """A function that opens a Chromium with some flags; there can be one such context at a time."""
    playwright = pytest.importorskip("playwright.sync_api")
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as driver:
        yield lambda *flags: driver.chromium.launch(executable_path=program, args=[*(flags or NO_GPU), *QUIET])


@contextmanager
def opened(file: Path, size: tuple[int, int] = DESKTOP, **context: Any) -> Iterator[Opened]:
    """Open a file in a fresh profile; `context` are settings of Playwright, such as java_script_enabled=False."""
    with browsers() as launch:
        browser = launch()
        page = browser.new_context(viewport={"width": size[0], "height": size[1]}, **context).new_page()
        view = Opened(page)
        page.on("request", lambda request: view.requests.append(request.url))
        page.on("pageerror", lambda error: view.complaints.append(str(error)))
        page.on("console", lambda message: view.complaints.append(message.text))
        page.goto(file.as_uri())
        yield view
        browser.close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and says nothing of it; pages of other servers may read what they get."""

    def log_message(self, *_: object) -> None:
        pass

    def end_headers(self) -> None:
        self.send_header("Access-Control-Allow-Origin", "*")
        super().end_headers()


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address at which the files of a folder are served."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def explain(page: Any, image: Path | dict[str, Any]) -> None:
    """Give an image to the page of a site, and wait for its map."""
    page.set_input_files("#file", image)
    page.wait_for_selector("#result:not([hidden])")
    page.wait_for_selector('figure:not([aria-busy="true"])')
