"""The tensors of a pass inside the graph: the counterpart of `types.Trace`, of which methods are written."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradskip_onnx.autodiff.emit import Emit
from gradskip_onnx.autodiff.scores.seeds import argmax, pixel_shares
from gradskip_onnx.autodiff.sym import Sym
from gradskip_onnx.types import Architecture, Block, Plan

from .layouts import arrange, drop
from .made import made


@dataclass(frozen=True, slots=True, eq=False)
class Traced:
    """What a plan shows of one pass, as float32 in canonical order; `emit` writes behind it.

    Every image has one class, so that values and gradients have the same batch axis.
    """

    emit: Emit
    architecture: Architecture
    plan: Plan

    def image(self) -> Sym:
        """The model's input, (B, channels, H, W)."""
        return self._image(self.architecture.input)

    def image_gradient(self) -> Sym:
        """The gradient of the score at the image, (B, channels, H, W)."""
        return self._image(self.plan.gradients[self.architecture.input])

    def unsigned_gradient(self) -> Sym:
        """The same with the size of the relevance of each channel of the embedding."""
        return self._image(self.plan.unsigned[self.architecture.input])

    def logits(self) -> Sym:
        """The scores of the model, (B, classes) or (B, classes, h, w)."""
        return self.emit.sym(self.architecture.logits).cast(np.float32)

    def chosen(self) -> Sym:
        """The class of each image, (B,) int64."""
        return self.emit.sym(str(self.plan.target_output))

    def pixel_shares(self) -> Sym | None:
        """The share of each pixel of the scores in what is explained, (B, h, w); None for classes of the image."""
        if self.plan.region_input is None:
            return None
        logits = self.logits()
        region = self.emit.sym(self.plan.region_input)
        return pixel_shares(logits, argmax(logits, 1), self.chosen(), region).squeeze(1)

    def shown(self, block: Block, tensor: str) -> bool:
        """Whether the plan shows the gradient of this tensor."""
        return getattr(block, tensor) in self.plan.gradients

    def tokens(self, block: Block, tensor: str) -> Sym:
        """A field of a block (tokens_in, tokens_out, branch or normed) at the patches, (B, n, d)."""
        return drop(self.every_token(block, tensor), block.special, 1)

    def gradient(self, block: Block, tensor: str) -> Sym:
        """The gradient of the score at `tokens`, (B, n, d)."""
        return drop(self.every_gradient(block, tensor), block.special, 1)

    def every_token(self, block: Block, tensor: str) -> Sym:
        """`tokens` with special tokens, (B, N, d)."""
        return self._tokens(self.plan.values[getattr(block, tensor)], block, tensor)

    def every_gradient(self, block: Block, tensor: str) -> Sym:
        """`gradient` with special tokens, (B, N, d)."""
        return self._tokens(self.plan.gradients[getattr(block, tensor)], block, tensor)

    def attention(self, block: Block, after: Sym) -> Sym:
        """The attention of a block, (B, heads, [windows,] queries, keys), with special tokens and padding.

        One that the plan has a maker of is made anew when `after` is known, so that it is not held until then.
        """
        sizes = {"h": block.heads, "w": len(block.windows)}
        name = self.plan.values[block.attention]
        maker = self.plan.makers.get(name)
        shown = self.emit.sym(name) if maker is None else made(self.emit, name, maker, after)
        return arrange(shown, block.attention_layout, sizes).cast(np.float32)

    def _image(self, name: str) -> Sym:
        return arrange(self.emit.sym(name), self.architecture.input_layout, {}).cast(np.float32)

    def _tokens(self, name: str, block: Block, tensor: str) -> Sym:
        layout = block.output_layout if tensor == "tokens_out" else block.tokens_layout
        return arrange(self.emit.sym(name), layout, {}).cast(np.float32)
