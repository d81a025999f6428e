"""The cost of a map: passes as stated by the method, and FLOPs counted in the graphs that run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradskip_onnx.api import Explainer
from gradskip_onnx.instrument.build_plan import build_plan
from gradskip_onnx.instrument.pass_request import PassRequest
from gradskip_onnx.methods import MethodChoice
from gradskip_onnx.metrics import Choice
from gradskip_onnx.metrics.flops import of_plan
from gradskip_onnx.pipeline.ledger import Ledger, key_of
from gradskip_onnx.types import Needs
from gradskip_onnx.version import __version__

from .metric_kinds import MethodMetric


@dataclass(frozen=True, slots=True)
class Price:
    """Passes and GFLOPs of one map; `note` says where a number is a bound or depends on the image."""

    forwards: int
    backwards: int
    giga: float | None = None  # products only, 2 FLOPs per multiply-accumulate, as in papers; None: not measured
    elementwise: float | None = None  # GFLOPs of all other operators
    note: str = ""


@dataclass(frozen=True, slots=True)
class NoOptions:
    """The options of a metric that has none."""


def gflops(explainer: Explainer, methods: Sequence[MethodChoice], score: str) -> list[Mapping[str, float]]:
    """GFLOPs of one map by each method: F forward + B (whole - forward), for F forward and B backward passes."""
    forward = _graph_gflops(explainer, PassRequest(Needs()))
    found: list[Mapping[str, float]] = []
    for method in methods:
        whole, cost = _graph_gflops(explainer, method.request(explainer.architecture, score)), method.cost
        backwards = cost.backwards / cost.at_once
        found.append({key: cost.forwards * forward[key] + backwards * (whole[key] - forward[key]) for key in forward})
    return found


GFLOPS = MethodMetric(
    name="gflops",
    summary="billions of multiplications and additions for one map, counted in the graphs that run",
    options=NoOptions,
    measure=gflops,
)


def prices(
    explainer: Explainer,
    methods: Sequence[MethodChoice],
    score: str,
    metrics: Sequence[Choice[MethodMetric]],
    ledger: Ledger,
) -> dict[str, Price]:
    """The price of a map by each method label; numbers in the ledger are not measured again."""
    numbers: dict[str, dict[str, float]] = {method.label: {} for method in methods}
    for metric in metrics:
        keys = {key_of(_facts(explainer, method, score, metric)): method for method in methods}
        missing = {key: method for key, method in keys.items() if ledger.lacks(key)}
        if missing:
            measured = metric.row.measure(explainer, list(missing.values()), score)
            for (key, method), found in zip(missing.items(), measured, strict=True):
                ledger.append({"key": key, "method": method.label, "measure": metric.label, "numbers": found})
        for record in ledger.records():
            if record["key"] in keys:
                numbers[keys[record["key"]].label] |= record["numbers"]
    return {
        method.label: Price(method.cost.forwards, method.cost.backwards, note=method.cost.note, **numbers[method.label])
        for method in methods
    }


def _facts(explainer: Explainer, method: MethodChoice, score: str, metric: Choice[MethodMetric]) -> dict[str, object]:
    """Everything that a number of a method depends on, for its key."""
    return {
        "version": __version__,
        "model": explainer.sha256,
        "input": explainer.architecture.input_dims,
        "score": score,
        "method": method.row.name,
        "options": method.settings,
        "measure": metric.label,
    }


def _graph_gflops(explainer: Explainer, request: PassRequest) -> dict[str, float]:
    """GFLOPs of products and of all other operators in the graph of a request."""
    model = explainer.model
    plan = build_plan(model.source, model.reading, request.needs, score=request.score, rules=request.rules)
    counted = of_plan(plan, explainer.architecture)
    return {"giga": counted.giga, "elementwise": counted.elementwise / 1e9}
