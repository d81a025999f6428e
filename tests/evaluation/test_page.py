"""The page of an evaluation: captions, orders, alternative texts, meanings, versions, and nothing from outside."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from gradskip_onnx import __version__, api
from gradskip_onnx.datasets import load
from gradskip_onnx.errors import InputError
from gradskip_onnx.evaluation import Report, choose_method, choose_metric, evaluate, set_up, write
from gradskip_onnx.evaluation.image_facts import accuracy, image_facts, values_of, worst
from tests.support.command_line import fails, run
from tests.support.evaluation_data import FLAGS, PREPROCESS, model_bytes, pictures

NAMES = ["ant, an insect", "bee", "cat", "dog", "<elk>"]
COUNT = 6


def evaluated(folder: Path, target: str = "predicted") -> Report:
    explainer = api.load(model_bytes(), preprocess=PREPROCESS, labels=NAMES, threads=1)
    methods = [choose_method("rollout"), choose_method("grad-cam")]
    metrics = [choose_metric("insertion", steps=4), choose_metric("deletion", steps=4)]
    evaluation, _ = set_up(explainer, load(str(pictures(folder / "data", COUNT))), methods, metrics, target=target)
    report = evaluate(evaluation, folder / "out", resamples=100)
    write(report, title="a test")
    return report


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return evaluated(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def page(report: Report) -> str:
    return (report.run.folder / "report.html").read_text(encoding="utf-8")


class Tags(HTMLParser):
    """Every tag of a page with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def of(self, name: str) -> list[dict[str, str | None]]:
        return [attrs for tag, attrs in self.found if tag == name]


def test_captions_name_the_class_explained_its_probability_and_the_label(report: Report, page: str):
    explainer = report.evaluation.explainer
    captions = [html.unescape(text) for text in re.findall(r"<h3>.*?</h3>\s*<p>(.*?)(?: <span.*?)?</p>", page)]
    assert len(captions) == COUNT
    for at, (entry, caption) in enumerate(zip(report.evaluation.dataset.entries, captions, strict=True)):
        top = explainer.classify(entry.read())[0]
        explained, label = (NAMES[index].split(",")[0] for index in (top.index, at % 5))

        assert caption == f"explained: {explained} ({100 * top.probability:.0f} %), label: {label}"


def test_a_resumed_run_says_the_same(report: Report, page: str):
    """Nothing is asked of the model again: what it said is in the ledger."""
    write(evaluate(report.evaluation, report.run.folder, resamples=100), title="a test")

    assert (report.run.folder / "report.html").read_text(encoding="utf-8") == page


def test_accuracy_counts_labelled_images(report: Report, page: str, tmp_path: Path):
    explainer, entries = report.evaluation.explainer, report.evaluation.dataset.entries
    right = sum(explainer.classify(entry.read())[0].index == at % 5 for at, entry in enumerate(entries))
    text = f"{right} of {COUNT} labelled images ({100 * right / COUNT:.1f} %)"
    by_label = evaluated(tmp_path, target="label")

    assert accuracy(image_facts(report.evaluation, report.everything)) == text
    assert accuracy(image_facts(by_label.evaluation, by_label.everything)) == text  # of the likeliest class
    assert text in page
    assert page.count("the model says otherwise") == COUNT - right


def test_orders_put_the_worst_first(report: Report, page: str):
    """Each order is a permutation; that of a metric follows the values of the reference method."""
    styles = [attrs["style"] or "" for attrs in Tags(page).of("section")]
    places = np.array([[int(number) for number in re.findall(r":(\d+);", style)] for style in styles])  # image, order
    values = values_of(report.evaluation, report.everything)
    ids = [entry.id for entry in report.evaluation.dataset.entries]

    assert (np.sort(places, axis=0) == np.arange(COUNT)[:, None]).all()
    assert (places[:, 0] == np.arange(COUNT)).all()
    for order, (label, sign) in enumerate((("insertion[steps=4]", 1), ("deletion[steps=4]", -1)), 1):
        ordered = [sign * values["rollout", label][ids[at]] for at in np.argsort(places[:, order])]
        assert ordered == sorted(ordered)
    rules = re.findall(r"body:has\(#order(\d):checked\) \.row \{ order: var\(--place(\d)\)", page)
    assert rules == [("0", "0"), ("1", "1"), ("2", "2")]


def test_the_worst_images_of_all_are_listed(report: Report):
    facts = image_facts(report.evaluation, report.everything)
    values = values_of(report.evaluation, report.everything)
    first, second = worst(report.evaluation, facts, values, "rollout")
    numbers = [row[1][0] for row in first.rows]

    assert (first.metric, second.metric) == ("insertion[steps=4]", "deletion[steps=4]")
    assert numbers == sorted(values["rollout", first.metric].values())
    assert first.rows[0][1][1] == values["grad-cam", first.metric][first.rows[0][0].id]


def test_every_picture_has_a_text_and_can_be_enlarged(page: str):
    tags = Tags(page)
    images = tags.of("img")

    assert len(images) == COUNT * 3
    assert all(image["alt"] for image in images)
    assert sum("rollout: relevance for" in (image["alt"] or "") for image in images) == COUNT
    assert sum(attrs.get("type") == "checkbox" for attrs in tags.of("input")) == len(images)
    assert all(attrs.get("aria-label") for attrs in tags.of("input") if attrs.get("type") == "checkbox")


def test_the_page_explains_its_numbers_and_versions(page: str):
    assert "Area under the probability as relevant pixels appear on a substrate. Higher is better; from 0 … 1." in page
    assert re.search(r"<li>steps = 4: \w", page)
    assert f"gradskip-onnx {__version__}" in page
    assert "onnxruntime" in page


def test_nothing_comes_from_outside_and_nothing_runs(page: str):
    tags = Tags(page)
    policy = next(attrs["content"] for attrs in tags.of("meta") if attrs.get("http-equiv") == "Content-Security-Policy")

    assert policy == "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    assert not tags.of("script")
    assert not tags.of("link")
    assert [image["src"] for image in tags.of("img") if not (image["src"] or "").startswith("data:image/jpeg;")] == []
    assert "http:" not in page
    assert "https:" not in page
    assert "<elk>" not in page  # a name from a file is text
    assert "width=device-width" in page


def test_a_metric_without_its_ground_truth_says_what_is_missing(tmp_path: Path):
    (tmp_path / "m.onnx").write_bytes(model_bytes())
    data = pictures(tmp_path / "data", 2)
    alone = run("evaluate", tmp_path / "m.onnx", data, "--metrics", "miou", "-o", tmp_path / "a", *FLAGS)
    beside = run("evaluate", tmp_path / "m.onnx", data, "--methods", "rollout", "--metrics", "insertion[steps=4],iou",
                 "-o", tmp_path / "b", *FLAGS)  # fmt: skip

    fails(alone, 2, "metric miou", "needs a mask of the object's pixels", "layout folder", "ade20k, planted")
    assert not (tmp_path / "a").exists()
    assert beside.exit_code == 0, beside.output
    assert "warning: metric iou is left out: it needs a mask of the object's pixels" in beside.stderr
    assert "iou" not in beside.stdout


def test_boxes_or_a_mask_are_named_for_the_pointing_game(tmp_path: Path):
    explainer = api.load(model_bytes(), preprocess=PREPROCESS, threads=1)
    data = load(str(pictures(tmp_path / "data", 2)))
    with pytest.raises(InputError, match=r"boxes around the object.*imagenet"):
        set_up(explainer, data, [choose_method("rollout")], [choose_metric("pointing-game")])
