"""The model most exports are tried on, at a size that is quick."""

from __future__ import annotations

VIT = "vit_tiny_patch16_224"

SIZE = (64, 96)  # 4 x 6 patches: quick, and no square by chance

EXACT = 1e-5  # float32 sums in another order; relative to the largest value
