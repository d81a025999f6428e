"""The request for an export, and the loaded torch model that answers it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from gradskip_onnx.errors import InputError

if TYPE_CHECKING:
    import torch

    from gradskip_onnx.images.preprocess import Preprocess

Dtype = Literal["float32", "float16"]
T = TypeVar("T")
SEED = 0  # of random weights, so that the same command writes the same file


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """The name of a model and the origin of its weights: a checkpoint, a hub, or random numbers."""

    name: str
    checkpoint: Path | None = None
    size: tuple[int, int] | None = None  # height, width
    classes: int | None = None
    random_weights: bool = False
    dtype: Dtype = "float32"

    def __post_init__(self) -> None:
        if self.checkpoint is not None and self.random_weights:
            raise InputError("--checkpoint and --random-weights exclude each other")


@dataclass(frozen=True, slots=True, eq=False)
class Exportable:
    """A torch model in eval mode, (B, 3, H, W) -> logits, with the facts that are written into its file."""

    name: str
    module: torch.nn.Module
    blocks: tuple[torch.nn.Module, ...]  # in order of depth; each returns its tokens (B, N, d), alone or first
    size: tuple[int, int]
    preprocess: Preprocess
    labels: tuple[str, ...]
    dtype: Dtype = "float32"


def imagenet_labels(classes: int) -> tuple[str, ...]:
    """The names of the ImageNet-1k classes if there are 1000 classes, else ()."""
    if classes != 1000:
        return ()
    from timm.data import ImageNetInfo

    return tuple(ImageNetInfo("imagenet-1k").label_descriptions())


def from_hub(name: str, fetch: Callable[[], T]) -> T:
    """The result of `fetch`, which may need the network; hub clients raise children of OSError."""
    try:
        return fetch()
    except OSError as failure:
        reason = (str(failure).strip() or type(failure).__name__).splitlines()[0][:160]
        raise InputError(
            f"the weights of {name} could not be fetched from the hub ({reason}); "
            "give a file with --checkpoint, or use --random-weights"
        ) from failure
