"""The parameter randomisation check: how similar the maps of a method stay as weights are replaced by random ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from gradskip_onnx.api import Explainer
from gradskip_onnx.instrument.build_plan import build_plan
from gradskip_onnx.methods import MethodChoice
from gradskip_onnx.methods.options import option
from gradskip_onnx.metrics.randomisation import sanity_check
from gradskip_onnx.metrics.table import Measured
from gradskip_onnx.types import Array, Needs

from .explain import maps_of
from .metric_kinds import GroupMetric


@dataclass(frozen=True, slots=True)
class Options:
    """Order and seed of the randomisation, and the number of images."""

    images: int = option(8, "images of the dataset that are explained again at every stage", low=1, high=100_000)
    mode: str = option("cascading", "stages stay random, or are put back", choices=("cascading", "independent"))
    seed: int = option(0, "seed of the random weights", low=0, high=2**31)


def by_stages(
    explainer: Explainer, method: MethodChoice, images: Array, targets: Sequence[int], score: str, options: Options
) -> list[Measured]:
    """Similarities for images (B, channels, H, W): the mean over the stages, the last stage, and the curve."""
    forward = build_plan(explainer.model.source, explainer.model.reading, Needs())
    originals = {tensor.name for tensor in forward.model.graph.initializer}

    def explain(model: onnx.ModelProto) -> list[Array]:
        return maps_of(_with_weights(explainer, model, originals), method, images, targets, score)

    mode: Any = options.mode
    steps = sanity_check(
        forward.model, explainer.architecture, explain, folder=forward.folder, mode=mode, seed=options.seed
    )
    course = {name: np.array([step.similarity[name] for step in steps]) for name in steps[0].similarity}
    stages = np.arange(1, len(steps) + 1) / len(steps)
    return [
        Measured(
            {name: float(values[:, at].mean()) for name, values in course.items()}
            | {f"{name}_last": float(values[-1, at]) for name, values in course.items()},
            {"similarity": np.stack([stages, course["spearman"][:, at]])},
        )
        for at in range(len(images))
    ]


def _with_weights(explainer: Explainer, model: onnx.ModelProto, names: set[str]) -> Explainer:
    """The explainer with the weights of `model`; the proofs, which are about the graph, stay valid."""
    stored = {tensor.name: tensor for tensor in model.graph.initializer if tensor.name in names}
    graph = explainer.model.reading.graph.copy()
    tensors = graph.tensors()
    for name, tensor in stored.items():
        if name in tensors:
            tensors[name].values = numpy_helper.to_array(tensor)
    return replace(explainer, model=explainer.model.with_graph(graph))


RANDOMISATION = GroupMetric(
    name="randomisation",
    summary="rank correlation with the original map, mean over the stages at which weights become random",
    options=Options,
    better="lower",
    span=(-1.0, 1.0),
    terms=("spearman",),
    measure=by_stages,
)
