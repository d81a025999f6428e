"""Renders report.html: the table, the curves and a grid of pictures in one self-contained file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from gradskip_onnx.explanation.document import versions
from gradskip_onnx.metrics import Choice, Metric
from gradskip_onnx.metrics.statistics import LEVEL, Interval
from gradskip_onnx.output.html_page import data_uri, environment, shared_style

from .chart import Chart, chart, style
from .cost import Price
from .evaluation import Evaluation
from .gather import Everything
from .image_facts import ImageFacts, Values, accuracy, image_facts, values_of, worst, worst_first
from .run import Run
from .summary import Summary

TEMPLATE = "report.html"
MOST_FAILURES = 50  # on the page; results.json lists them all


@dataclass(frozen=True, slots=True)
class ShownMap:
    """A map in the picture grid; `picture` is None where it failed."""

    method: str
    picture: str | None
    values: tuple[str, ...]  # "insertion 0.412", one a metric


@dataclass(frozen=True, slots=True)
class Shown:
    """A row of the picture grid; `places` are its places by each order that a reader can choose."""

    facts: ImageFacts
    picture: str
    maps: tuple[ShownMap, ...]
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a metric measures, in words."""

    label: str
    summary: str
    better: str
    span: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """A paragraph or a small table that a study adds to the page."""

    title: str
    text: str = ""
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def render(
    run: Run,
    summary: Summary,
    prices: Mapping[str, Price],
    everything: Everything,
    *,
    title: str,
    command: str = "",
    notes: Sequence[Note] = (),
    charts: Sequence[Chart] = (),
) -> bytes:
    """The HTML of the page; jinja2 escapes every text."""
    texts = {"number": number, "spread": spread_text, "signed": signed, "p": p_text}
    template = environment(__package__, **texts).get_template(TEMPLATE)
    evaluation = run.evaluation
    facts, values = image_facts(evaluation, everything), values_of(evaluation, everything)
    text: str = template.render(
        shared_style=shared_style(),
        title=title,
        command=command,
        summary=summary,
        evaluation=evaluation,
        facts=_facts(evaluation, summary, accuracy(facts)),
        meanings=[_meaning(choice) for choice in evaluation.columns],
        versions=_versions(evaluation),
        prices=prices,
        counted=any(price.giga is not None for price in prices.values()),
        level=LEVEL,
        best={column.label: summary.best(column) for column in summary.columns},
        inks={method: style(at) for at, method in enumerate(summary.methods)},
        charts=[chart(measure, kind, many, summary.methods) for (measure, kind), many in summary.curves.items()],
        own_charts=charts,
        shown=_shown(run, summary, facts, values),
        orders=["as in the data", *(f"worst {column.label} first" for column in summary.columns)],
        worst=worst(evaluation, facts, values, summary.reference),
        failures=summary.failures[:MOST_FAILURES],
        notes=notes,
    )
    return text.encode("utf-8", "replace")  # file names need not be UTF-8


def _facts(evaluation: Evaluation, summary: Summary, judged: str) -> list[tuple[str, str]]:
    explainer, dataset = evaluation.explainer, evaluation.dataset
    architecture, preprocess = explainer.architecture, explainer.preprocess
    counts = f"{len(architecture.blocks)} blocks, {architecture.classes} classes"
    height, width = preprocess.size
    explained = {"predicted": "the predicted class", "label": "the class of the label"}[evaluation.target]
    found = [
        ("model", f"{explainer.name} ({architecture.task}, {counts})"),
        ("sha256", explainer.sha256),
        ("data", f"{dataset.where} ({dataset.layout}, {summary.images} images)"),
        ("accuracy", judged),
        ("explained", f"{explained}, by its {evaluation.score}"),
        ("input", f"{height} x {width}, mean {_triple(preprocess.mean)}, std {_triple(preprocess.std)}"),
    ]
    return [(name, text) for name, text in found if text]


def _versions(evaluation: Evaluation) -> str:
    """Our version, those of the libraries that influence results, and of packages that bring methods or metrics."""
    packages = {one.package for one in evaluation.methods} | {one.package for one in evaluation.image_measurements}
    return ", ".join([*(f"{name} {version}" for name, version in versions().items()), *sorted(packages - {""})])


def _meaning(choice: Choice[Metric]) -> Meaning:
    """A metric in words: what it is, its range, and every option with its value."""
    low, high = choice.row.span
    options = (
        f"{entry.name} = {getattr(choice.options, entry.name)}: {entry.metadata.get('help', '')}"
        for entry in fields(choice.options)
    )
    return Meaning(choice.label, choice.row.summary, choice.row.better, f"{low:g} … {high:g}", tuple(options))


def _triple(values: Sequence[float]) -> str:
    return " ".join(f"{value:g}" for value in values)


def _shown(run: Run, summary: Summary, facts: Mapping[str, ImageFacts], values: Values) -> list[Shown]:
    """The rows of the picture grid; a missing picture means that the map failed."""
    evaluation, found = run.evaluation, []
    ids = [entry.id for entry in evaluation.shown]
    orders = [ids, *(_worst_first(ids, values[summary.reference, c.label], c.better) for c in summary.columns)]
    for entry in evaluation.shown:
        digest = entry.digest()
        image = run.pictures.path(evaluation.facts(entry, digest))
        if not image.exists():
            continue
        maps = []
        for method in evaluation.methods:
            path = run.pictures.path(evaluation.facts(entry, digest, method))
            numbers = ((column.label, values[method.label, column.label].get(entry.id)) for column in summary.columns)
            texts = tuple(f"{label} {number(value)}" for label, value in numbers)
            maps.append(ShownMap(method.label, data_uri(path.read_bytes(), "jpeg") if path.exists() else None, texts))
        places = tuple(order.index(entry.id) for order in orders)
        found.append(Shown(facts[entry.id], data_uri(image.read_bytes(), "jpeg"), tuple(maps), places))
    return found


def _worst_first(ids: Sequence[str], values: Mapping[str, float], better: str) -> list[str]:
    """The images from the worst value to the best; those without one come last."""
    known = worst_first({image: values[image] for image in ids if image in values}, better)
    return [*known, *(image for image in ids if image not in values)]


def number(value: float | None) -> str:
    """A value with three decimals, which is finer than the intervals; above 100 without any."""
    if value is None:
        return "–"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:,.0f}"


def signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")


def spread_text(found: Interval | None) -> str:
    return "" if found is None else f"{found.low:.3f} … {found.high:.3f}".replace("-", "−")


def p_text(value: float | None) -> str:
    return "" if value is None else "p < 0.001" if value < 0.001 else f"p = {value:.3f}"
