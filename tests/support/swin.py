"""A tiny Swin transformer, exported from timm."""

from __future__ import annotations

import pytest


def swin(size: int = 32) -> bytes:
    """Two stages of shifted windows; attention lies as (images x windows, heads, queries, keys).

    Windows are 4 x 4 tokens of 4 pixels: a size that is no multiple of 32 is padded.
    """
    torch, timm = pytest.importorskip("torch"), pytest.importorskip("timm")
    from gradskip_onnx.exporters.trace import trace

    torch.manual_seed(0)
    model = timm.models.swin_transformer.SwinTransformer(
        img_size=size, patch_size=4, window_size=4, embed_dim=8, depths=(2, 2), num_heads=(2, 2), num_classes=6
    ).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape))
    for module in model.modules():
        if hasattr(module, "fused_attn"):
            module.fused_attn = False
    return bytes(trace(model, torch.zeros(1, 3, size, size), opset=18).SerializeToString())
