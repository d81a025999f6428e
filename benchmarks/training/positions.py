"""Position embeddings that know at the first step which patches are neighbours."""

from __future__ import annotations

from typing import Any

import torch

SCALE = 0.5  # waves between -1 and 1 would drown the patches' own values


def start_as_waves(model: Any, side: int, width: int) -> None:
    """Let the positions of `side` by `side` patches of a timm model start as sines and cosines of their place."""
    from timm.layers import build_sincos2d_pos_embed

    waves = build_sincos2d_pos_embed([side, side], width).view(1, side * side, width)
    with torch.no_grad():
        model.pos_embed[:, -side * side :].copy_(SCALE * waves)
