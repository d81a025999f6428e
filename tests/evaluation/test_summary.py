"""From lines of a ledger to tables and files, checked by hand."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import numpy as np
import pytest

from gradskip_onnx.datasets import load
from gradskip_onnx.evaluation import Findings, Note, choose_method, choose_metric, set_up, write
from gradskip_onnx.evaluation.chart import chart
from gradskip_onnx.evaluation.cost import prices
from gradskip_onnx.evaluation.documents import as_csv, as_document
from gradskip_onnx.evaluation.evaluate import Report
from gradskip_onnx.evaluation.gather import Curve, gather
from gradskip_onnx.evaluation.records import NAME
from gradskip_onnx.evaluation.run import Run
from gradskip_onnx.evaluation.summary import summarise
from gradskip_onnx.pipeline.ledger import Ledger
from tests.support.evaluation_data import explainer, pictures

ODD = "gradskip[gamma=0.1]"


def line(image: str, method: str, insertion: float, deletion: float, key: str) -> dict[str, Any]:
    numbers = {"insertion": insertion, "deletion": deletion, "difference": insertion - deletion, "probability": 0.9}
    curves = {
        "insertion": [[0, 0.5, 1], [0.0, insertion, 0.8]],
        "deletion": [[0, 0.5, 1], [0.8, deletion, 0.0]],
    }
    case = {"target": 1, "numbers": numbers, "curves": curves, "excluded": "", "checks": {}}
    return {"key": key, "image": image, "method": method, "measure": "curves", "cases": [case], "excluded": ""}


@pytest.fixture
def report(tmp_path) -> Report:
    """Three images: 02.png failed for the second method, a key written twice counts as it was written last."""
    data = pictures(tmp_path / "data", 3)
    methods = [choose_method("rollout"), choose_method("gradskip", gamma=0.1)]
    metrics = [choose_metric("insertion"), choose_metric("insertion-deletion"), choose_metric("gflops")]
    evaluation, _ = set_up(explainer(), load(str(data)), methods, metrics, pictures=0)
    ledger = Ledger(tmp_path / NAME)
    for record in (
        line("00.png", "rollout", 0.1, 0.9, "a"),
        line("00.png", "rollout", 0.5, 0.1, "a"),
        line("01.png", "rollout", 0.7, 0.2, "b"),
        line("02.png", "rollout", 0.9, 0.6, "c"),
        line("00.png", ODD, 0.6, 0.1, "d"),
        line("01.png", ODD, 0.9, 0.2, "e"),
        {"key": "f", "image": "02.png", "method": ODD, "measure": "curves", "error": "no <b>luck</b>"},
        line("99.png", "rollout", 9.0, 9.0, "of another run"),
    ):
        ledger.append(record)
    everything = gather(Ledger.open(tmp_path / NAME), set("abcdef"))
    (tmp_path / "timings.jsonl").write_text(
        "\n".join(
            json.dumps({"model": model, "method": "rollout", "images": 2, "seconds": seconds})
            for model, seconds in ((evaluation.explainer.sha256, 3.0), ("another model", 50.0))
        )
        + '\n{"cut'
    )
    summary = summarise(evaluation, everything, tmp_path, "rollout", resamples=400)
    run = Run.open(evaluation, tmp_path)
    cost = prices(evaluation.explainer, evaluation.methods, "logit", evaluation.method_metrics, run.ledger)
    return Report(evaluation, summary, cost, everything, as_document(evaluation, summary, cost), run)


def test_means_and_differences(report):
    cells = report.summary.cells
    rollout, odd = cells["rollout", "insertion-deletion"], cells[ODD, "insertion-deletion"]

    assert rollout.found.value == pytest.approx((0.4 + 0.5 + 0.3) / 3)
    assert (rollout.found.count, rollout.failed, rollout.gap) == (3, 0, None)
    assert 0.3 <= rollout.found.low <= rollout.found.value <= rollout.found.high <= 0.5
    assert odd.found.value == pytest.approx((0.5 + 0.7) / 2)
    assert (odd.found.count, odd.failed) == (2, 1)
    assert odd.gap.value == pytest.approx((0.1 + 0.2) / 2)  # on the two images that both have
    assert odd.gap.count == 2
    assert odd.p is None  # two pairs prove nothing
    assert report.summary.best(report.summary.columns[1]) == ODD


def test_mean_curves_and_times(report):
    curve = report.summary.curves["curves", "insertion"]["rollout"]

    assert curve.count == 3
    np.testing.assert_allclose(curve.y, [0.0, (0.5 + 0.7 + 0.9) / 3, 0.8])
    assert report.summary.seconds == {"rollout": 1.5}


def test_csv(report):
    rows = list(csv.DictReader(io.StringIO(as_csv(report.summary).decode())))

    assert [(row["method"], row["metric"]) for row in rows] == [
        ("rollout", "insertion"), ("rollout", "insertion-deletion"), (ODD, "insertion"), (ODD, "insertion-deletion"),
    ]  # fmt: skip
    last = rows[-1]
    assert (float(last["value"]), float(last["difference"])) == (0.6, 0.15)
    assert (last["images"], last["failed"], last["reference"], last["p"]) == ("2", "1", "rollout", "")
    assert rows[0]["difference"] == ""


def test_files(report):
    notes = [Note("Tests", head=("name", "p"), rows=(("Friedman & co", "0.5"),))]
    findings = Findings(tuple(notes), document={"study": {"n": 3}})
    paths = write(report, title="A <title>", command="gradskip-onnx evaluate x", findings=findings)

    assert [path.name for path in paths] == ["results.csv", "results.json", "report.html"]
    document = json.loads(paths[1].read_text())
    assert document["study"] == {"n": 3}
    assert document["failures"] == [{"image": "02.png", "method": ODD, "measure": "curves", "reason": "no <b>luck</b>"}]
    first = document["methods"][0]
    assert first["results"]["insertion"]["found"]["value"] == pytest.approx(0.7)
    assert first["cost"]["giga"] > 0
    assert {(each["kind"], each["method"]) for each in document["curves"]} == {
        (kind, method) for kind in ("insertion", "deletion") for method in ("rollout", ODD)
    }


def test_the_page_is_whole_and_safe(report):
    paths = write(report, title="A <title>", command="gradskip-onnx evaluate 'x y'")
    page = paths[2].read_text()

    for method in report.summary.methods:
        assert page.count(method) >= 4  # table, differences, legend, curves
    assert "A &lt;title&gt;" in page
    assert "no &lt;b&gt;luck&lt;/b&gt;" in page
    assert page.count("<polyline") == 4
    assert not any(word in page for word in ("<script", "http://", "https://", "url("))
    assert "0.600" in page


def test_a_chart_spans_its_curves():
    drawn = chart("curves[steps=2]", "deletion", {"m": Curve(np.array([0.0, 1.0]), np.array([-0.6, 0.4]), 1)}, ("m",))
    start, end = (tuple(map(float, point.split(","))) for point in drawn.lines[0].points.split())

    assert drawn.title == "Deletion [steps=2]"
    assert (start[0], end[0]) == (drawn.left, drawn.right)
    assert (start[1], end[1]) == (drawn.bottom, drawn.top)
    assert [tick.text for tick in drawn.y_ticks] == ["-0.6", "-0.4", "-0.2", "0", "0.2", "0.4"]


def test_formulas_stay_text():
    from gradskip_onnx.output.csv_text import no_formula

    assert no_formula("=1+1") == "'=1+1"
    assert no_formula("rollout") == "rollout"
