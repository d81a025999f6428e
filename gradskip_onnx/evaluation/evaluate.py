"""The functions of an evaluation: `set_up`, `evaluate` into a folder, `write` the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradskip_onnx.api import Explainer
from gradskip_onnx.datasets import Dataset
from gradskip_onnx.errors import InputError
from gradskip_onnx.methods import MethodChoice
from gradskip_onnx.metrics import Choice
from gradskip_onnx.metrics.statistics import RESAMPLES
from gradskip_onnx.output.atomic import write_whole, writing
from gradskip_onnx.output.folder import Folder
from gradskip_onnx.output.json_text import encode_json
from gradskip_onnx.output.locks import locked
from gradskip_onnx.types import EMPTY

from .cases import TARGETS, resolve_labels
from .chart import Chart
from .cost import Price, prices
from .documents import as_csv, as_document
from .evaluation import Evaluation
from .gather import Everything, gather
from .page import Note, render
from .run import Run
from .run_folder import claim
from .summary import Summary, summarise
from .truth import lacking

Step = Callable[[str], None]


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """The results of an evaluation."""

    evaluation: Evaluation
    summary: Summary
    prices: Mapping[str, Price]
    everything: Everything
    document: Mapping[str, Any]
    run: Run


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """What a study adds to a report: notes and charts for the page, fields for results.json."""

    notes: tuple[Note, ...] = ()
    charts: tuple[Chart, ...] = ()
    document: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


def set_up(
    explainer: Explainer,
    dataset: Dataset,
    methods: Sequence[MethodChoice],
    metrics: Sequence[Choice[Any]],
    *,
    target: str = "predicted",
    score: str = "logit",
    batch: int = 8,
    pictures: int = 8,
    retry: bool = False,
) -> tuple[Evaluation, list[str]]:
    """An evaluation, and warnings; methods that cannot explain the model, metrics without ground truth are left out."""
    if target not in TARGETS:
        raise InputError(f"target: got {target!r}, allowed: {', '.join(TARGETS)}")
    labels, warnings = resolve_labels(dataset, explainer, required=target == "label")
    refused = {m.label: reason for m in methods if (reason := m.refuses(explainer.architecture))}
    kept = {m.label: m for m in methods if m.label not in refused}
    if not methods:
        raise InputError("no method was named")
    if not kept:
        methods[0].check(explainer.architecture)
    warnings += [f"method {name} is left out: {reason}" for name, reason in refused.items()]
    untold = {metric.label: lack for metric in metrics if (lack := lacking(metric.row, dataset, labels))}
    if len(untold) == len({metric.label for metric in metrics}) and untold:
        raise InputError("; ".join(f"metric {name}: {lack}" for name, lack in untold.items()))
    warnings += [f"metric {name} is left out: {lack}" for name, lack in untold.items()]
    evaluation = Evaluation(
        explainer=explainer,
        dataset=dataset,
        labels=labels,
        methods=tuple(kept.values()),
        metrics=tuple({metric.label: metric for metric in metrics if metric.label not in untold}.values()),
        target=target,
        score=score,
        batch=batch,
        pictures=pictures,
        retry=retry,
    )
    return evaluation, [*dataset.warnings, *warnings]


def evaluate(
    evaluation: Evaluation,
    folder: Path,
    *,
    reference: str | None = None,
    resamples: int = RESAMPLES,
    step: Step = lambda _: None,
    force: bool = False,
) -> Report:
    """Measure what is missing in the folder and summarise; `reference` is a method label (default: the first).

    A folder of another model, data or settings is refused unless `force` is set, and so is one that another run is
    using. `step(text)` is called `evaluation.steps` times, for a progress bar.
    """
    labels = [method.label for method in evaluation.methods]
    compared_to = reference or labels[0]
    if compared_to not in labels:
        raise InputError(f"reference {compared_to!r} is not among the methods: {', '.join(labels)}")
    Folder(folder).open()
    with locked(folder):
        claim(evaluation, folder, force=force)
        run = Run.open(evaluation, folder)
        run.go(step)
        everything = gather(run.ledger, run.keys)
        summary = summarise(evaluation, everything, folder, compared_to, resamples)
        cost = prices(evaluation.explainer, evaluation.methods, evaluation.score, evaluation.method_metrics, run.ledger)
    document = as_document(evaluation, summary, cost)
    return Report(evaluation, summary, cost, everything, document, run)


def write(report: Report, *, title: str, command: str = "", findings: Findings | None = None) -> tuple[Path, ...]:
    """Write results.csv, results.json and report.html, each completely or not at all, and return their paths."""
    found = findings or Findings()
    page = render(
        report.run,
        report.summary,
        report.prices,
        report.everything,
        title=title,
        command=command,
        notes=found.notes,
        charts=found.charts,
    )
    contents = {
        "results.csv": as_csv(report.summary),
        "results.json": encode_json({**report.document, **found.document}),
        "report.html": page,
    }
    paths = [report.run.folder / name for name in contents]
    with writing(report.run.folder), locked(report.run.folder):
        for path, content in zip(paths, contents.values(), strict=True):
            write_whole(path, content)
    return tuple(paths)
