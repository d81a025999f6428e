"""The tensors of a pass inside the graph: the counterpart of `types.Trace`, of which methods are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gradskip_onnx.autodiff.emit import Emit
from gradskip_onnx.autodiff.sym import Sym
from gradskip_onnx.types import Architecture, Block, Plan

from .layouts import arrange, drop

Tensors = Mapping[str, str]  # tensor of the model -> where the plan shows it, or its gradient


@dataclass(frozen=True, slots=True, eq=False)
class Traced:
    """What a plan shows of one pass, as float32 in canonical order; `emit` writes behind it.

    Every image has one class, so that values and gradients have the same batch axis.
    """

    emit: Emit
    architecture: Architecture
    plan: Plan
    cache: dict[str, Sym] = field(default_factory=dict)

    def image(self) -> Sym:
        """The model's input, (B, channels, H, W)."""
        return self._image(self.architecture.input)

    def image_gradient(self) -> Sym:
        """The gradient of the score at the image, (B, channels, H, W)."""
        return self._image(self.plan.gradients[self.architecture.input])

    def unsigned_gradient(self) -> Sym:
        """The same with the size of the relevance of each channel of the embedding."""
        return self._image(self.plan.unsigned[self.architecture.input])

    def tokens(self, block: Block, tensor: str) -> Sym:
        """A field of a block (tokens_in, tokens_out, branch or normed) at the patches, (B, n, d)."""
        name = getattr(block, tensor)
        return self._tokens(self.plan.values[name], block, tensor)

    def gradient(self, block: Block, tensor: str) -> Sym:
        """The gradient of the score at `tokens`, (B, n, d)."""
        name = getattr(block, tensor)
        return self._tokens(self.plan.gradients[name], block, tensor)

    def _image(self, name: str) -> Sym:
        return self._float(arrange(self.emit.sym(name), self.architecture.input_layout, {}))

    def _tokens(self, name: str, block: Block, tensor: str) -> Sym:
        layout = block.output_layout if tensor == "tokens_out" else block.tokens_layout
        if name not in self.cache:
            self.cache[name] = self._float(drop(arrange(self.emit.sym(name), layout, {}), block.special, axis=1))
        return self.cache[name]

    def _float(self, x: Sym) -> Sym:
        return x.cast(np.float32)
