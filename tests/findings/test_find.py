"""All findings of a made-up audit: values against plain Python over its rows, regions, drift, and the document."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradskip_onnx.audit.private import hidden
from gradskip_onnx.audit.row import Row
from gradskip_onnx.errors import InputError
from gradskip_onnx.findings.documents import encode_findings, read_findings
from gradskip_onnx.findings.find import find, finding_names
from gradskip_onnx.findings.found import Findings
from tests.support.audit_data import failed_row, good_row, write_audit

from .made_audits import anywhere, audit_of

pytest.importorskip("pyarrow")
pytest.importorskip("sklearn")

COLUMNS = {
    "border": "border",
    "inside": "inside",
    "centre-row": "centre_row",
    "centre-column": "centre_column",
    "spread": "spread",
    "concentration": "concentration",
    "negative-share": "negative_share",
    "pointing": "pointed",
    "check-passed": "check_passed",
    "accuracy": "correct",
}


@pytest.fixture(scope="module")
def audit(tmp_path_factory):
    return write_audit(tmp_path_factory.mktemp("audit"), 60, broken=(3, 8), doubted=(5, 20, 21))


@pytest.fixture(scope="module")
def found(audit):
    return find(audit)


def test_findings_are_means_of_their_columns(audit, found):
    rows = [row for row in audit.table.to_pylist() if row["error"] is None]
    for name, column in COLUMNS.items():
        finding, by = found.named(name), "label" if name == "accuracy" else "target"
        assert finding.overall.value == pytest.approx(np.mean([row[column] for row in rows]))
        assert finding.overall.count == len(rows) == 58
        for index, part in finding.classes.items():
            mine = [row[column] for row in rows if row[by] == index]
            assert (part.value, part.count) == (pytest.approx(np.mean(mine)), len(mine))
            assert part.low <= part.value <= part.high


def test_failed_and_doubted_images_are_counted(found):
    assert found.images == 60
    assert found.named("errors").overall.value == 2 / 60
    assert found.named("errors").examples[:2] == (3, 8)
    assert found.named("abstained").overall.value == 3 / 58
    assert set(found.named("abstained").examples[:3]) == {5, 20, 21}
    assert found.named("check-passed").overall.value == 55 / 58


def test_differences_are_taken_image_by_image(audit, found):
    rows = [row for row in audit.table.to_pylist() if row["error"] is None]

    gaps = [row["check_random"] - row["check_erased"] for row in rows]
    assert found.named("check-gap").overall.value == pytest.approx(np.mean(gaps))
    assert set(found.named("check-gap").examples[:3]) == {5, 20, 21}  # no gap at all
    lifts = [row["inside"] - row["inside_area"] for row in rows]
    assert found.named("inside-above-chance").overall.value == pytest.approx(np.mean(lifts))


def test_regions_of_the_user_are_findings(audit, found):
    rows = [row for row in audit.table.to_pylist() if row["error"] is None]

    shares = [row["regions"][0]["share"] for row in rows]
    assert found.named("region:logo").overall.value == pytest.approx(np.mean(shares))
    assert found.named("region-above-chance:logo").overall.value == pytest.approx(np.mean(shares) - 0.04)
    assert found.named("region:logo").better == "neither"
    assert {"region:logo", "border"} <= set(finding_names(["logo"]))


def test_examples_are_the_worst_first(audit, found):
    border = dict(zip(audit.table["position"].to_pylist(), audit.table["border"].to_pylist(), strict=True))

    worst = sorted((at for at in border if border[at] is not None), key=lambda at: -border[at])
    assert list(found.named("border").examples) == worst[:12]


def test_less_than_chance_in_known_evidence_is_flagged(tmp_path):
    rng = np.random.default_rng(0)
    inside = [*rng.uniform(0.5, 0.9, 20), *rng.uniform(0.0, 0.1, 20)]

    audit = audit_of(tmp_path, anywhere(40), [0] * 20 + [1] * 20, inside=inside, inside_area=[0.2] * 40)

    flagged = find(audit).named("inside").flagged
    assert [flag.index for flag in flagged if "chance" in flag.why and "area" in flag.why] == [1]


def test_relevance_on_the_border_above_its_area_is_flagged(tmp_path):
    audit = audit_of(tmp_path, anywhere(20), [0] * 20, border=list(np.linspace(0.5, 0.6, 20)))

    assert [flag.index for flag in find(audit).named("border").flagged] == [None, 0]


def test_a_planted_shortcut_is_seen_in_regions_places_and_clusters(tmp_path):
    """Two thirds of one class look at the lower right corner, where the region `logo` is."""
    found = find(write_audit(tmp_path, 300, shortcut=1))

    for name in ("region:logo", "region-above-chance:logo", "centre-row", "centre-column"):
        assert 1 in [flag.index for flag in found.named(name).flagged], name
    assert [(one.index, one.minority) for one in found.clusters if one.minority] == [(None, True)]
    assert "dog" in next(one.why for one in found.clusters if one.minority)
    assert [one for one in find(write_audit(tmp_path / "clean", 300)).clusters if one.minority] == []


def test_the_same_seed_finds_the_same(audit, found):
    assert encode_findings(find(audit)) == encode_findings(found)


def test_the_document_is_what_readers_expect(found):
    document = json.loads(encode_findings(found))

    assert (document["format"], document["images"]) == (1, 60)
    border = next(one for one in document["findings"] if one["name"] == "border")
    assert set(border) == {"name", "definition", "unit", "better", "overall", "classes", "examples", "flagged"}
    assert set(border["overall"]) == {"value", "low", "high", "count"}
    assert set(border["classes"]) == {"0", "1", "2"}
    assert all(one["better"] in ("higher", "lower", "neither") for one in document["findings"])
    assert all(one["definition"] and one["unit"] for one in document["findings"])


def test_an_audit_of_failures_alone_has_findings(tmp_path):
    found = find(write_audit(tmp_path, rows=[failed_row(at) for at in range(3)]))

    errors = found.named("errors").overall
    assert errors is not None
    assert (errors.value, errors.low) == pytest.approx((1.0, 0.025 ** (1 / 3)))
    assert found.named("border").overall is None
    assert found.clusters == ()


def test_an_audit_without_images_is_refused(tmp_path):
    with pytest.raises(InputError, match="without images"):
        find(write_audit(tmp_path, rows=[]))


def more_on_border(row: Row, by: float) -> Row:
    assert row.border is not None
    return replace(row, border=row.border + by)


def drift_of(found: Findings, name: str) -> Any:
    return next(one for one in found.drift if one.finding == name)


def test_drift_on_the_same_images_is_paired(tmp_path):
    """Each image has 0.1 more on the border: without spread, the drift is certain."""
    rng = np.random.default_rng(0)
    rows = [good_row(at, 3, rng) for at in range(30)]
    then = write_audit(tmp_path / "then", rows=rows)
    now = write_audit(tmp_path / "now", rows=[more_on_border(row, 0.1) for row in rows])

    drift = drift_of(find(now, then), "border")

    assert drift.paired
    assert (drift.overall.value, drift.overall.low, drift.overall.high) == pytest.approx((0.1, 0.1, 0.1))
    assert drift.overall.count == 30
    assert {index: one.count for index, one in drift.classes.items()} == {0: 10, 1: 10, 2: 10}
    assert drift_of(find(now, then), "agreement").overall.value == pytest.approx(0.0)


def test_drift_from_a_private_audit_is_paired(tmp_path):
    """An audit without names knows its images by the hashes of their names."""
    rng = np.random.default_rng(0)
    rows = [good_row(at, 3, rng) for at in range(30)]
    private = [replace(row, image=hidden(row.image)) for row in rows]
    then = write_audit(tmp_path / "then", rows=private, privacy=True)
    now = write_audit(tmp_path / "now", rows=[more_on_border(row, 0.1) for row in rows])

    for found, change in ((find(now, then), 0.1), (find(then, now), -0.1)):
        drift = drift_of(found, "border")
        assert drift.paired
        assert drift.overall.value == pytest.approx(change)


def test_drift_between_other_images_compares_means(tmp_path):
    rng = np.random.default_rng(0)
    rows = [good_row(at, 3, rng) for at in range(40)]
    others = [replace(more_on_border(good_row(at, 3, rng), 0.3), image=f"b/{at}.png") for at in range(60)]

    drift = drift_of(find(write_audit(tmp_path / "b", rows=others), write_audit(tmp_path / "a", rows=rows)), "border")

    one, other = (np.array([row.border for row in some]) for some in (others, rows))
    assert not drift.paired
    assert drift.overall.value == pytest.approx(one.mean() - other.mean())
    welch = pytest.importorskip("scipy.stats").ttest_ind(one, other, equal_var=False).confidence_interval(0.95)
    assert (drift.overall.low, drift.overall.high) == pytest.approx((welch.low, welch.high))


def test_drift_of_an_audit_from_itself_is_nothing(audit):
    found = find(audit, audit)

    assert {one.overall.value for one in found.drift if one.overall} == {0.0}
    assert {"accuracy", "border", "agreement", "region:logo"} <= {one.finding for one in found.drift}


def test_the_baseline_is_named_with_what_was_asked_otherwise(tmp_path):
    rows = [good_row(at, 3, np.random.default_rng(0)) for at in range(12)]
    then = write_audit(tmp_path / "then", rows=rows)
    now = write_audit(tmp_path / "now", rows=rows, method="rollout", options={})

    found = find(now, then)

    assert found.baseline is not None
    assert found.baseline.model_sha256 == then.facts["model"]["sha256"]
    assert set(found.baseline.differs) >= {"method"}
    alike = find(then, then).baseline
    assert alike is not None
    assert alike.differs == ()
    (tmp_path / "now" / "findings.json").write_bytes(encode_findings(found))
    assert read_findings(now.place).baseline == found.baseline


def test_an_audit_of_other_classes_is_no_baseline(tmp_path):
    rows = [good_row(at, 3, np.random.default_rng(0)) for at in range(12)]
    other = write_audit(tmp_path / "other", rows=rows, classes=9)

    with pytest.raises(InputError, match="the number of classes is 9"):
        find(write_audit(tmp_path / "now", rows=rows), other)
