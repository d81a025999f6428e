"""The blocks of code of the pages, in order, with what is said about running them."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
# Python that is no program of its own, or that other tests run: signatures; parts of a package that
# test_plugin_template.py installs; bridges that tests/adapters tries; recipes that test_contributing.py tries.
NO_PROGRAMS = {"api.md", "plugins.md", "adapters.md", "CONTRIBUTING.md"}

BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<code>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
NOT_RUN = re.compile(r"<!-- not run: (.+?) -->\s*\Z")
COMMAND = re.compile(r"^ *(?:gradskip-onnx|python3?|pip|pytest|npm|npx|mkdocs|curl|uvicorn|bash) +\S", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Snippet:
    """A block of code, where it stands, and why it is not run (None: it is)."""

    page: Path
    line: int
    language: str
    code: str
    not_run: str | None

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"

    @property
    def needs(self) -> set[str]:
        """Packages beyond those of the quick tests."""
        imported = {"torch", "timm", "fastapi"} & set(re.findall(r"^(?:import|from) (\w+)", self.code, re.MULTILINE))
        return imported | ({"torch"} if "gradskip-onnx export" in self.code else set())


def blocks(page: Path) -> Iterator[Snippet]:
    """Every fenced block of a page."""
    text = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        reason = NOT_RUN.search(text, 0, match.start())
        line = text.count("\n", 0, match.start()) + 1
        code = textwrap.dedent(match["code"])
        yield Snippet(page, line, match["language"], code, reason[1] if reason else None)


def programs(page: Path) -> list[Snippet]:
    """The blocks that a reader may paste into a shell or into Python."""
    wanted = {"sh"} if page.name in NO_PROGRAMS else {"sh", "python"}
    return [block for block in blocks(page) if block.language in wanted]


def unmarked_commands(page: Path) -> list[str]:
    """Lines that look like commands and stand in no `sh` block, where nobody would try them."""
    text = page.read_text(encoding="utf-8")
    other = [block.code for block in blocks(page) if block.language == ""]
    indented = re.findall(r"^(?: {4}.*\n)+", BLOCK.sub("", text), re.MULTILINE)
    return [found[0] for code in (*other, *indented) for found in COMMAND.finditer(code)]


def lines(code: str) -> list[str]:
    """Logical lines of a shell block, without comments."""
    joined = code.replace("\\\n", " ")
    return [line for line in joined.splitlines() if shlex.split(line, comments=True)]


def commands(line: str) -> list[list[str]]:
    """The words of each command of a line; operators between commands and redirections are dropped."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;<>")
    lexer.whitespace_split, lexer.commenters = True, "#"
    found: list[list[str]] = [[]]
    words = iter(lexer)
    for word in words:
        if set(word) <= set("&|;"):
            found.append([])
        elif set(word) <= set("<>"):
            next(words)
        else:
            found[-1].append(word)
    return [command for command in found if command]


def inline_commands(page: Path) -> list[str]:
    """Commands of ours in the running text that name a file; the others are sketches."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    found = [" ".join(code.split()) for code in re.findall(r"`(gradskip-onnx [^`]+)`", text)]
    return [code for code in found if ".onnx" in code and not re.search(r"[\[…]|\.\.\.", code)]
