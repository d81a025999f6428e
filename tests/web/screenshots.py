"""Takes the pictures of docs/web.md, of the demo and of a file of DeiT-tiny with its labels.

python -m tests.web.screenshots deit_tiny.onnx docs/images
"""

from __future__ import annotations

import math
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from tests.support.browser import PHONE, browsers, served
from tests.support.command_line import run

WIDTH, HEIGHT, FINER = 600, 560, 4
DESKTOP = (1280, 960)


def drawing() -> Image.Image:
    """A clock and a traffic light, drawn larger and shrunk so that edges are smooth."""
    image = Image.new("RGB", (WIDTH * FINER, HEIGHT * FINER), (196, 208, 214))
    pen = ImageDraw.Draw(image)

    def box(left: float, top: float, right: float, bottom: float) -> list[float]:
        return [side * FINER for side in (left, top, right, bottom)]

    def disc(x: float, y: float, radius: float, colour: tuple[int, int, int]) -> None:
        pen.ellipse(box(x - radius, y - radius, x + radius, y + radius), fill=colour)

    def ray(degrees: float, start: float, stop: float, width: int, colour: tuple[int, int, int]) -> None:
        x, y = math.sin(math.radians(degrees)), -math.cos(math.radians(degrees))
        ends = box(196 + x * start, 210 + y * start, 196 + x * stop, 210 + y * stop)
        pen.line(ends, fill=colour, width=width * FINER)

    pen.rectangle(box(0, 444, WIDTH, 450), fill=(235, 235, 230))
    pen.rectangle(box(0, 450, WIDTH, HEIGHT), fill=(150, 120, 96))
    disc(202, 220, 124, (160, 172, 178))
    disc(196, 210, 124, (60, 40, 30))
    disc(196, 210, 112, (250, 247, 238))
    for minute in range(60):
        ray(6 * minute, 90 if minute % 5 == 0 else 98, 104, 5 if minute % 5 == 0 else 2, (30, 30, 30))
    ray(305, 0, 58, 9, (20, 20, 20))
    ray(60, 0, 86, 6, (20, 20, 20))
    ray(200, 0, 92, 2, (190, 30, 30))
    disc(196, 210, 7, (20, 20, 20))
    pen.rectangle(box(440, 340, 456, HEIGHT), fill=(70, 72, 74))
    pen.rounded_rectangle(box(392, 90, 504, 348), radius=22 * FINER, fill=(34, 38, 40))
    for y, colour in ((138, (240, 50, 40)), (218, (80, 66, 18)), (298, (20, 70, 36))):
        pen.pieslice(box(404, y - 48, 492, y + 40), 180, 360, fill=(16, 18, 20))
        disc(448, y, 32, colour)
    disc(440, 130, 12, (255, 150, 130))
    return image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)


def site_of(folder: Path, *words: Any) -> Path:
    made = run("web", *words, "-o", folder)
    assert made.exit_code == 0, made.output
    return folder


def take(browser: Any, site: Path, size: tuple[int, int], scheme: str, beside: str | None, path: Path) -> None:
    """The page with its example explained, and a class beside the first."""
    with served(site) as address:
        page = browser.new_page(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, device_scale_factor=1.5
        )
        page.goto(address)
        page.locator("#examples button").first.click()
        page.wait_for_selector("#result:not([hidden])", timeout=120_000)
        if beside is not None:
            page.get_by_role("button", name=f"Compare with {beside}").click()
            page.wait_for_selector("figure:nth-child(2)", timeout=120_000)
        page.wait_for_selector('figure:not([aria-busy="true"])')
        page.mouse.move(0, 0)
        page.screenshot(path=path, full_page=True)
        page.close()
    Image.open(path).convert("RGB").save(path, optimize=True)


def main() -> None:
    model, images = Path(sys.argv[1]), Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as scratch, browsers() as launch:
        folder, browser = Path(scratch), launch()
        drawing().save(folder / "drawing.png")
        demo = site_of(folder / "demo")
        deit = site_of(folder / "deit", model, "--example", folder / "drawing.png")
        take(browser, demo, DESKTOP, "light", None, images / "web-desktop.png")
        take(browser, demo, PHONE, "light", "fish", images / "web-phone.png")
        take(browser, deit, DESKTOP, "dark", "traffic light", images / "web-deit.png")
        browser.close()


if __name__ == "__main__":
    main()
