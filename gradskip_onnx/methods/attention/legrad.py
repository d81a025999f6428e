"""LeGrad: at every block the head's own score, and what its attention would have to change to raise it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradskip_onnx.autodiff.scores.seeds import logit
from gradskip_onnx.methods.options import option
from gradskip_onnx.methods.table import Cost, Method, method, one_pass
from gradskip_onnx.types import Architecture, Array, Needs, Relevance, Trace, read_only

from .all_tokens import BlockAttention


@dataclass(frozen=True, slots=True)
class LegradOptions:
    blocks: int = option(0, "how many blocks take part, counted from the last; 0: all that the head can read", low=0)


def legrad(trace: Trace, architecture: Architecture, options: LegradOptions) -> Relevance:
    """E^l = sum over heads and queries of relu(ds^l/dA^l), over h n; the mean over the blocks, patches only.

    s^l is the logit of the class when the model's head reads the tokens that leave block l.
    """
    seen = [BlockAttention(trace, block) for block in architecture.blocks if block.attention in trace.readouts]
    used = seen[-options.blocks :] if options.blocks else seen
    found = np.mean([whole.patches(_of_block(whole)) for whole in used], axis=0)
    return Relevance(
        read_only(found.reshape(architecture.blocks[-1].grid)),
        checks={"blocks": float(len(used)), "sum": float(found.sum())},
        notes=_notes(seen, architecture),
    )


def _of_block(whole: BlockAttention) -> Array:
    return whole.carried(np.full(whole.count, 1 / whole.count), _positive, whole.readout)


def _positive(G: Array) -> Array:
    return np.asarray(np.maximum(G, 0).mean(axis=0))


def _notes(seen: Sequence[BlockAttention], architecture: Architecture) -> tuple[str, ...]:
    left_out = len(architecture.blocks) - len(seen)
    return (f"the head cannot read the tokens of {left_out} blocks of earlier stages",) if left_out else ()


LEGRAD = method(
    Method(
        name="legrad",
        summary="gradient of each block's own score at its attention",
        reference="Bousselham et al., LeGrad: An Explainability Method for Vision Transformers, 2024",
        options=LegradOptions,
        needs=lambda _options, _model: Needs(readout_gradients=True),
        run=one_pass(legrad),
        cost=lambda _: Cost(1, 1, "at each block the head, and back through that block alone"),
        seed=lambda _: logit,
    )
)
