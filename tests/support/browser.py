"""A real browser for tests of pages: the Chromium of the system, driven by Playwright; a test skips without them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
DESKTOP, PHONE = (1280, 900), (390, 844)


@dataclass(slots=True)
class Opened:
    """A page that was opened, what it asked the network for, and what the browser complained about."""

    page: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@contextmanager
def opened(file: Path, size: tuple[int, int] = DESKTOP, **context: Any) -> Iterator[Opened]:
    """Open a file in a fresh profile; `context` are settings of Playwright, such as java_script_enabled=False."""
    playwright = pytest.importorskip("playwright.sync_api")
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=list(QUIET))
        page = browser.new_context(viewport={"width": size[0], "height": size[1]}, **context).new_page()
        view = Opened(page)
        page.on("request", lambda request: view.requests.append(request.url))
        page.on("pageerror", lambda error: view.complaints.append(str(error)))
        page.on("console", lambda message: view.complaints.append(message.text))
        page.goto(file.as_uri())
        yield view
        browser.close()
