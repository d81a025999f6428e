"""The documentation site builds without a warning, leaves no page out, and asks nothing of other servers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
# What a browser would fetch from another server by itself; links that a reader may follow are none of it.
LOADED = re.compile(r"""<(?:script|img|iframe|source)\b[^>]*\bsrc="(?:https?:)?//|<link\b[^>]*\bhref="//""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("mkdocs") is None or find_spec("material") is None:
        pytest.skip("needs mkdocs-material, of the extra docs")
    folder = tmp_path_factory.mktemp("site")
    words = ["build", "-f", str(ROOT / ".mkdocs.yml"), "--strict", "-d", str(folder)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # an advertisement
    done = subprocess.run([sys.executable, "-m", "mkdocs", *words], capture_output=True, text=True, env=quiet)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_every_page_is_there(site: Path):
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} | {"index", "contributing", "changelog", "security"}

    assert {path.stem for path in site.glob("*.html")} == pages | {"404"}
    assert {path.stem for path in (site / "notebooks").glob("*.html")} == {"first-steps", "compare-methods"}


def test_pictures_of_notebooks_are_there(site: Path):
    shown = re.findall(r'<img alt="output" src="([^"]+)"', (site / "notebooks" / "first-steps.html").read_text())

    assert len(shown) >= 4
    assert all((site / "notebooks" / name).stat().st_size > 1000 for name in shown)


def test_nothing_is_asked_of_other_servers(site: Path):
    assert [path.name for path in site.rglob("*.html") if LOADED.search(path.read_text(encoding="utf-8"))] == []
    assert LOADED.search('<script src="https://example.org/x.js">')  # the check can fail
