"""Raw attention: where the tokens that the head reads attend in the last block."""

from __future__ import annotations

from dataclasses import dataclass

from gradskip_onnx.autodiff.scores.seeds import logit
from gradskip_onnx.methods.options import option
from gradskip_onnx.methods.passes import Passes
from gradskip_onnx.methods.table import Cost, Method, method
from gradskip_onnx.types import Architecture, Needs, Relevance, Trace, read_only

from .all_tokens import FUSIONS
from .readout import start, walk


@dataclass(frozen=True, slots=True)
class RawAttentionOptions:
    heads: str = option("mean", "how the heads become one", choices=tuple(FUSIONS))


def raw_attention(trace: Trace, architecture: Architecture, options: RawAttentionOptions, passes: Passes) -> Relevance:
    """The row of the class token in the last attention, heads fused, at the patches; the same for every class."""
    row, last = start(trace, architecture, passes), architecture.blocks[-1]
    fuse = FUSIONS[options.heads]
    found = walk(
        trace, architecture, row, len(architecture.blocks) - 1, lambda block, r: block.carry(r, fuse, block.attention)
    )
    return Relevance(
        read_only(found.reshape(last.grid)),
        checks={"tokens_read": float((row > 0).sum()), "sum": float(found.sum())},
    )


RAW_ATTENTION = method(
    Method(
        name="raw-attention",
        summary="attention of the class token in the last block",
        reference="in use since Dosovitskiy et al., An Image is Worth 16x16 Words, ICLR 2021",
        options=RawAttentionOptions,
        needs=lambda _, model: Needs(attention=model.last_block, tokens_out_gradients=model.last_block),
        run=raw_attention,
        cost=lambda _: Cost(1, 0, "and back through the head, to see which tokens it reads"),
        seed=lambda _: logit,
    )
)
