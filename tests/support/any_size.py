"""A SegFormer whose file takes images of any size, with random weights."""

from __future__ import annotations

import io

import pytest


def segformer_of_any_size() -> bytes:
    """Four stages of one block; rows and columns are axes without a size, and shapes are computed from them."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.SegformerConfig(
        depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32], num_attention_heads=[1, 2, 3, 4], decoder_hidden_size=16,
        num_labels=5, attn_implementation="eager",
    )  # fmt: skip
    model = transformers.SegformerForSemanticSegmentation(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # as they are made the scores of all classes are nearly equal
            parameter.mul_(3.0) if parameter.ndim > 1 else parameter.add_(0.1 * torch.randn_like(parameter))

    written = io.BytesIO()
    any_size = {0: "batch", 2: "height", 3: "width"}
    torch.onnx.export(
        model, (torch.zeros(1, 3, 64, 96),), written, opset_version=17, dynamo=False,
        input_names=["pixel_values"], output_names=["logits"],
        dynamic_axes={"pixel_values": any_size, "logits": any_size},
    )  # fmt: skip
    return written.getvalue()
