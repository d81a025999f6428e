"""The page of a report: what it says, that it is bounded, readable without eyes or mouse, and safe against names."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gradskip_onnx.audit.reading import Audit
from gradskip_onnx.audit.row import Row
from gradskip_onnx.findings.find import find
from gradskip_onnx.images.preprocess import Preprocess, geometry, prepare
from gradskip_onnx.report.pictures import heat_map
from gradskip_onnx.report.write import CARD, DOCUMENT, PAGE, write_report
from tests.report.hostile import OPEN, VIOLATIONS, found, hostile_audit
from tests.support.audit_data import good_row, write_audit

VOID = {"meta", "img", "input", "br", "link", "hr"}


class Tags(HTMLParser):
    """Every tag of a page with its attributes, and the text outside of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.text: list[str] = []
        self._in: str | None = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self._in = tag if tag in self.raw else None

    def handle_endtag(self, tag):  # noqa: ARG002 (the signature of its parent)
        self._in = None

    def handle_data(self, data):
        (self.raw[self._in] if self._in else self.text).append(data)

    def of(self, *names: str) -> list[dict[str, str | None]]:
        return [attrs for tag, attrs in self.found if tag in names]


def page_of(audit: Audit) -> str:
    with audit.place.open(PAGE) as stream:
        return stream.read().decode("utf-8")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    audit = hostile_audit(tmp_path_factory.mktemp("hostile"))
    write_report(audit, found(audit), VIOLATIONS, OPEN)
    return audit


@pytest.fixture(scope="module")
def page(hostile: Audit) -> str:
    return page_of(hostile)


@pytest.fixture(scope="module")
def tags(page: str) -> Tags:
    return Tags(page)


def test_only_the_scripts_and_styles_of_the_page_itself_are_allowed(tags: Tags):
    policy = next(one["content"] for one in tags.of("meta") if one.get("http-equiv") == "Content-Security-Policy") or ""
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    hashes = {
        kind: "'sha256-" + base64.b64encode(hashlib.sha256("".join(tags.raw[kind]).encode()).digest()).decode() + "'"
        for kind in ("script", "style")
    }

    assert len(tags.of("script")) == len(tags.of("style")) == 1
    assert rules == {
        "default-src": "'none'", "img-src": "data:", "script-src": hashes["script"], "style-src": hashes["style"],
        "base-uri": "'none'", "form-action": "'none'",
    }  # fmt: skip


def test_nothing_comes_from_outside(tags: Tags):
    assert not tags.of("link", "iframe", "object", "embed", "base", "video", "audio")
    assert all((one["src"] or "").startswith("data:image/") for one in tags.of("img"))
    assert all((one["href"] or "").startswith("#") for one in tags.of("a"))
    attributes = {name for _, attrs in tags.found for name in attrs}
    assert not {name for name in attributes if name.startswith("on")}
    assert "style" not in attributes
    assert not {"srcset", "action", "formaction", "xlink:href", "ping", "background"} & attributes


def test_names_are_text(page: str, tags: Tags):
    """Every name is shown, what cannot be seen by its number, and none of them becomes a tag."""
    text = " ".join(tags.text)
    assert "</script><script>window.hacked=1</script>" in text
    assert "photo⟨U+202E⟩gnp.exe" in text
    assert "⟨U+001B⟩[2J" in text
    assert "{{ 7 * 7 }}" in text
    hidden = re.findall(r"[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", page)
    assert hidden == []


def test_the_page_can_be_read_without_eyes(tags: Tags):
    ids = [attrs["id"] for _, attrs in tags.found if "id" in attrs]
    levels = [int(tag[1]) for tag, _ in tags.found if re.fullmatch(r"h\d", tag)]
    labelled = [attrs.get("aria-labelledby") for attrs in tags.of("section")]

    assert len(ids) == len(set(ids))
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert all(name in ids for name in labelled)
    assert len(tags.of("main")) == len(tags.of("header")) == len(tags.of("footer")) == 1
    assert all(one.get("alt") for one in tags.of("img"))
    assert all(one.get("aria-label") for one in tags.of("svg"))
    assert all(one.get("scope") for one in tags.of("th"))
    assert {(one["href"] or "")[1:] for one in tags.of("a")} <= set(ids)
    assert tags.of("html")[0]["lang"] == "en"


def test_every_chart_has_its_table(page: str, tags: Tags):
    assert tags.of("svg")
    assert page.count("as a table") == len(tags.of("svg"))


def test_verdict_sentences_and_numbers(page: str, hostile: Audit):
    findings = found(hostile)
    accuracy = findings.named("accuracy")
    assert accuracy is not None
    assert (overall := accuracy.overall) is not None
    text = re.sub(r"\s+", " ", "".join(Tags(page).text)).replace("\xa0", " ")

    assert "Fails" in text
    assert "Border </script><script>window.hacked=1</script> is too high" in text
    assert f"names the labelled class in {100 * overall.value:.1f} % ({100 * overall.low:.1f} to" in text
    assert "1 image could not be explained" in text
    assert "gradskip-onnx verify" in text


@pytest.mark.parametrize(("violations", "word"), [(None, "Not judged"), ((), "Passes"), (VIOLATIONS, "Fails")])
def test_verdicts(tmp_path: Path, violations, word: str):
    audit = write_audit(tmp_path, 20)
    write_report(audit, found(audit), violations)

    assert f"</span>{word}</p>" in page_of(audit)


def test_privacy_shows_maps_and_opens_no_image(tmp_path: Path):
    def never(name: str) -> Image.Image:
        raise AssertionError(name)

    audit = write_audit(tmp_path, 20, privacy=True)
    write_report(audit, found(audit), None, never)
    tags = Tags(page_of(audit))

    assert "Images are not shown in this report" in " ".join(tags.text)
    assert not [one for one in tags.of("img") if one.get("class") == "photo"]
    assert len([one for one in tags.of("img") if "relevance for" in (one["alt"] or "")]) > 19


def test_an_image_that_is_gone_leaves_its_map(tmp_path: Path):
    def gone(name: str) -> Image.Image:
        raise FileNotFoundError(name)

    audit = write_audit(tmp_path, 20)
    write_report(audit, found(audit), None, gone)

    assert "relevance for cat in" in page_of(audit)


@pytest.mark.slow
def test_the_page_does_not_grow_with_the_data(tmp_path: Path):
    """Noise of full size, the worst for a codec: at most 15 MB, and the same number of pictures for more images."""
    sizes = []
    for count in (400, 1200):
        audit = write_audit(tmp_path / str(count), count, part_size=100)
        write_report(audit, found(audit), None, lambda _: Image.effect_noise((800, 600), 90).convert("RGB"))
        page = page_of(audit)
        sizes.append((len(page), page.count("<img")))

    assert max(size for size, _ in sizes) < 15e6
    assert abs(sizes[1][1] - sizes[0][1]) < 0.1 * sizes[0][1]


def test_colours_can_be_told_from_their_ground():
    """Contrast of text of 4.5 and more (WCAG 2.2, 1.4.3), on light and dark screens."""
    from importlib.resources import files

    sheets = [(files("gradskip_onnx") / name).read_text() for name in ("output/page.css", "report/page.css")]
    light: dict[str, str] = {}
    dark: dict[str, str] = {}
    for sheet in sheets:
        for at, block in enumerate(re.findall(r":root \{([^}]*)\}", sheet)):
            (dark if at else light).update(re.findall(r"--(\w+): (#\w+)", block))
    for colours in (light, light | dark):
        for ink in ("ink", "faint", "good", "bad"):
            for ground in ("paper", "soft"):
                assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
        assert contrast(colours["dot"], colours["paper"]) >= 3
        assert contrast(colours["focus"], colours["paper"]) >= 3


def contrast(one: str, other: str) -> float:
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    values = np.array([int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)])
    linear = np.where(values <= 0.03928, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_the_part_that_the_model_saw_is_where_preprocessing_puts_it():
    preprocess = Preprocess(size=(32, 48), crop=0.5)
    image = Image.effect_noise((90, 70), 50).convert("RGB")
    _, seen = prepare(image, preprocess)
    heat = heat_map(np.ones((4, 6), np.float32), geometry((70, 90), preprocess), (140, 180), preprocess)

    assert geometry((70, 90), preprocess) == seen
    assert heat.box is not None
    np.testing.assert_allclose(heat.box, 2 * np.array(seen.box))
    rows, columns = np.nonzero(heat.values)
    x0, y0, x1, y1 = heat.box
    assert (columns.min(), rows.min()) == pytest.approx((x0, y0), abs=1)
    assert (columns.max() + 1, rows.max() + 1) == pytest.approx((x1, y1), abs=1)


def test_the_files_are_named(hostile: Audit):
    assert set(hostile.place.files()) >= {PAGE, DOCUMENT, CARD}


def test_a_change_is_called_better_or_worse_and_its_baseline_is_named(tmp_path: Path):
    """Half of the relevance has left the border since an audit of a file whose name is a tag, by another method."""
    now = write_audit(tmp_path / "now")
    rows = [replace(row, border=0.9, negative_share=0.5) for row in good_rows(40)]
    model = {"file": "<b>old.onnx", "sha256": "c" * 64, "files": {}}
    then = write_audit(tmp_path / "then", rows=rows, model=model, method="rollout")

    write_report(now, find(now, then, resamples=50), None, None)

    page = page_of(now)
    assert "an earlier audit of &lt;b&gt;old.onnx (SHA-256 <code>cccccccccccccccc…</code>)" in page
    assert "It differs from this one in method," in page
    outcomes = dict(re.findall(r'<th scope="row">([^<]+)</th><td class="n"><b>[^<]*</b></td><td class="n">[^<]*</td>'
                               r'<td class="c [a-z]*">([^<]+)</td>', page))  # fmt: skip
    assert outcomes["Relevance on the border"] == "better"
    assert outcomes["Relevance against the class"] == "changed"
    assert outcomes["Images that failed"] == "–"


def good_rows(count: int) -> list[Row]:
    rng = np.random.default_rng(0)
    return [good_row(at, 3, rng) for at in range(count)]
