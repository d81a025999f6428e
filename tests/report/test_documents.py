"""The model card and report.json: hostile names stay text, and the numbers are those of the parts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from gradskip_onnx.audit.reading import Audit
from gradskip_onnx.report.content import Content, column
from gradskip_onnx.report.mean_maps import mean_maps
from gradskip_onnx.report.model_card import escaped
from gradskip_onnx.report.worst import gallery, worst_cases
from gradskip_onnx.report.write import CARD, DOCUMENT, write_report
from tests.report.hostile import NAMES, VIOLATIONS, found, hostile_audit
from tests.support.audit_data import write_audit


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    audit = hostile_audit(tmp_path_factory.mktemp("documents"))
    write_report(audit, found(audit), VIOLATIONS)
    return audit


def text_of(audit: Audit, file: str) -> str:
    with audit.place.open(file) as stream:
        return stream.read().decode("utf-8")


def test_the_model_card_holds_no_tag_link_or_hidden_character(audit: Audit):
    """Rendered as Markdown, nothing of a name becomes an element."""
    markdown = pytest.importorskip("markdown")
    text = text_of(audit, CARD)
    page = markdown.markdown(text, extensions=["tables"])
    elements = set(re.findall(r"<(\w+)", page))

    assert elements <= {"h2", "p", "strong", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "code"}
    assert "&lt;/script&gt;" in page
    assert re.findall(r"[\x00-\x09\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", text) == []
    assert page.count("<h2>") == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_one_line_of_plain_text(name: str):
    markdown = pytest.importorskip("markdown")
    page = markdown.markdown(escaped(name), extensions=["tables"])

    assert "\n" not in escaped(name)
    assert set(re.findall(r"<(\w+)", page)) <= {"p"}


def test_the_document_agrees_with_the_parts(audit: Audit):
    document = json.loads(text_of(audit, DOCUMENT))
    correct = column(audit, "correct")

    assert document["verdict"]["state"] == "fails"
    assert document["images"] == audit.table.num_rows
    assert document["findings"]["accuracy"]["overall"]["value"] == pytest.approx(np.nanmean(correct))
    assert document["logits_difference"] == "1e-06"
    assert sum(one["images"] for one in document["classes"].values()) == len(audit.explained)


def test_mean_maps_are_means_of_shares(audit: Audit):
    means = mean_maps(audit)
    shares = [np.maximum(scores, 0) / np.maximum(scores, 0).sum() for scores in audit.maps()]
    targets = [row["target"] for row in audit.rows(audit.explained, ["target"])]
    first = [share for share, target in zip(shares, targets, strict=True) if target == 0]

    np.testing.assert_allclose(means.overall, np.mean(shares, axis=0), atol=1e-6)
    np.testing.assert_allclose(means.classes[0], np.mean(first, axis=0), atol=1e-6)
    assert means.overall.sum() == pytest.approx(1)


def test_the_worst_cases_are_the_worst(audit: Audit):
    kinds = {kind.title: positions for kind, positions in worst_cases(audit)}
    rows = audit.table.to_pylist()
    wrong = sorted((row for row in rows if row["correct"] is False), key=lambda row: -row["predicted_probability"])
    every = [position for positions in kinds.values() for position in positions]

    assert kinds["Wrong and sure"] == [row["position"] for row in wrong[:3]]
    assert kinds["Fails the check"] == [5]
    assert len(every) == len(set(every))


def test_the_gallery_is_bounded_and_holds_what_stands_out(tmp_path: Path):
    audit = write_audit(tmp_path, 300, shortcut=0, part_size=100)
    content = Content(audit, found(audit))
    chosen = gallery(content, most=60)
    worst = [position for _, positions in worst_cases(audit) for position in positions]

    assert len(chosen) == 60
    assert chosen == sorted(set(chosen))
    assert set(worst) <= set(chosen)
    assert max(np.diff(gallery(content, most=240))) < 10  # the rest is spread over the data
