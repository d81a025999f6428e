"""The three models trained on the scenes: what each is, what it learns from, how it is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, cross_entropy, interpolate

from benchmarks.training.positions import start_as_waves
from gradskip_onnx.demo.scenes import CLASSES, SIZE

PATCH = 8
PATCHES = (SIZE // PATCH) ** 2
INIT = "jax"  # Glorot; the other choice, a fixed deviation of 0.02, starts a narrow network almost dead
COVERED = 0.25  # a patch shows the object if the mask covers this share of it

# What the two classifiers share.
VIT: dict[str, Any] = {"img_size": SIZE, "patch_size": PATCH, "num_classes": len(CLASSES), "weight_init": INIT}

Logits = Tensor | tuple[Tensor, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What one step learns from: scenes, patches looked at, weight of the hint."""

    images: Tensor
    labels: Tensor
    masks: Tensor
    named: Tensor  # the classes that the teacher names; the labels, if there is none
    kept: int
    hint: float


class Student(nn.Module):
    """A model while it is trained: beside it a linear reader of the patch tokens, thrown away afterwards.

    Two economies make minutes of hours, and neither touches the model that is shipped. Each patch is told what it
    shows, so its token has a reason to tell forms apart from the first step on; the hint fades out later. And at first
    only a few patches are looked at: all of the planted object, and as many others, at random, as make up `kept`.
    """

    model: Any  # timm's, which is not typed

    def __init__(self, model: nn.Module, width: int, special: int) -> None:
        super().__init__()
        self.model = model
        start_as_waves(self.model, SIZE // PATCH, width)
        self.special = special
        self.reader = nn.Linear(width, len(CLASSES) + 1)

    def forward(self, task: Task) -> tuple[Logits, Tensor]:
        """The logits of the heads, and the weighted loss of the hint."""
        tokens = self.model._pos_embed(self.model.patch_embed(task.images))
        special, patches = tokens[:, : self.special], tokens[:, self.special :]
        cover = avg_pool2d(task.masks.float()[:, None], PATCH).flatten(1)
        kept = (torch.rand_like(cover) + 2.0 * (cover > 0.0)).topk(task.kept).indices
        patches = patches.gather(1, kept[..., None].expand(-1, -1, patches.shape[2]))
        cover = cover.gather(1, kept)
        tokens = self.model.norm(self.model.blocks(torch.cat([special, patches], 1)))
        truth = (cover >= COVERED) * (task.labels[:, None] + 1)
        hint = cross_entropy(self.reader(tokens[:, self.special :]).flatten(0, 1), truth.flatten())
        return self.model.forward_head(tokens), task.hint * hint


@dataclass(frozen=True, slots=True)
class Round:
    """A stretch of training with its own rise and fall of the learning rate."""

    epochs: int
    rate: float
    kept: tuple[tuple[float, int], ...] = ((1.0, PATCHES),)  # until this share of the round, so many patches
    hinted: float = 0.0  # the share of the round over which the hint fades out

    def hint(self, progress: float) -> float:
        return max(0.0, 1.0 - progress / self.hinted) if self.hinted else 0.0

    def patches(self, progress: float) -> int:
        return next(count for until, count in self.kept if progress < until)


@dataclass(frozen=True, slots=True)
class Recipe:
    """One row: the model, its loss, its scores on (logits, labels, masks), class names, file, schedule."""

    build: Callable[[], nn.Module]
    loss: Callable[[nn.Module, Task], Tensor]
    measure: Callable[[Tensor, Tensor, Tensor], Mapping[str, float]]
    labels: tuple[str, ...]
    target: str
    rounds: tuple[Round, ...]
    batch: int = 32
    teacher: str | None = None  # another row


def build_vit() -> nn.Module:
    from timm.models.vision_transformer import VisionTransformer

    model = VisionTransformer(
        **VIT,
        embed_dim=96,
        depth=6,
        num_heads=4,
        mlp_ratio=1.5,
    )
    return Student(model, 96, special=1)


def build_deit() -> nn.Module:
    from timm.models.deit import VisionTransformerDistilled

    model = VisionTransformerDistilled(
        **VIT,
        embed_dim=64,
        depth=5,
        num_heads=2,
        mlp_ratio=2.0,
    )
    model.set_distilled_training(True)
    return Student(model, 64, special=2)


def build_segformer() -> nn.Module:
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    config = SegformerConfig(
        depths=[1, 1, 2, 1],
        hidden_sizes=[16, 32, 48, 64],
        num_attention_heads=[1, 2, 3, 4],
        sr_ratios=[8, 4, 2, 1],
        mlp_ratios=[2, 2, 2, 2],
        decoder_hidden_size=48,
        drop_path_rate=0.0,
        initializer_range=0.06,  # about Glorot at these widths
        num_labels=len(CLASSES) + 1,
    )
    model: nn.Module = SegformerForSemanticSegmentation(config)
    return model


def class_loss(student: nn.Module, task: Task) -> Tensor:
    """Cross-entropy of the class, plus the fading hint."""
    logits, hint = student(task)
    loss: Tensor = cross_entropy(logits, task.labels) + hint
    return loss


def distilled_loss(student: nn.Module, task: Task) -> Tensor:
    """Hard distillation: one head learns the label, the other the class that the teacher names."""
    (head, distilled), hint = student(task)
    loss: Tensor = 0.5 * cross_entropy(head, task.labels) + 0.5 * cross_entropy(distilled, task.named) + hint
    return loss


def pixel_loss(model: nn.Module, task: Task) -> Tensor:
    """Cross-entropy of each pixel; the object weighs more, as it covers 3 % of the image."""
    logits = interpolate(model(task.images).logits, size=task.masks.shape[1:], mode="bilinear", align_corners=False)
    weights = torch.ones(logits.shape[1])
    weights[1:] = 4.0
    return cross_entropy(logits, task.masks * (task.labels[:, None, None] + 1), weight=weights)


def accuracy(logits: Tensor, labels: Tensor, masks: Tensor) -> Mapping[str, float]:  # noqa: ARG001
    return {"accuracy": (logits.argmax(1) == labels).float().mean().item()}


def segmentation(logits: Tensor, labels: Tensor, masks: Tensor) -> Mapping[str, float]:
    """Pixel accuracy and mean intersection over union, all test pixels pooled, background a class like the others."""
    total = logits.shape[1]
    table = torch.zeros(total, total)
    for some, label, mask in zip(*(torch.split(whole, 100) for whole in (logits, labels, masks)), strict=True):
        full = interpolate(some, size=mask.shape[1:], mode="bilinear", align_corners=False).argmax(1)
        truth = mask * (label[:, None, None] + 1)
        table += torch.bincount((truth * total + full).flatten(), minlength=total * total).view(total, total)
    hit = table.diagonal()
    return {
        "pixel accuracy": (hit.sum() / table.sum()).item(),
        "mIoU": (hit / (table.sum(0) + table.sum(1) - hit)).mean().item(),
    }


# Forms first, then where they are among the rest, then whole images.
FIND = Round(5, 1.2e-3, kept=((0.65, 20), (0.88, 56), (1.0, PATCHES)), hinted=0.9)

RECIPES: dict[str, Recipe] = {
    "vit": Recipe(
        build_vit,
        class_loss,
        accuracy,
        CLASSES,
        "gradskip_onnx/demo/vit.onnx",
        (FIND, Round(1, 6e-4), Round(1, 8e-4, hinted=0.8)),
    ),
    "deit": Recipe(
        build_deit,
        distilled_loss,
        accuracy,
        CLASSES,
        "tests/fixtures/deit_distilled.onnx",
        (Round(4, 1.5e-3, kept=((0.55, 20), (0.85, 56), (1.0, PATCHES)), hinted=0.9), Round(1, 8e-4, hinted=0.8)),
        teacher="vit",
    ),
    "segformer": Recipe(
        build_segformer,
        pixel_loss,
        segmentation,
        ("background", *CLASSES),
        "tests/fixtures/segformer.onnx",
        (Round(1, 2e-3),),
    ),
}
