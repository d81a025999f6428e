"""LeGrad: at every block, the gradient of the head's score of that block's tokens at its attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradskip_onnx.autodiff.scores.seeds import logit
from gradskip_onnx.errors import InputError
from gradskip_onnx.methods.options import option
from gradskip_onnx.methods.table import Cost, Method, method, one_pass
from gradskip_onnx.types import Architecture, Array, Needs, Relevance, Trace, read_only

from .all_tokens import BlockAttention

AUTHORS_BLOCKS = 2  # the last blocks that the authors' code reads


@dataclass(frozen=True, slots=True)
class LegradOptions:
    readout: str = option(
        "tokens", "what the head reads of a block: its tokens, or their mean, as in the authors' code",
        choices=("tokens", "mean"),
    )  # fmt: skip
    blocks: int = option(
        0, "blocks that take part, from the last; 0: all that the head can read, of the mean the last 2", low=0
    )  # fmt: skip

    @property
    def count(self) -> int:
        """How many blocks take part; 0 for all."""
        return self.blocks or (AUTHORS_BLOCKS if self.readout == "mean" else 0)


def legrad(trace: Trace, architecture: Architecture, options: LegradOptions) -> Relevance:
    """Mean over the blocks of E^l = sum over heads and queries of relu(ds^l/dA^l) / (h N), at the patches.

    s^l is the logit of the class if the model's head reads the output tokens of block l; with `readout=mean`, if it
    reads their mean over all tokens, taken in front of its norm.
    """
    readable = [BlockAttention(trace, block) for block in architecture.blocks if block.attention in trace.readouts]
    used = readable[-options.count :] if options.count else readable
    found = np.mean([block.patches(_of_block(block)) for block in used], axis=0)
    return Relevance(
        read_only(found.reshape(architecture.blocks[-1].grid)),
        checks={"blocks": float(len(used)), "sum": float(found.sum())},
        notes=_notes(readable, architecture),
    )


def _needs(options: LegradOptions, architecture: Architecture) -> Needs:
    if options.readout == "mean" and architecture.task != "classification":
        raise InputError("method legrad option readout: mean is for classes of the image; leave it at tokens")
    return Needs(readout_gradients="mean" if options.readout == "mean" else "tokens")


def _of_block(block: BlockAttention) -> Array:
    """E^l over all tokens, (N,)."""
    return block.carry(np.full(block.count, 1 / block.count), _positive, block.readout)


def _positive(G: Array) -> Array:
    return np.asarray(np.maximum(G, 0).mean(axis=0))


def _notes(readable: Sequence[BlockAttention], architecture: Architecture) -> tuple[str, ...]:
    left_out = len(architecture.blocks) - len(readable)
    return (f"the head cannot read the tokens of {left_out} blocks of earlier stages",) if left_out else ()


LEGRAD = method(
    Method(
        name="legrad",
        summary="gradient of each block's own score at its attention",
        reference="Bousselham et al., LeGrad: An Explainability Method for Vision Transformers, 2024",
        options=LegradOptions,
        needs=_needs,
        run=one_pass(legrad),
        cost=lambda _: Cost(1, 1, "at each block the head, and back through that block alone"),
        seed=lambda _: logit,
    )
)
