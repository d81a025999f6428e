"""What a map costs: passes as the method says, and the FLOPs of the graphs that really run, node by node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradskip_onnx.api import Explainer
from gradskip_onnx.instrument.build_plan import build_plan
from gradskip_onnx.methods import MethodChoice
from gradskip_onnx.metrics.flops import of_plan
from gradskip_onnx.types import Needs


@dataclass(frozen=True, slots=True)
class Price:
    """Passes and GFLOPs of one map; `note` says where a number is a bound or depends on the image."""

    forwards: int
    backwards: int
    giga: float | None  # products only, two a multiply-accumulate, as papers count; None: not asked for
    elementwise: float | None  # everything else
    note: str = ""


def prices(explainer: Explainer, methods: Sequence[MethodChoice], score: str, *, count: bool) -> dict[str, Price]:
    """The price of each method's map by this model: F forward passes and B backward ones."""
    plain = _of(explainer, None, score) if count else (0.0, 0.0)
    found = {}
    for method in methods:
        cost = method.row.cost(method.options)
        numbers: tuple[float | None, float | None] = (None, None)
        if count:
            products, simple = _of(explainer, method, score)
            forwards, backwards = cost.forwards, cost.backwards / cost.at_once
            numbers = (
                forwards * plain[0] + backwards * (products - plain[0]),
                forwards * plain[1] + backwards * (simple - plain[1]),
            )
        found[method.label] = Price(cost.forwards, cost.backwards, *numbers, cost.note)
    return found


def _of(explainer: Explainer, method: MethodChoice | None, score: str) -> tuple[float, float]:
    """GFLOPs of products and of everything else, of the graph a method runs first; None: of the plain model."""
    if method is None:
        plan = build_plan(explainer.model.source, explainer.model.reading, Needs())
    else:
        request = method.request(score)
        plan = build_plan(
            explainer.model.source, explainer.model.reading, request.needs, score=request.score, rules=request.rules
        )
    counted = of_plan(plan, explainer.architecture)
    return counted.giga, counted.elementwise / 1e9
