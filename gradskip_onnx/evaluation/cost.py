"""What a map costs: passes as the method says, and the FLOPs of the graphs that really run, node by node."""

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
    giga: float | None = None  # products only, two a multiply-accumulate, as papers count; None: not asked for
    elementwise: float | None = None  # everything else
    note: str = ""


@dataclass(frozen=True, slots=True)
class NoOptions:
    """Nothing to choose."""


def gflops(explainer: Explainer, methods: Sequence[MethodChoice], score: str) -> list[Mapping[str, float]]:
    """Of a map by each method: F forward passes, and B times what a backward pass adds to one."""
    plain = _of(explainer, PassRequest(Needs()))
    found: list[Mapping[str, float]] = []
    for method in methods:
        whole, cost = _of(explainer, method.request(explainer.architecture, score)), method.cost
        backwards = cost.backwards / cost.at_once
        found.append({name: cost.forwards * plain[name] + backwards * (whole[name] - plain[name]) for name in plain})
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
    """The price of each method's map by this model; what the ledger holds is not measured again."""
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
    """What a number of a method depends on."""
    return {
        "version": __version__,
        "model": explainer.sha256,
        "input": explainer.architecture.input_dims,
        "score": score,
        "method": method.row.name,
        "options": method.settings,
        "measure": metric.label,
    }


def _of(explainer: Explainer, request: PassRequest) -> dict[str, float]:
    """GFLOPs of products and of everything else, of the graph of a request."""
    model = explainer.model
    plan = build_plan(model.source, model.reading, request.needs, score=request.score, rules=request.rules)
    counted = of_plan(plan, explainer.architecture)
    return {"giga": counted.giga, "elementwise": counted.elementwise / 1e9}
