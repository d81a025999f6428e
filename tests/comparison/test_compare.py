"""Two audits compared: values counted by hand, pairs found by name, and the files that are written."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradskip_onnx.audit.place import open_place
from gradskip_onnx.audit.reading import Audit
from gradskip_onnx.audit.row import Row, map_facts
from gradskip_onnx.comparison.compare import NAMES, compare, tail
from gradskip_onnx.comparison.files import CSV, JSON, PAGE, PARQUET, write_comparison
from gradskip_onnx.comparison.page import side_names
from gradskip_onnx.comparison.summary import sentences, verdict
from gradskip_onnx.errors import InputError
from gradskip_onnx.findings.found import Findings
from gradskip_onnx.findings.policy import read_policy
from gradskip_onnx.findings.violations import Violation, check
from gradskip_onnx.metrics.statistics import Interval
from tests.findings.made_audits import anywhere, audit_of
from tests.support.audit_data import failed_row, good_row, write_audit
from tests.support.browser import DESKTOP, PHONE, opened

pytest.importorskip("pyarrow")
pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Twelve images: the maps of the last four are reversed in the second audit, and two classes flip."""
    folder = tmp_path_factory.mktemp("pair")
    maps, targets = anywhere(12), [0, 1, 2] * 4
    changed = [*maps[:8], *(-scores for scores in maps[8:])]
    said = [*targets[:10], 0, 0]
    labels = [*targets[:9], 2, 2, 2]
    probability = np.linspace(0.9, 0.5, 12)
    first = audit_of(folder / "a", maps, targets, label=labels, probability=probability)
    second = audit_of(folder / "b", changed, targets, label=[0] * 12, probability=probability - 0.1)
    return first, replaced(second, said, folder / "c")


def replaced(audit: Audit, said: Sequence[int], folder: Path) -> Audit:
    """The audit with other predicted classes."""
    rows = [
        Row(position=row["position"], image=row["image"], image_sha256=row["image_sha256"], target=row["target"],
            label=row["label"], probability=row["probability"], predicted=predicted, **map_facts(scores))
        for row, predicted, scores in zip(audit.table.to_pylist(), said, audit.maps(), strict=True)
    ]  # fmt: skip
    return write_audit(folder, rows=rows)


@pytest.fixture(scope="module")
def compared(pair):
    return compare(*pair)


def test_flips_are_counted(compared):
    flips = compared.found.named("flips")

    assert (flips.overall.value, flips.overall.count) == (pytest.approx(2 / 12), 12)
    assert set(flips.examples) == {10, 11}
    assert {index: part.value for index, part in flips.classes.items()} == {0: 0.0, 1: 0.25, 2: 0.25}


def test_similarities_are_means_over_images(compared):
    spearman = compared.found.named("spearman")

    assert spearman.overall.value == pytest.approx((8 - 4) / 12)
    assert spearman.classes[0].value == pytest.approx((3 - 1) / 4)  # images 0, 3, 6 and 9, of which 9 is reversed
    assert set(spearman.examples[:4]) == {8, 9, 10, 11}
    assert compared.found.named("ndcg").overall.value < 1
    assert compared.found.named("iou").overall.count == 12


def test_what_the_models_say_is_compared_with_the_labels_of_the_first(compared):
    """The first is right in images 0 to 8 and 11, the second in 0 to 8: it says 0 in the last two, labelled 2."""
    change = compared.found.named("accuracy-change").overall

    assert change.value == pytest.approx((9 - 10) / 12)
    assert compared.found.named("probability-change").overall.value == pytest.approx(-0.1)


def test_the_tail_is_a_quantile():
    values = np.arange(101.0) / 100

    found = tail((0.0, 1.0))(500, 0)(values)

    assert found.value == pytest.approx(0.05)
    # Binomial(101, 0.05) is 0 in 0.6 % and above 10 in 1.4 % of cases, above 9 in 3.0 %: the ranks 1 and 11
    assert (found.low, found.high) == (0.0, 0.1)
    alone = tail((-1.0, 1.0))(500, 0)(np.array([0.3]))
    assert (alone.low, alone.high) == (-1.0, 1.0)


@pytest.mark.parametrize("images", [10, 50, 200])
def test_the_interval_of_the_tail_holds_it(images):
    """Of a uniform distribution, in 400 sets; resamples of ten images hold it in 40 of 100, as none may be so low."""
    rng = np.random.default_rng(0)
    found = [tail((0.0, 1.0))(0, 0)(rng.random(images)) for _ in range(400)]

    assert np.mean([one.low <= 0.05 <= one.high for one in found]) >= 0.94


def overall_of(found: Findings, name: str) -> Interval:
    overall = found.named(name).overall
    assert overall is not None
    return overall


def test_an_audit_agrees_with_itself_exactly(pair):
    found = compare(pair[0], pair[0]).found

    assert overall_of(found, "flips").value == 0
    for name in ("spearman", "iou", "ndcg", "spearman-tail", "iou-tail", "ndcg-tail"):
        overall = overall_of(found, name)
        assert (overall.value, overall.low, overall.high) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize(("other", "title"), [(0, "Some of the images: all maps are equal"), (1, "The least alike")])
def test_pairs_are_called_what_they_are(tmp_path, pair, other, title):
    write_comparison(open_place(tmp_path), compare(pair[0], pair[other]), ("one", "two"))

    assert f'<h2 id="least-title">{title}</h2>' in (tmp_path / PAGE).read_text()


def test_equal_is_said_of_equal_bits_alone(tmp_path, pair):
    """Maps that rank every place alike are not equal if their numbers differ."""
    first = pair[0]
    assert verdict(compare(first, first), None).text.endswith("Every answer and every map is the same.")
    rng = np.random.default_rng(0)
    rows = [good_row(at, 3, rng) for at in range(8)]
    scaled = [replace(row, **map_facts(2 * row.map)) for row in rows if row.map is not None]
    found = compare(write_audit(tmp_path / "a", rows=rows), write_audit(tmp_path / "b", rows=scaled))

    assert overall_of(found.found, "spearman").value == 1.0
    assert "Every answer and every map is the same" not in verdict(found, None).text
    assert not any("number by number" in text for text in sentences(found, ("one", "two")))


def test_the_summary_has_the_figures_of_the_findings(compared):
    text = " ".join(sentences(compared, ("one", "two"))).replace("\xa0", " ")
    flips, overlap = (overall_of(compared.found, name) for name in ("flips", "iou"))

    assert "one and two were asked about 12 images." in text
    assert f"two gives another class to {flips.value:.1%}".replace("%", " %") in text
    assert f"overlap by {overlap.value:.1%}".replace("%", " %") in text
    change = 100 * overall_of(compared.found, "accuracy-change").value
    assert f"Its share of right answers changes by −{-change:.1f} percentage points (−" in text


def test_broken_rules_are_said_in_plain_words(compared):
    rules = [
        Violation("findings.flips.max", "flips", None, 2 / 12, 0.02, 0.48, 0.1, "as in the file"),
        Violation("findings.flips.max", "flips", None, 2 / 12, 0.02, 0.48, 0.2, "as in the file"),
        Violation("findings.spearman.min", "spearman", 0, 0.5, 0.2, 0.7, 0.9, "as in the file"),
        Violation("findings.iou.min", "iou", None, None, None, None, 0.9, "iou: not measured"),
    ]
    broken = [text.replace("\xa0", " ") for text in verdict(compared, rules).broken]

    assert broken == [
        "Other answers, all images: 16.7 % (2.0 to 48.0 %); at most 10.0 % is allowed",
        "Other answers, all images: 16.7 % (2.0 to 48.0 %); at most 20.0 % is allowed, for the whole interval",
        "Rank correlation of the maps, cat: 0.500 (0.200 to 0.700); at least 0.900 is asked for",
        "iou: not measured",
    ]


def test_pairs_are_found_by_name_and_failures_are_left_out(tmp_path):
    rng = np.random.default_rng(0)
    rows = [good_row(at, 3, rng) for at in range(6)]
    first = write_audit(tmp_path / "a", rows=[*rows[:5], failed_row(5, rows[5].image)])
    moved = [replace(row, position=at) for at, row in enumerate([rows[5], *rows[1:5]])]

    found = compare(first, write_audit(tmp_path / "b", rows=moved))

    assert found.pairs.images == tuple(row.image for row in rows[1:5])
    assert found.pairs.left_out == 2
    assert overall_of(found.found, "spearman").value == 1.0


def test_audits_that_cannot_be_compared_are_refused(tmp_path, pair):
    rng = np.random.default_rng(0)
    other = write_audit(tmp_path / "classes", 4, labels=("cat", "dog"))
    with pytest.raises(InputError, match="A and B cannot be compared: the number of classes is 3 in A, 2 in B"):
        compare(pair[0], other)
    with pytest.raises(InputError, match="no image in common"):
        compare(pair[0], write_audit(tmp_path / "names", 4))
    rows = [replace(good_row(0, 3, rng), image="0.png", image_sha256="f" * 64)]
    with pytest.raises(InputError, match=r"different bytes as '0.png'"):
        compare(pair[0], write_audit(tmp_path / "bytes", rows=rows))


def test_sides_are_named_by_what_differs(tmp_path):
    def audit(name: str, **facts: Any) -> Audit:
        return write_audit(tmp_path / name, 1, **facts)

    plain = audit("plain")
    assert side_names(plain, audit("int8", model={"file": "int8.onnx", "sha256": "b" * 64})) == (
        "vit.onnx",
        "int8.onnx",
    )
    assert side_names(plain, audit("method", method="rollout")) == ("vit.onnx, gradskip+", "vit.onnx, rollout")
    assert side_names(plain, plain) == ("A: vit.onnx", "B: vit.onnx")


@pytest.fixture(scope="module")
def written(compared, tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    (folder / "policy.toml").write_text("[findings.flips]\nmax = 0.1\n[findings.spearman]\nmin = 0.2")
    policy = read_policy(folder / "policy.toml", NAMES, ("findings",))
    violations = check(policy, compared.found, compared.first)
    write_comparison(open_place(folder), compared, ("one", "two"), policy=policy, violations=violations)
    return folder


def test_the_tables_have_a_row_a_pair(written):
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(written / PARQUET).to_pylist()
    rows = list(csv.DictReader(io.StringIO((written / CSV).read_text())))
    assert len(table) == len(rows) == 12
    assert [row["flipped"] for row in table] == [0.0] * 10 + [1.0, 1.0]
    assert (table[10]["predicted_a"], table[10]["predicted_b"]) == (1, 0)
    assert [float(row["spearman"]) for row in rows] == pytest.approx([1] * 8 + [-1] * 4)


def test_the_document_names_both_sides_and_the_violations(written):
    document = json.loads((written / JSON).read_text())

    assert (document["format"], document["images"], document["left_out"]) == (1, 12, 0)
    assert document["first"]["name"] == "one"
    assert document["same_classes_explained"] is True
    assert [one["rule"] for one in document["violations"]] == ["findings.flips.max"]
    assert json.loads((written / "violations.json").read_text())["violations"] == document["violations"]
    assert {one["name"] for one in document["findings"]} == set(NAMES)


def test_an_earlier_verdict_does_not_outlive_its_policy(written, compared):
    write_comparison(open_place(written), compared, ("one", "two"))

    assert not (written / "violations.json").exists()
    assert json.loads((written / JSON).read_text())["violations"] is None


def hostile(folder: Path) -> str:
    """Writes a comparison whose names try to run and to hide, and returns what one of them begins with."""
    rng = np.random.default_rng(0)
    evil = '"><script>window.hacked=1</script><img src=x onerror=window.hacked=1>\u202e\x1b[31m'
    labels = (evil, "=cmd()", "dog")
    rows = [replace(good_row(at, 3, rng), image=f"{evil}{at}.png") for at in range(8)]
    first = write_audit(folder / "a", rows=rows, labels=labels, model={"file": evil, "sha256": "a" * 64})
    others = [replace(row, predicted=(row.predicted or 0) + 1 if row.predicted != 2 else 0) for row in rows]
    second = write_audit(folder / "b", rows=others, labels=labels, method=evil)
    found, policy = compare(first, second), folder / "policy.toml"
    policy.write_text('[findings.flips]\nmax = 0\nclasses = "every"\nimages = 1\n')
    rules = read_policy(policy, NAMES, ("findings",))
    write_comparison(
        open_place(folder), found, side_names(first, second), policy=rules,
        violations=check(rules, found.found, found.first), command=f"gradskip-onnx compare {evil}",
    )  # fmt: skip
    return evil


def test_the_page_runs_nothing_whatever_the_names_are(tmp_path):
    hostile(tmp_path)

    page = (tmp_path / PAGE).read_text()
    assert "<script" not in page
    assert "<img src=x" not in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert "⟨U+202E⟩" in page
    assert "default-src &#39;none&#39;" in page  # escaped in an attribute, which browsers undo
    assert "http://" not in page
    text = (tmp_path / CSV).read_text(encoding="utf-8")
    assert all(not row["image"].startswith("=") for row in csv.DictReader(io.StringIO(text)))


@pytest.mark.slow
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_in_a_browser_nothing_is_asked_for_and_no_name_runs(tmp_path, size):
    hostile(tmp_path)
    with opened(tmp_path / PAGE, size) as view:
        view.page.wait_for_timeout(200)

        assert [url for url in view.requests if not url.startswith("data:")] == [(tmp_path / PAGE).as_uri()]
        assert view.complaints == []
        assert view.page.evaluate("window.hacked") is None
        assert view.page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
        assert view.page.evaluate("[...document.images].every(image => image.alt)")
        assert view.page.evaluate("document.documentElement.scrollWidth") <= size[0]
        assert view.page.inner_text(".verdict .big").endswith("Fails")
