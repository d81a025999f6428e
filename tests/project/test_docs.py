"""The pages say what the code does: every reason code, claim, method, option and limit is documented."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

import gradskip_onnx
from gradskip_onnx import limits
from gradskip_onnx.methods import METHODS
from tests.support.models import vit

ROOT = Path(__file__).parent.parent.parent


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def reason_codes() -> set[str]:
    """Codes the library can refuse a model with, read off its source."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "gradskip_onnx").rglob("*.py"))
    raised = re.findall(r"(?:UnsupportedModelError|_refuse)\(\s*\"([a-z-]+)\"", text)
    missed = re.findall(r"Mismatch\(\"[a-z]+\", [\w.]+, \"([a-z-]+)\"", text)
    return {*raised, *missed, *re.findall(r"super\(\).__init__\(\"([a-z-]+)\"", text)}


def test_reason_codes_are_documented():
    documented = set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", page("docs/introspection.md")))

    assert len(reason_codes()) > 15
    assert reason_codes() <= documented


def test_claims_are_documented():
    """Each kind of proof stands in the table of proofs."""
    text = page("docs/introspection.md")
    claims = {proof.claim for proof in gradskip_onnx.inspect(vit().SerializeToString()).proofs}

    assert len(claims) >= 8
    assert [claim for claim in claims if f"| {claim} |" not in text] == []


def described(name: str) -> str:
    """Where a method is described: its own page, or its section of the page of all methods."""
    if (ROOT / "docs" / f"{name}.md").exists():
        return page(f"docs/{name}.md")
    sections = re.split(r"^#+ ", page("docs/methods.md"), flags=re.MULTILINE)
    return next((section for section in sections if section.startswith(f"`{name}`\n")), "")


@pytest.mark.parametrize("name", sorted(METHODS))
def test_methods_and_options_are_documented(name: str):
    names = [field.name for field in dataclasses.fields(METHODS[name].options)]

    assert described(name) != ""
    assert [option for option in names if f"`{option}" not in described(name)] == []
    assert f"| [`{name}`](" in page("docs/methods.md")


def test_methods_are_found_from_the_first_page():
    assert "(docs/methods.md)" in page("README.md")


def test_links_between_pages_lead_somewhere():
    pages = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
    broken = [
        f"{source.name}: {target}"
        for source in pages
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", source.read_text(encoding="utf-8"))
        if not (source.parent / target).exists()
    ]

    assert broken == []


def test_every_page_is_found_from_the_first_page():
    pages = [path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")]

    assert [name for name in [*pages, "CONTRIBUTING.md", "SECURITY.md"] if f"({name})" not in page("README.md")] == []


LIMITS = {name: limit for name, limit in vars(limits).items() if isinstance(limit, limits.Limit)}


def amount(limit: limits.Limit) -> str:
    """A limit as the table writes it: bytes in GiB or MiB."""
    if limit.unit != "bytes":
        return f"{limit.default:,}"
    return f"{limit.default >> 30} GiB" if limit.default >= 1 << 30 else f"{limit.default >> 20} MiB"


@pytest.mark.parametrize(("name", "limit"), LIMITS.items())
def test_limits_are_those_of_the_code(name: str, limit: limits.Limit):
    """Every limit has a row with its amount and what it bounds."""
    (row,) = [line for line in page("SECURITY.md").splitlines() if line.startswith(f"| `{name}` |")]

    assert row.split("|")[2].strip() == amount(limit)
    assert len(row.split("|")[3]) > 20


def test_the_citation_is_of_this_version():
    assert f"\nversion: {gradskip_onnx.__version__}\n" in page("CITATION.cff")


def test_quick_tests_are_called_alike():
    """One selection, named in four places."""
    quick = 'pytest -m "not slow and not torch"'

    assert [name for name in (".github/workflows/ci.yml", "CONTRIBUTING.md", "README.md", "docs/release.md")
            if quick not in page(name)] == []  # fmt: skip
