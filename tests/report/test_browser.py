"""The page in a real browser: it asks for nothing, runs no name, and its gallery is chosen, ordered and enlarged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gradskip_onnx.report.write import PAGE, write_report
from tests.report.hostile import OPEN, VIOLATIONS, found, hostile_audit
from tests.support.browser import DESKTOP, PHONE, Opened, opened

pytestmark = pytest.mark.slow

SHOWN = "[...document.querySelectorAll('#gallery li:not([hidden])')]"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browser")
    audit = hostile_audit(folder)
    write_report(audit, found(audit), VIOLATIONS, OPEN)
    return folder / PAGE


@pytest.fixture
def view(file: Path) -> Iterator[Opened]:
    with opened(file) as view:
        yield view


def shown(view: Opened, key: str) -> list[str]:
    found: list[str] = view.page.evaluate(f"{SHOWN}.map(item => item.dataset['{key}'])")
    return found


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_nothing_is_asked_for_and_no_name_runs(file: Path, size: tuple[int, int]):
    with opened(file, size) as view:
        view.page.wait_for_timeout(200)
        page = view.page

        assert [url for url in view.requests if not url.startswith("data:")] == [file.as_uri()]
        assert view.complaints == []
        assert page.evaluate("window.hacked") is None
        assert page.evaluate("document.images.length") > 50
        assert page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


def test_a_script_that_is_not_ours_is_refused(file: Path, tmp_path: Path):
    """The policy holds even where escaping would have failed."""
    planted = tmp_path / "planted.html"
    text = file.read_text(encoding="utf-8")
    planted.write_text(
        text.replace("</main>", "<script>window.hacked=1</script><img src=x onerror=window.hacked=2></main>")
    )
    with opened(planted) as view:
        view.page.wait_for_timeout(200)

        assert view.page.evaluate("window.hacked") is None
        assert any("Content Security Policy" in text for text in view.complaints)


def test_images_are_chosen(view: Opened):
    every = shown(view, "position")
    view.page.select_option("#answer", "wrong")
    wrong = shown(view, "answer")
    view.page.select_option("#answer", "")
    view.page.select_option("#belief", "no")
    doubted = shown(view, "position")
    view.page.select_option("#belief", "")
    view.page.fill("#words", "PHOTO")
    named = shown(view, "name")
    view.page.fill("#words", "")
    view.page.select_option("#class", "cat")
    cats = shown(view, "class")

    assert len(every) == 83  # of 84 one has failed
    assert 0 < len(wrong) < len(every)
    assert set(wrong) == {"wrong"}
    assert doubted == ["5"]
    assert named
    assert all("photo" in name for name in named)
    assert set(cats) == {"cat"}
    assert view.page.inner_text("#count") == f"{len(cats)} of 83 shown"


def test_images_are_ordered(view: Opened):
    view.page.select_option("#order", "probability")
    rising = [float(value) for value in shown(view, "probability")]
    view.page.select_option("#order", "border:down")
    falling = [float(value) for value in shown(view, "border")]
    view.page.select_option("#order", "position")

    assert rising == sorted(rising)
    assert falling == sorted(falling, reverse=True)
    assert shown(view, "position") == sorted(shown(view, "position"), key=int)


def test_the_keyboard_is_enough(view: Opened):
    """Tab reaches every control and image, Enter enlarges, Escape closes, and the focus is back where it was."""
    page, reached = view.page, []
    for _ in range(400):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.className"))
        if reached[-1] == "enlarge":
            break
    where = page.evaluate("document.activeElement.getAttribute('aria-label')")
    page.keyboard.press("Enter")
    large = page.evaluate(
        "[document.getElementById('large').open, document.querySelectorAll('#large-body img').length]"
    )
    page.keyboard.press("Escape")

    assert reached[0] == "skip"
    assert {"words", "class", "answer", "belief", "order", "enlarge"} <= set(reached)
    assert large == [True, 2]
    assert page.evaluate("document.getElementById('large').open") is False
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == where
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_without_scripts_everything_is_there(file: Path):
    with opened(file, java_script_enabled=False) as view:
        assert view.page.locator("#gallery li").count() == 83
        assert not view.page.locator("#controls").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_colour_schemes(file: Path, scheme: str):
    with opened(file, color_scheme=scheme) as view:
        ground = view.page.evaluate("getComputedStyle(document.body).backgroundColor")

    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(23, 23, 27)"}[scheme]


def test_reduced_motion_is_respected(file: Path):
    with opened(file, reduced_motion="reduce") as view:
        assert view.page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
