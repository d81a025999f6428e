"""The overview of a folder of explanations: index.html for people, summary.csv for tables.

What is shown comes from file names, labels and a ledger that anybody may have edited: every text is escaped, links lead
to files of the folder only, and the page loads nothing from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from gradskip_onnx.errors import printable

from .csv_text import encode_csv

PAGE, CSV = "index.html", "summary.csv"
COLUMNS = (
    "image", "status", "class", "label", "probability", "logit", "method", "model", "picture", "map", "facts", "error",
)  # fmt: skip
KINDS = {"png": "picture", "npy": "map", "json": "facts"}

Row = Mapping[str, Any]
POLICY = "default-src 'none'; img-src 'self' file:; style-src 'unsafe-inline'"

STYLE = """
:root { color-scheme: light dark; --line: #8884; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 0 auto; padding: 1rem; max-width: 1500px; }
h1 { font-size: 1.25rem; margin: 0 0 .25rem; overflow-wrap: anywhere; }
p { margin: .2rem 0; overflow-wrap: anywhere; }
main { display: grid; gap: 1rem; margin-top: 1rem; }
main { grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); }
article { border: 1px solid var(--line); border-radius: .5rem; padding: .75rem; }
h2 { font-size: 1rem; margin: 0 0 .4rem; overflow-wrap: anywhere; }
img { display: block; width: 100%; height: auto; border-radius: .25rem; background: #fff; }
.small { font-size: .85rem; opacity: .8; }
.failed { border-color: #c33; }
"""


def as_table(rows: Sequence[Row]) -> bytes:
    """The CSV: a line for each explained class, and one for each image that failed."""
    return encode_csv(COLUMNS, (line for row in rows for line in _lines(row)))


def as_page(title: str, rows: Sequence[Row]) -> bytes:
    """The page: a card an image, with its picture, the explained class and links to its files."""
    failed = sum("error" in row for row in rows)
    count = f"{len(rows) - failed} images explained" + (f", {failed} failed" if failed else "")
    cards = "\n".join(map(_card, rows))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{_text(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{_text(title)}</h1>
<p class="small">{count}. All numbers: <a href="{CSV}">{CSV}</a>. A picture enlarges when it is clicked.</p>
<main>
{cards}
</main>
</body>
</html>
""".encode("utf-8", "backslashreplace")


def _card(row: Row) -> str:
    name = _text(PurePath(str(row["image"])).name or str(row["image"]))
    if "error" in row:
        return f'<article class="failed"><h2>{name}</h2><p>failed: {_text(row["error"])}</p></article>'
    results = [result for result in row["results"] if isinstance(result, Mapping)]
    picture = row.get("together") or next((path for one in results for path in _files(one).get("png", [])), None)
    shown = ""
    if isinstance(picture, str):
        link = _link(picture)
        shown = f'<a href="{link}"><img loading="lazy" src="{link}" alt="heat map of {name}: {_words(results[0])}"></a>'
    return f"<article><h2>{name}</h2>{shown}{''.join(map(_paragraph, results))}</article>"


def _paragraph(result: Row) -> str:
    """The explained class, the runners-up and the files of one result."""
    target = _mapping(result.get("target"))
    others = [entry for entry in map(_mapping, _list(result.get("top"))) if entry.get("index") != target.get("index")]
    rest = ", ".join(f"{_text(_label(entry))} {_number(entry.get('probability'))}" for entry in others[:2])
    files = ((KINDS[kind], path) for kind, many in _files(result).items() for path in many)
    links = " · ".join(f'<a href="{_link(path)}">{word}</a>' for word, path in files)
    return (
        f"<p><strong>{_words(result)}</strong>{f' <span class=small>then {rest}</span>' if rest else ''}</p>"
        f'<p class="small">{_text(result.get("method"))}, {_text(result.get("model"))} · {links}</p>'
    )


def _words(result: Row) -> str:
    target = _mapping(result.get("target"))
    return f"{_text(_label(target))} {_number(target.get('probability'))}"


def _lines(row: Row) -> Iterator[tuple[object, ...]]:
    if "error" in row:
        yield (str(row["image"]), "failed", *[None] * 9, str(row["error"]))
        return
    for result in (each for each in row["results"] if isinstance(each, Mapping)):
        target, files = _mapping(result.get("target")), _files(result)
        paths = (next(iter(files.get(kind, ())), None) for kind in KINDS)
        facts = (target.get(name) for name in ("index", "label", "probability", "logit"))
        yield (str(row["image"]), "explained", *facts, result.get("method"), result.get("model"), *paths, None)


def _files(result: Row) -> dict[str, list[str]]:
    """The files of a result by their kind; names only, so that nothing leads out of the folder."""
    found: dict[str, list[str]] = {}
    for name in _list(result.get("files")):
        kind = str(name).rpartition(".")[2]
        if isinstance(name, str) and kind in KINDS and PurePath(name).name == name:
            found.setdefault(kind, []).append(name)
    return found


def _link(name: str) -> str:
    """A file of the folder as a link: no name can be taken for a scheme, a host or a query."""
    return "./" + quote(PurePath(name).name.encode("utf-8", "surrogateescape"))


def _label(entry: Row) -> str:
    return str(entry.get("label") or f"class {entry.get('index')}")


def _number(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float | int) else ""


def _text(value: object) -> str:
    """A text for HTML; what cannot be printed, or is no Unicode, becomes a question mark."""
    flat = printable(str(value if value is not None else ""))
    return escape(flat.encode("utf-8", "replace").decode(), quote=True)


def _mapping(value: object) -> Row:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
