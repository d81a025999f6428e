"""The overview of a folder: true to its rows, and safe whatever they hold."""

from __future__ import annotations

import csv
import io
from html.parser import HTMLParser
from typing import Any

import pytest

from gradskip_onnx.output.csv_text import encode_csv
from gradskip_onnx.output.overview import COLUMNS, as_page, as_table

HOSTILE = (
    '"><script>alert(1)</script>', "javascript:alert(1)", "../../etc/passwd", "//evil.example/x", "a\x1b[2Jb", "=1+1",
    "a?b#c%41.png", "\udce9t\udce9", "' onerror='x", "</style><script>",
)  # fmt: skip


def row(name: str, **more: Any) -> dict[str, Any]:
    target = {"index": 3, "label": name, "probability": 0.5, "logit": 1.25}
    files = [f"{name}.{kind}" for kind in ("png", "npy", "json")]
    result = {"target": target, "top": [target, target | {"index": 4}], "method": name, "model": name, "files": files}
    return {"image": f"photos/{name}.png", "state": "done", "results": [result], **more}


class Elements(HTMLParser):
    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_names_cannot_leave_their_place(name: str):
    rows = [row(name), {"image": name, "state": "failed", "error": name}, row(name, together=f"{name}.png")]
    elements = Elements(as_page(name, rows)).found

    assert {tag for tag, _ in elements} <= {
        "html", "head", "meta", "title", "style", "body", "main", "article",
        "h1", "h2", "p", "a", "img", "strong", "span",
    }  # fmt: skip
    for tag, attributes in elements:
        assert not any(key.startswith("on") for key in attributes)
        for key in {"href", "src"} & set(attributes):
            link = attributes[key] or ""
            assert link == "summary.csv" or link.startswith("./")
            assert "/" not in link[2:]
            assert "?" not in link
            assert "#" not in link
            assert tag in ("a", "img")
    policy = next(attributes["content"] for tag, attributes in elements if "http-equiv" in attributes)
    assert policy is not None
    assert policy.startswith("default-src 'none'")


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_the_table_holds_texts_and_no_formulas(name: str):
    text = as_table([row(name), {"image": name, "state": "failed", "error": name}]).decode()
    lines = list(csv.reader(io.StringIO(text)))

    assert tuple(lines[0]) == COLUMNS
    assert [len(line) for line in lines] == [len(COLUMNS)] * 3
    assert not any(cell[:1] in ("=", "+", "-", "@", "\t", "\r") for line in lines for cell in line if cell)


def test_rows_that_somebody_edited():
    """No field is trusted to be there, or to be what it was."""
    odd: list[dict[str, Any]] = [
        {"image": "a", "results": []},
        {"image": "a", "results": [None, 3, {}]},
        {"image": "a", "results": [{"target": 3, "top": "x", "files": {"a": 1}, "method": None}], "together": 7},
        {"image": "a", "results": [{"target": {"probability": "x"}, "top": [3], "files": [3, "../x.png", "b.png"]}]},
    ]
    page = as_page("title", odd).decode()

    assert 'src="./b.png"' in page
    assert "../x" not in page
    assert as_table(odd)


def test_numbers_are_short():
    assert encode_csv(("a", "b"), [(1 / 3, None), (7, "x")]) == b"a,b\n0.333333,\n7,x\n"


def test_pages_fit_a_telephone():
    page = as_page("title", [row("cat")]).decode()

    assert 'name="viewport"' in page
    assert "http://" not in page
    assert "https://" not in page
    assert 'alt="heat map of cat.png: cat 0.500"' in page
