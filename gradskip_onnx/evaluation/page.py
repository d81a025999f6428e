"""Renders report.html: the table, the curves and a grid of pictures in one self-contained file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from gradskip_onnx.imports.optional import import_optional
from gradskip_onnx.metrics.statistics import LEVEL, Interval

from .chart import Chart, chart, style
from .cost import Price
from .evaluation import Evaluation
from .pictures import data_uri
from .run import Run
from .summary import Summary

TEMPLATE = "report.html"
MOST_FAILURES = 50  # on the page; results.json lists them all


@dataclass(frozen=True, slots=True)
class Shown:
    """A row of the picture grid."""

    name: str
    label: str
    image: str
    maps: tuple[str | None, ...]  # one per method; None where it failed


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
    *,
    title: str,
    command: str = "",
    notes: Sequence[Note] = (),
    charts: Sequence[Chart] = (),
) -> bytes:
    """The HTML of the page; jinja2 escapes every text."""
    jinja2 = import_optional("jinja2")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {"number": number, "spread": spread_text, "signed": signed, "p": p_text}
    template = environment.from_string((files(__package__) / TEMPLATE).read_text(encoding="utf-8"))
    evaluation = run.evaluation
    text: str = template.render(
        title=title,
        command=command,
        summary=summary,
        evaluation=evaluation,
        facts=_facts(evaluation, summary),
        prices=prices,
        counted=any(price.giga is not None for price in prices.values()),
        level=LEVEL,
        best={column.label: summary.best(column) for column in summary.columns},
        inks={method: style(at) for at, method in enumerate(summary.methods)},
        charts=[chart(measure, kind, many, summary.methods) for (measure, kind), many in summary.curves.items()],
        own_charts=charts,
        shown=_shown(run),
        failures=summary.failures[:MOST_FAILURES],
        notes=notes,
    )
    return text.encode("utf-8", "replace")  # file names need not be UTF-8


def _facts(evaluation: Evaluation, summary: Summary) -> list[tuple[str, str]]:
    explainer, dataset = evaluation.explainer, evaluation.dataset
    architecture, preprocess = explainer.architecture, explainer.preprocess
    counts = f"{len(architecture.blocks)} blocks, {architecture.classes} classes"
    height, width = preprocess.size
    explained = {"predicted": "the predicted class", "label": "the class of the label"}[evaluation.target]
    return [
        ("model", f"{explainer.name} ({architecture.task}, {counts})"),
        ("sha256", explainer.sha256),
        ("data", f"{dataset.where} ({dataset.layout}, {summary.images} images)"),
        ("explained", f"{explained}, by its {evaluation.score}"),
        ("input", f"{height} x {width}, mean {_triple(preprocess.mean)}, std {_triple(preprocess.std)}"),
    ]


def _triple(values: Sequence[float]) -> str:
    return " ".join(f"{value:g}" for value in values)


def _shown(run: Run) -> list[Shown]:
    """The rows of the picture grid; a missing picture means that the map failed."""
    evaluation, found = run.evaluation, []
    for entry in evaluation.shown:
        digest = entry.digest()
        image = run.pictures.path(evaluation.facts(entry, digest))
        if not image.exists():
            continue
        paths = [run.pictures.path(evaluation.facts(entry, digest, method)) for method in evaluation.methods]
        label = evaluation.labels.get(entry.id)
        names = evaluation.explainer.labels
        text = "" if label is None else names[label].split(",")[0] if label < len(names) else f"class {label}"
        maps = tuple(data_uri(path) if path.exists() else None for path in paths)
        found.append(Shown(entry.id, text, data_uri(image), maps))
    return found


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
