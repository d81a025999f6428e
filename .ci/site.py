"""Hooks of the documentation site: files of the root become pages, notebooks too, and drawings come as they were drawn.

The pages are written to be read on a forge as well, where README.md lies above docs/, mermaid is drawn and notebooks
are shown. Here links are turned, and nothing is asked of another server.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
LINK = re.compile(r"(?P<before>\]\()(?P<target>[^)#:\s]*)(?P<anchor>#[^)]*)?\)")
SECOND = re.compile(r"-(\d)$")  # of two headings alike, forges call the second x-1, Markdown's Python package x_1
# The first item of a list right below a line of text: a list on forges, text for Markdown's Python package.
LIST = re.compile(r"^((?!\s|[-*|>#`<]|\d+\. ).*\S.*)\n((?:[-*]|1\.) +\S)", re.MULTILINE)
MERMAID = re.compile(r"^```mermaid\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the files of the root, and a page for each notebook."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=LINK.sub(_from_root, text)))
    files.append(File.generated(config, "LICENSE.txt", content=(ROOT / "LICENSE").read_text(encoding="utf-8")))
    for path in sorted(Path(config.docs_dir, "notebooks").glob("*.ipynb")):
        text, pictures = notebook_page(json.loads(path.read_text(encoding="utf-8")), path.stem)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
        for name, content in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Turn links to files outside docs/, and put drawings in the place of mermaid."""
    markdown = MERMAID.sub(drawing, markdown)
    return LINK.sub(_inside_docs, LIST.sub(r"\1\n\n\2", markdown))


def drawing(match: re.Match[str]) -> str:
    """The picture of a mermaid block, which `.ci/draw` made; the block itself if it has changed since.

    The name of the picture holds the hash of the block, so that it is never of an older one.
    """
    name = f"images/drawings/{hashlib.sha256(match['code'].encode()).hexdigest()[:12]}.svg"
    if not (ROOT / "docs" / name).exists():
        return match[0].replace("mermaid", "text", 1)
    return f"[![drawing]({name})]({name})"  # a click shows it in full size


def _from_root(match: re.Match[str]) -> str:
    """A link of README.md and its neighbours, as one of a page in docs/."""
    target = match["target"]
    turned = PAGES.get(target) or {"LICENSE": "LICENSE.txt"}.get(target) or target.removeprefix("docs/")
    return f"{match['before']}{turned}{match['anchor'] or ''})"


def _inside_docs(match: re.Match[str]) -> str:
    """A link of a page in docs/: to a page made of a file of the root, to a notebook, or to a folder."""
    target, anchor = match["target"], SECOND.sub(r"_\1", match["anchor"] or "")
    if not target:
        pass
    elif target.startswith("../") and target.removeprefix("../") in PAGES:
        target = PAGES[target.removeprefix("../")]
    elif target.endswith(".ipynb"):
        target = f"{target.removesuffix('.ipynb')}.md"
    elif (ROOT / "docs" / target).is_dir():  # of an example: its first file
        target = f"{target.rstrip('/')}/pyproject.toml"
    return f"{match['before']}{target}{anchor})"


def notebook_page(notebook: dict[str, Any], stem: str) -> tuple[str, dict[str, bytes]]:
    """An executed notebook as Markdown, and its pictures by file name."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        parts.extend(_output(output, stem, pictures) for output in cell["outputs"])
    first, *rest = parts
    download = f'This page is a notebook: <a href="{stem}.ipynb" download>{stem}.ipynb</a>.'
    return "\n\n".join([first, download, *rest]) + "\n", pictures


def _output(output: dict[str, Any], stem: str, pictures: dict[str, bytes]) -> str:
    data = output.get("data", {})
    for kind in ("image/png", "image/jpeg"):
        if kind not in data:
            continue
        name = f"{stem}-{len(pictures)}.{kind.removeprefix('image/')}"
        pictures[name] = base64.b64decode("".join(data[kind]))
        return f"![output]({name})"
    text = "".join(output.get("text", data.get("text/plain", "")))
    return f"```text\n{text.rstrip()}\n```"
