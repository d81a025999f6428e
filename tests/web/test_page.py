"""The page in a headless Chromium: what it shows, that it agrees with Python, and that nothing leaves it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from PIL import Image

from gradskip_onnx.demo import demo_image
from gradskip_onnx.images.preprocess import prepare
from gradskip_onnx.images.read import open_picture
from gradskip_onnx.web.built_file import read_built_file
from gradskip_onnx.web.site import write_site
from tests.support.browser import NO_GPU, SOFTWARE_GPU, explain, served
from tests.support.built_models import LABELS, PREPROCESS, built_model

pytestmark = pytest.mark.slow

MAP_BOUND = 1e-3  # of its largest value: the project's demand on every client
# Decodes and explains an image through the modules of the page, for the map itself.
EXPLAIN = """async ([file, target]) => {
  const { ask } = await import("./client.mjs");
  const { decode } = await import("./decode.mjs");
  const image = await decode(await (await fetch(file)).blob());
  const { classes, maps } = await ask("explain", { image, target });
  return { classes, maps: maps.map(({ target, values, rows }) => ({ target, rows, values: [...values] })) };
}"""


def by_python(built: Path, image: Path, target: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits and map of the same file, by ONNX Runtime in Python."""
    session = onnxruntime.InferenceSession(built, providers=["CPUExecutionProvider"])
    values, _ = prepare(open_picture(image).image, PREPROCESS)
    logits, relevance = session.run(
        ["logits", "relevance"], {"image": values[None], "target": np.array([target], np.int64)}
    )
    return logits[0], relevance[0]


@pytest.mark.parametrize("target", [-1, 2])
def test_map_is_that_of_python(page, built, target):
    logits, relevance = by_python(built, demo_image(), target)
    found = page.evaluate(EXPLAIN, ["examples/image.png", target])
    (drawn,) = found["maps"]
    values = np.array(drawn["values"]).reshape(drawn["rows"], -1)

    assert found["classes"][0]["index"] == logits.argmax()
    assert drawn["target"] == (logits.argmax() if target == -1 else target)
    assert [entry["score"] for entry in found["classes"]] == pytest.approx(sorted(logits, reverse=True), rel=1e-4)
    assert np.abs(values - relevance).max() < MAP_BOUND * np.abs(relevance).max()


def test_webgpu_gives_the_same_map(launch, address, built):
    """By the software adapter of Chromium, which has to be asked for: visitors get WebAssembly in its place."""
    browser = launch(*SOFTWARE_GPU)
    page = browser.new_page()
    page.goto(f"{address}/?device=webgpu")
    if not page.evaluate("navigator.gpu ? navigator.gpu.requestAdapter().then(Boolean) : false"):
        browser.close()
        pytest.skip("this Chromium has no software adapter for WebGPU")
    page.wait_for_selector("#model:has-text('classes')", timeout=120_000)
    (found,) = page.evaluate(EXPLAIN, ["examples/image.png", 2])["maps"]
    _, relevance = by_python(built, demo_image(), 2)
    explain(page, demo_image())
    assert "WebGPU" in page.inner_text("#facts")
    page.goto(address)
    explain(page, demo_image())
    assert "WebAssembly" in page.inner_text("#facts")
    browser.close()

    assert np.abs(np.array(found["values"]) - relevance.ravel()).max() < MAP_BOUND * np.abs(relevance).max()


def test_photographs_are_turned_as_in_python(page, built, site):
    """JPEG decoders differ in the last bit, hence the looser bound."""
    turned = site / "examples" / "turned.jpg"
    _, relevance = by_python(built, turned, 1)
    found = page.evaluate(EXPLAIN, ["examples/turned.jpg", 1])
    values = np.array(found["maps"][0]["values"]).reshape(relevance.shape)

    assert np.abs(values - relevance).max() < 2e-2 * np.abs(relevance).max()
    assert np.corrcoef(values.ravel(), relevance.ravel())[0, 1] > 0.9999


def test_classes_are_shown_and_chosen(page):
    explain(page, demo_image())
    first = page.inner_text("figcaption strong")
    names = page.locator("#classes .name").all_inner_texts()
    assert first == names[0]
    assert len(names) == 5
    assert set(names) <= set(LABELS)

    before = page.evaluate("document.querySelector('figure canvas').toDataURL()")
    page.locator("#classes .class").nth(1).press("Enter")  # by the keyboard
    page.wait_for_selector(f"figcaption strong:text-is('{names[1]}')")
    assert page.evaluate("document.querySelector('figure canvas').toDataURL()") != before
    assert page.locator("#classes [aria-pressed=true]").first.get_attribute("aria-label").startswith(names[1])
    assert names[1] in page.inner_text("#status")


def test_the_keyboard_keeps_its_place(page):
    """The lists are made anew after every choice; the button that was pressed still has the focus then."""
    focused = "document.activeElement.getAttribute('aria-label')"
    explain(page, demo_image())
    page.locator(".compare").nth(1).focus()
    label = page.evaluate(focused)
    page.keyboard.press("Enter")
    page.wait_for_selector("figure:nth-child(2)")
    assert label.startswith("Compare with")
    assert page.evaluate(focused) == label
    page.keyboard.press("Enter")
    page.wait_for_selector("figure:nth-child(2)", state="detached")
    assert page.evaluate(focused) == label


def test_two_classes_are_compared_and_saved(page):
    explain(page, demo_image())
    page.locator(".compare").nth(2).click()
    page.wait_for_selector("figure:nth-child(2)")
    assert "each map has its own scale" in page.inner_text("#notes")
    with page.expect_download() as download:
        page.click("#save")
    picture = Image.open(io.BytesIO(Path(download.value.path()).read_bytes()))
    assert download.value.suggested_filename.endswith(".png")
    assert picture.width > 3 * 600  # the image and both maps beside each other
    page.locator(".compare").nth(2).click()  # once more: back to one
    page.wait_for_selector("figure:nth-child(2)", state="detached")


def test_any_class_is_found_by_name_or_number(page):
    explain(page, demo_image())
    page.fill("#query", "o")
    assert all("o" in name for name in page.locator("#found .name").all_inner_texts())
    page.fill("#query", "3")
    assert page.locator("#found .name").all_inner_texts() == [LABELS[3]]
    page.locator("#found .class").click()
    page.wait_for_selector(f"figcaption strong:text-is('{LABELS[3]}')")
    page.fill("#query", "nothing of the kind")
    assert "No class" in page.inner_text("#found")


def test_opacity_and_views_change_the_picture(page):
    explain(page, demo_image())
    seen = {page.evaluate("document.querySelector('figure canvas').toDataURL()")}
    page.locator("#opacity").fill("20")
    seen.add(page.evaluate("document.querySelector('figure canvas').toDataURL()"))
    for view in ("cutout", "photo"):
        page.locator(f"input[value={view}]").check()
        seen.add(page.evaluate("document.querySelector('figure canvas').toDataURL()"))
    assert len(seen) == 4


def test_examples_and_drops(page):
    page.get_by_role("button", name="Try “image”").click()
    page.wait_for_selector("#result:not([hidden])")
    dropped = """async () => {
      const file = new File([await (await fetch("examples/turned.jpg")).blob()], "turned.jpg");
      const data = new DataTransfer();
      data.items.add(file);
      document.dispatchEvent(new DragEvent("drop", { dataTransfer: data, cancelable: true, bubbles: true }));
    }"""
    page.evaluate(dropped)
    page.wait_for_selector("figure canvas[height='800']")  # it was turned


def test_an_image_is_pasted(page):
    page.evaluate("""async () => {
      const data = new DataTransfer();
      data.items.add(new File([await (await fetch("examples/turned.jpg")).blob()], ""));
      document.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data }));
    }""")
    page.wait_for_selector("figure canvas[height='800']")
    page.wait_for_function("document.querySelector('#status').textContent.startsWith('Explained')")


def test_a_photo_is_taken(launch, address):
    """By the dialog of computers; the browser shows a moving pattern in place of a camera."""
    browser = launch(*NO_GPU, "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
    page = browser.new_page()
    page.goto(address)
    page.click("#camera")
    page.wait_for_selector("#viewfinder[open]")
    assert page.evaluate("document.querySelector('#video').videoWidth") > 0
    page.click("#shoot")
    page.wait_for_selector("#result:not([hidden])")
    assert not page.is_visible("#viewfinder")
    assert page.evaluate("document.querySelector('#video').srcObject") is None  # the camera is off
    browser.close()


def test_no_camera_gets_one_clear_line(launch, address):
    browser = launch(*NO_GPU, "--deny-permission-prompts")
    page = browser.new_page()
    page.goto(address)
    page.click("#camera")
    page.wait_for_selector("#error:not([hidden])")
    assert "camera" in page.inner_text("#error")
    browser.close()


def test_nothing_can_leave_the_page(page, address, tmp_path):
    """Neither the page nor its worker can ask another server, though that one would answer."""
    (tmp_path / "file.txt").write_text("x")
    attempt = "async address => { try { await fetch(address + '/file.txt'); return 'sent'; } catch { return 'no'; } }"
    with served(tmp_path) as elsewhere:
        (worker,) = page.workers
        assert page.evaluate(attempt, elsewhere) == "no"
        assert worker.evaluate(attempt, elsewhere) == "no"
        assert worker.evaluate("async address => (await fetch(address + '/site.json')).status", address) == 200


def test_only_files_of_the_site_are_asked_for(browser, address):
    found = browser.new_page()
    asked: list[str] = []
    found.on("request", lambda request: asked.append(request.url))
    found.goto(address)
    explain(found, demo_image())
    found.close()
    assert len(asked) > 15
    assert all(url.startswith((address, "blob:", "data:")) for url in asked)


def test_only_one_runtime_is_loaded(browser, address):
    """Without a graphics processor the smaller one, 14 MB, and not both."""
    found = browser.new_page()
    asked: list[str] = []
    found.on("request", lambda request: asked.append(request.url))
    found.goto(address)
    explain(found, demo_image())
    assert "WebAssembly" in found.inner_text("#facts")
    found.close()
    assert sum(url.endswith(".wasm") for url in asked) == 1


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_its_window(browser, address, width):
    found = browser.new_page(viewport={"width": width, "height": 844})
    found.goto(address)
    explain(found, demo_image())
    found.locator(".compare").nth(1).click()
    found.wait_for_selector("figure:nth-child(2)")
    assert found.evaluate("document.documentElement.scrollWidth") <= width
    small = found.evaluate(
        "[...document.querySelectorAll('button')].filter(b => b.offsetParent && b.offsetHeight < 44).length"
    )
    assert small == 0  # fingers are wide
    found.close()


def test_everything_has_a_name_for_screen_readers(page):
    explain(page, demo_image())
    nameless = page.evaluate(
        """[...document.querySelectorAll('button, input, canvas, img, progress, dialog')].filter(one =>
          !(one.textContent.trim() || one.labels?.length || one.getAttribute('aria-label') ||
            one.getAttribute('aria-labelledby') || one.getAttribute('aria-hidden') || one.hasAttribute('alt')))
        .map(one => one.outerHTML)"""
    )
    assert nameless == []


def test_below_an_address_of_others(site, browser, tmp_path):
    """As on GitHub Pages, where a site lies below the name of its repository."""
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "site").symlink_to(site)
    with served(tmp_path) as address:
        found = browser.new_page()
        found.goto(f"{address}/user/site/index.html")
        explain(found, demo_image())
        assert not found.is_visible("#error")
        found.close()


def test_names_from_strangers_are_text(runtime, browser, tmp_path):
    """Labels and the title come from files of anybody; none of them is markup, a path or a script."""
    hostile = "<img src=x onerror=document.title=1>"
    labels = [
        hostile,
        "../../etc/passwd",
        "a" * 300,
        "</script><script>alert(1)</script>",
        "",
        "\u202egnp.exe",
        "b" * 9,
    ]
    (tmp_path / "m.onnx").write_bytes(built_model(labels).SerializeToString())
    write_site(read_built_file(tmp_path / "m.onnx"), runtime, tmp_path / "site", title=f"Birds {hostile}")
    with served(tmp_path / "site") as address:
        found = browser.new_page(viewport={"width": 390, "height": 844})
        found.on("dialog", lambda _: pytest.fail("a script ran"))
        found.goto(address)
        explain(found, demo_image())
        found.fill("#query", "0")
        found.wait_for_selector("#found .class")
        found.locator("#found .class").first.click()
        found.wait_for_selector("figcaption strong")
        assert found.locator("#side img, figcaption img, #title img").count() == 0
        assert hostile in found.inner_text("#title")
        assert found.title() == f"Birds {hostile}"
        assert found.locator("#side script").count() == 0
        assert found.evaluate("document.documentElement.scrollWidth") <= 390
        with found.expect_download() as download:
            found.click("#save")
        assert "/" not in download.value.suggested_filename
        found.close()


def test_a_map_without_a_zero_has_no_outline(runtime, browser, tmp_path):
    model = built_model(normalised=True)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    write_site(read_built_file(tmp_path / "m.onnx"), runtime, tmp_path / "site", title="t")
    with served(tmp_path / "site") as address:
        found = browser.new_page()
        found.goto(address)
        explain(found, demo_image())
        assert "no line" in found.inner_text("#notes")
        assert not found.is_visible("#line")
        found.close()


def test_several_classes_in_one_run(runtime, browser, tmp_path):
    """A file built with --top brings the maps of its classes; the others cannot be asked for."""
    model = built_model(top=1, inputs={"image": "image", "target": None, "region": None})
    (tmp_path / "top.onnx").write_bytes(model.SerializeToString())
    write_site(read_built_file(tmp_path / "top.onnx"), runtime, tmp_path / "site", title="t")
    with served(tmp_path / "site") as address:
        found = browser.new_page()
        found.goto(address)
        explain(found, demo_image())
        assert found.locator("#classes .class:enabled").count() == 1
        assert not found.is_visible("#find")
        found.close()


def test_site_table_is_small(site):
    assert (site / "site.json").stat().st_size < 20_000
    assert json.loads((site / "site.json").read_text())["model"]["bytes"] > 0
