"""Raw attention: what the tokens that the head reads attend to in the last block."""

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
    """The row of the class token in the last attention, heads fused; patches only. The class plays no part."""
    row, last = start(trace, architecture, passes), architecture.blocks[-1]
    fuse = FUSIONS[options.heads]
    seen = walk(
        trace, architecture, row, len(architecture.blocks) - 1, lambda whole, r: whole.carried(r, fuse, whole.attention)
    )
    return Relevance(
        read_only(seen.reshape(last.grid)),
        checks={"tokens_read": float((row > 0).sum()), "sum": float(seen.sum())},
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
