"""Fits the weights of gradskip+ to one model and its images: searched on one half of them, judged on the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from gradskip_onnx.api import Explainer
from gradskip_onnx.datasets import Dataset
from gradskip_onnx.errors import GradskipError, InputError
from gradskip_onnx.methods import MethodChoice, choose_method
from gradskip_onnx.methods.gradskip.gradskip_plus import middle_blocks
from gradskip_onnx.metrics import METRICS, Measured
from gradskip_onnx.metrics.statistics import RESAMPLES, Interval, interval, paired
from gradskip_onnx.output.atomic import write_whole
from gradskip_onnx.output.folder import Folder
from gradskip_onnx.output.json_text import encode_json
from gradskip_onnx.output.locks import locked
from gradskip_onnx.pipeline.fitted_options import FORMAT, METHOD, NAMES
from gradskip_onnx.types import Architecture, Array
from gradskip_onnx.version import __version__

from .choices import choose_metric, measurement_of
from .coordinate_search import Axis, Found, Settings, coordinate_search, most_tried
from .evaluate import set_up
from .evaluation import Evaluation, preparation
from .gather import Place, gather
from .run import Run
from .run_folder import claim

METRIC, TERM = "insertion-deletion", "difference"
SUBSTRATES = ("mean", "black", "random")
TOGETHER = "all three"  # the mean over the substrates, image by image: what is fitted, and what decides
STEPS = 8  # of each curve; the order of settings changes little with more
FEWEST = 4  # images; two in each half, or nothing has an interval
DEFAULT = choose_method(METHOD)

Step = Callable[[str], None]
Columns = dict[str, dict[str, dict[Place, Measured]]]  # results by substrate, method and image


@dataclass(frozen=True, slots=True, eq=False)
class FitPlan:
    """What is searched, and on which images."""

    tuning: Evaluation
    held_out: Evaluation
    axes: tuple[Axis, ...]
    seed: int

    @property
    def steps(self) -> int:
        """How often `step` is called at most."""
        searched, judged = len(self.tuning.dataset.entries), len(self.held_out.dataset.entries)
        return (1 + most_tried(self.axes)) * searched + 2 * judged


@dataclass(frozen=True, slots=True)
class Comparison:
    """Default and fitted options on the held-out images; `gap` is fitted minus default, paired by image."""

    default: Interval
    fitted: Interval
    gap: Interval


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """The options found, how they fare by substrate, and why images were left out, by name."""

    plan: FitPlan
    fitted: MethodChoice
    search: Found
    columns: Mapping[str, Comparison]
    failures: Mapping[str, str]

    @property
    def changed(self) -> bool:
        """Whether anything was found that differs from the defaults."""
        return self.fitted.label != DEFAULT.label

    @property
    def better(self) -> bool:
        """Whether the interval of the difference, over all substrates together, lies above 0."""
        return self.columns[TOGETHER].gap.low > 0


def plan_fit(
    explainer: Explainer,
    dataset: Dataset,
    *,
    steps: int = STEPS,
    seed: int = 0,
    target: str = "predicted",
    batch: int = 8,
) -> tuple[FitPlan, list[str]]:
    """Draw the halves, and choose the values to try for a model of this depth; also returns warnings."""
    count = len(dataset.entries)
    if count < FEWEST:
        raise InputError(f"{dataset.where}: {count} images; a fit takes {FEWEST} or more, to tune and to judge")
    drawn = np.random.default_rng(seed).permutation(count)
    halves = [
        replace(dataset, entries=tuple(dataset.entries[at] for at in sorted(part)))
        for part in (drawn[: count // 2], drawn[count // 2 :])
    ]
    metrics = [choose_metric(METRIC, substrate=name, steps=steps) for name in SUBSTRATES]
    prepare = partial(set_up, methods=[DEFAULT], metrics=metrics, target=target, batch=batch, pictures=0)
    (tuning, warnings), (held_out, _) = (prepare(explainer, half) for half in halves)
    return FitPlan(tuning, held_out, axes_for(explainer.architecture), seed), warnings


def axes_for(architecture: Architecture) -> tuple[Axis, ...]:
    """The values tried for each option; blocks are numbered from 1, and 0 leaves the choice to the method."""
    depth, default = len(architecture.blocks), middle_blocks(architecture.blocks, DEFAULT.options)
    first = {round(depth * part) + 1 for part in (0, 1 / 6, 1 / 3, 1 / 2)} - {default[0].index + 1}
    last = {round(depth * part) for part in (1 / 2, 2 / 3, 5 / 6, 1)} - {0, default[-1].index + 1}
    return (
        Axis("first", (0, *sorted(first))),
        Axis("last", (0, *sorted(last))),
        Axis("detail", (0.0, 0.25, 0.5, 0.75, 1.0)),
        Axis("pixels", (0.0, 0.1, 0.25, 0.5, 1.0)),
        Axis("share", (0.0, 0.5, 1.0)),
    )


def fit(
    plan: FitPlan, folder: Path, *, resamples: int = RESAMPLES, step: Step = lambda _: None, force: bool = False
) -> Fit:
    """Search on the tuning half, then compare with the defaults on the other.

    Every measurement is kept in the folder as it is made, so a search that was stopped goes on where it was.
    """
    failures: dict[str, str] = {}

    def measure(half: Evaluation, methods: Sequence[MethodChoice]) -> Columns:
        run = Run.open(replace(half, methods=tuple(methods)), folder)
        run.go(step)
        return _columns(run, failures)

    def score(many: Sequence[Settings]) -> list[Array | None]:
        """Values by image; None if one that the defaults explain is not explained."""
        choices = [choose_method(METHOD, **settings) for settings in many]
        results = measure(plan.tuning, choices)[TOGETHER]
        found = [results[choice.label] for choice in choices]
        return [
            np.array([one[place].numbers[TERM] for place in needed]) if needed <= one.keys() else None for one in found
        ]

    Folder(folder).open()
    with locked(folder):
        claim(plan.tuning, folder, force=force)
        needed = measure(plan.tuning, [DEFAULT])[TOGETHER][DEFAULT.label].keys()
        if not needed:
            image, reason = next(iter(failures.items()), ("all", "every image is excluded"))
            raise GradskipError(f"nothing could be measured: {reason} (image {image})")
        start = {name: getattr(DEFAULT.options, name) for name in NAMES}
        search = coordinate_search(start, plan.axes, score, partial(_has_blocks, plan.tuning.explainer.architecture))
        fitted = choose_method(METHOD, **search.settings)
        held_out = measure(plan.held_out, list({choice.label: choice for choice in (DEFAULT, fitted)}.values()))
    columns = {name: _compare(results, fitted, resamples) for name, results in held_out.items()}
    return Fit(plan, fitted, search, columns, failures)


def as_document(found: Fit) -> dict[str, Any]:
    """The content of MODEL.gradskip.json; the same images, seed and version give the same bytes."""
    tuning, held_out, search = found.plan.tuning, found.plan.held_out, found.search
    explainer, dataset = tuning.explainer, tuning.dataset
    return {
        "format": FORMAT,
        "version": __version__,
        "method": METHOD,
        "model": {"file": explainer.name, "sha256": explainer.sha256},
        "options": search.settings,
        "preprocess": preparation(explainer.preprocess),
        "data": {"where": dataset.where, "layout": dataset.layout, "target": tuning.target, "seed": found.plan.seed},
        "metrics": [metric.label for metric in tuning.metrics],
        "tuning": {
            "images": len(dataset.entries),
            "settings": search.tried,
            "default": search.start,
            "fitted": search.score,
        },
        "held_out": {
            "images": len(held_out.dataset.entries),
            "better": found.better,
            "scores": {name: asdict(column) for name, column in found.columns.items()},
        },
    }


def keep(found: Fit, path: Path) -> None:
    """Write the options beside the model, completely or not at all."""
    try:
        write_whole(path, encode_json(as_document(found)))
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error})") from None


def _has_blocks(architecture: Architecture, settings: Settings) -> bool:
    """Whether `first` does not lie behind `last`."""
    try:
        middle_blocks(architecture.blocks, choose_method(METHOD, **settings).options)
    except InputError:
        return False
    return True


def _columns(run: Run, failures: dict[str, str]) -> Columns:
    """What was measured, by substrate, and the mean of the substrates on each image; adds to `failures`."""
    evaluation, everything = run.evaluation, gather(run.ledger, run.keys)
    columns: Columns = {}
    for name, metric in zip(SUBSTRATES, evaluation.metrics, strict=True):
        label = measurement_of(metric, evaluation.image_measurements).label
        for method in evaluation.methods:
            gathered = everything[method.label, label]
            failures.update(gathered.failed)
            kept = {place: one for place, one in gathered.results.items() if not one.excluded}
            columns.setdefault(name, {})[method.label] = kept
    columns[TOGETHER] = {
        method.label: _together([columns[name][method.label] for name in SUBSTRATES]) for method in evaluation.methods
    }
    return columns


def _together(columns: Sequence[Mapping[Place, Measured]]) -> dict[Place, Measured]:
    shared = sorted(set.intersection(*(set(column) for column in columns)), key=_order)
    return {place: Measured({TERM: fmean(column[place].numbers[TERM] for column in columns)}) for place in shared}


def _compare(results: Mapping[str, Mapping[Place, Measured]], fitted: MethodChoice, resamples: int) -> Comparison:
    """Both on the images that both explain."""
    before, after = results[DEFAULT.label], results[fitted.label]
    shared = sorted(before.keys() & after.keys(), key=_order)
    row, ours, theirs = METRICS[METRIC], [after[place] for place in shared], [before[place] for place in shared]
    default, found = interval(row, theirs, resamples=resamples), interval(row, ours, resamples=resamples)
    gap = paired(row, ours, theirs, resamples=resamples)
    if default is None or found is None or gap is None:
        raise GradskipError("nothing could be measured on the held-out images")
    return Comparison(default, found, gap)


def _order(place: Place) -> tuple[str, int]:
    """Images by name: sums and draws go by position, and a ledger that was resumed has another order."""
    return place[0], place[1] or 0
