"""The families: one row each, a small configuration with random weights, and which of its parts are the blocks.

torch and the libraries are imported where a model is built: those who only read the table do without.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

CLASSES = 7
WIDE, SQUARE = (64, 96), (64, 64)  # height, width; a grid that is not square shows rows and columns mixed up

Make = Callable[[], "nn.Module"]
Fuse = Callable[[Any, bool], None]


@dataclass(frozen=True, slots=True)
class Family:
    """One row. `block` is the class name of the modules whose outputs are the residual stream after each block."""

    name: str
    issue: str  # the family as the request for this zoo calls it
    make: Make
    block: str
    fuse: Fuse | None
    size: tuple[int, int] = WIDE
    other: tuple[int, int] | None = None  # a second size, where the model takes any
    task: str = "classification"
    pools: int = 0  # attentions in the head, which have no block in torch

    def build(self) -> nn.Module:
        """The model in eval mode with its seeded weights."""
        import torch

        from .weights import stir

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return stir(self.make())

    def blocks(self, module: nn.Module) -> tuple[nn.Module, ...]:
        return tuple(part for part in module.modules() if type(part).__name__ == self.block)


def switch(module: Any, fused: bool) -> None:
    """timm's switch on each attention module."""
    for part in module.modules():
        if hasattr(part, "fused_attn"):
            part.fused_attn = fused


def choose(module: Any, fused: bool) -> None:
    """The switch of transformers."""
    module.model.set_attn_implementation("sdpa" if fused else "eager")


SMALL = {"embed_dim": 48, "depth": 3, "num_heads": 3, "num_classes": CLASSES}
ROTARY = SMALL | {"embed_dim": 64, "num_heads": 2}
STAGES = {"embed_dim": 32, "depths": (2, 2), "num_heads": (2, 4), "num_classes": CLASSES, "window_size": 4}


def timm(name: str, **options: Any) -> Make:
    def make() -> nn.Module:
        from timm import create_model

        model: nn.Module = create_model(name, pretrained=False, **options)
        return model

    return make


def alone(make: Make) -> Make:
    def wrapped() -> nn.Module:
        from .wrappers import Alone

        return Alone(make())

    return wrapped


def vit(**options: Any) -> Make:
    def make() -> nn.Module:
        from timm.models.vision_transformer import VisionTransformer

        model: nn.Module = VisionTransformer(**{"img_size": WIDE, "patch_size": 16, **SMALL, **options})
        return model

    return make


def pyramid() -> nn.Module:
    from timm.models.pvt_v2 import PyramidVisionTransformerV2

    model: nn.Module = PyramidVisionTransformerV2(
        depths=(1, 2, 1, 1), embed_dims=(16, 32, 48, 64), num_heads=(1, 2, 3, 4), mlp_ratios=(2, 2, 2, 2),
        num_classes=CLASSES,
    )  # fmt: skip
    return model


def torchvision() -> nn.Module:
    from torchvision.models import VisionTransformer

    model: nn.Module = VisionTransformer(
        image_size=64, patch_size=16, num_layers=3, num_heads=3, hidden_dim=48, mlp_dim=96, num_classes=CLASSES
    )
    return model


PLAIN = {"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 3, "intermediate_size": 96, "patch_size": 16}
SIZED = PLAIN | {"image_size": list(WIDE)}
LABELLED = SIZED | {"num_labels": CLASSES}
WINDOWED = {
    "image_size": 64, "patch_size": 4, "embed_dim": 32, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4,
    "num_labels": CLASSES, "drop_path_rate": 0.0,
}  # fmt: skip
SEGFORMER = {
    "depths": [1, 2, 1, 1], "hidden_sizes": [16, 32, 48, 64], "num_attention_heads": [1, 2, 3, 4],
    "mlp_ratios": [2, 2, 2, 2], "decoder_hidden_size": 32, "num_labels": CLASSES, "drop_path_rate": 0.0,
}  # fmt: skip


def hf(kind: str, config: dict[str, Any], field: str = "logits", **options: Any) -> Make:
    def make() -> nn.Module:
        import transformers

        from .wrappers import Logits

        family = getattr(transformers, kind)
        return Logits(family(family.config_class(**config)), field, **options)

    return make


def towered(kind: str, tower: str, config: dict[str, Any]) -> Make:
    """A classifier on the vision tower of a model of images and texts."""

    def make() -> nn.Module:
        import transformers

        from .wrappers import Logits

        family = getattr(transformers, kind)
        vision = getattr(transformers, tower)(**config)
        return Logits(family(family.config_class(vision_config=vision.to_dict(), num_labels=CLASSES)), "logits")

    return make


def dinov3() -> nn.Module:
    from transformers import DINOv3ViTConfig, DINOv3ViTModel

    from .wrappers import Pooled

    config = DINOv3ViTConfig(**SIZED | {"num_register_tokens": 4, "hidden_size": 48})
    return Pooled(DINOv3ViTModel(config), 48, CLASSES)


def cct() -> nn.Module:
    from .cct import CCT

    return CCT(WIDE, width=48, depth=3, heads=3, classes=CLASSES)


def _timm(name: str, issue: str, make: Make, block: str = "Block", **options: Any) -> Family:
    return Family(name, issue, make, block, switch, **options)


def _hf(name: str, issue: str, make: Make, block: str, **options: Any) -> Family:
    return Family(name, issue, make, block, choose, **options)


ANY: dict[str, Any] = {"other": (96, 96)}

ROWS: tuple[Family, ...] = (
    _timm("vit", "timm ViT plain", vit()),
    _timm("vit_any_size", "timm ViT plain", vit(dynamic_img_size=True), **ANY),
    _timm("vit_gap", "timm ViT GAP", vit(global_pool="avg", class_token=True)),
    _timm("vit_registers", "timm ViT registers", vit(reg_tokens=4)),
    _timm("vit_qk_norm", "timm ViT qk-norm", vit(qk_norm=True)),
    _timm("vit_layer_scale", "timm ViT LayerScale", vit(init_values=1e-5)),
    _timm("vit_attention_pool", "timm ViT attention-pool head", vit(global_pool="map", class_token=False), pools=1),
    _timm("vit_no_cls", "timm ViT no CLS", vit(global_pool="avg", class_token=False)),
    _timm("vit_quick_gelu", "timm ViT no CLS", vit(global_pool="avg", class_token=False, act_layer="quick_gelu")),
    _timm("deit", "DeiT", timm("deit_tiny_patch16_224", img_size=WIDE, **SMALL)),
    _timm("deit_distilled", "DeiT-distilled", timm("deit_tiny_distilled_patch16_224", img_size=WIDE, **SMALL)),
    _timm("deit3", "DeiT-3", timm("deit3_small_patch16_224", img_size=WIDE, **SMALL)),
    _timm("beit", "BEiT", timm("beit_base_patch16_224", img_size=WIDE, **SMALL)),
    _timm("beitv2", "BEiT", timm("beitv2_base_patch16_224", img_size=WIDE, **SMALL)),
    _timm("eva02", "EVA-02", alone(timm("eva02_tiny_patch14_224", img_size=(56, 84), **ROTARY)), "EvaBlock",
          size=(56, 84)),
    _timm("clip", "CLIP", timm("vit_base_patch16_clip_quickgelu_224", img_size=WIDE, **SMALL)),
    _timm("siglip", "SigLIP", timm("vit_base_patch16_siglip_224", img_size=WIDE, **SMALL), pools=1),
    _timm("siglip_gap", "SigLIP", timm("vit_base_patch16_siglip_gap_224", img_size=WIDE, **SMALL)),
    _timm("dinov2", "DINOv2", timm("vit_small_patch14_reg4_dinov2", img_size=(56, 84), **SMALL), size=(56, 84)),
    _timm("dinov3", "DINOv3", alone(timm("vit_small_patch16_dinov3", img_size=WIDE, **ROTARY)), "EvaBlock"),
    _timm("swin", "Swin", timm("swin_tiny_patch4_window7_224", img_size=SQUARE, **STAGES), "SwinTransformerBlock",
          size=SQUARE),
    _timm("swin_padded", "Swin", timm("swin_tiny_patch4_window7_224", img_size=(56, 72), **STAGES),
          "SwinTransformerBlock", size=(56, 72)),
    _timm("swinv2", "Swin-v2", timm("swinv2_tiny_window8_256", img_size=SQUARE, **STAGES),
          "SwinTransformerV2Block", size=SQUARE),
    _timm("pvtv2", "PVTv2", pyramid, **ANY),
    _timm("cct", "CCT", cct, pools=1),
    Family("torchvision_vit", "torchvision ViT", torchvision, "EncoderBlock", None, size=SQUARE),
    _hf("hf_vit_any_size", "transformers ViT", hf("ViTForImageClassification", LABELLED | {"image_size": 64},
        interpolate_pos_encoding=True), "ViTLayer", size=SQUARE, **ANY),
    _hf("hf_vit", "transformers ViT", hf("ViTForImageClassification", LABELLED), "ViTLayer"),
    _hf("hf_deit", "transformers DeiT", hf("DeiTForImageClassification", LABELLED), "DeiTLayer"),
    _hf("hf_deit_distilled", "transformers DeiT", hf("DeiTForImageClassificationWithTeacher", LABELLED), "DeiTLayer"),
    _hf("hf_dinov2", "transformers DINOv2", hf("Dinov2ForImageClassification", LABELLED | {"image_size": 64}),
        "Dinov2Layer", size=SQUARE),
    _hf("hf_dinov3", "DINOv3", dinov3, "DINOv3ViTLayer"),
    _hf("hf_beit", "transformers BEiT", hf("BeitForImageClassification", LABELLED), "BeitLayer"),
    _hf("hf_swin", "transformers Swin", hf("SwinForImageClassification", WINDOWED), "SwinLayer", size=SQUARE),
    Family("hf_swinv2", "Swin-v2", hf("Swinv2ForImageClassification", WINDOWED), "Swinv2Layer", None, size=SQUARE),
    _hf("hf_segformer", "transformers SegFormer", hf("SegformerForSemanticSegmentation", SEGFORMER),
        "SegformerLayer", task="segmentation", **ANY),
    _hf("hf_mit", "SegFormer", hf("SegformerForImageClassification", SEGFORMER), "SegformerLayer", **ANY),
    _hf("hf_clip", "CLIP", towered("CLIPForImageClassification", "CLIPVisionConfig", SIZED | {"image_size": 64}),
        "CLIPEncoderLayer", size=SQUARE),
    _hf("hf_siglip", "SigLIP", towered("SiglipForImageClassification", "SiglipVisionConfig",
        SIZED | {"image_size": 64}), "SiglipEncoderLayer", size=SQUARE),
)  # fmt: skip

FAMILIES: dict[str, Family] = {row.name: row for row in ROWS}
