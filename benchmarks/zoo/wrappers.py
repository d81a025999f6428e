"""Models as functions from pixels to logits."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


class Logits(nn.Module):
    """A model of transformers as a function from pixels to logits."""

    def __init__(self, model: Any, field: str, **options: Any) -> None:
        super().__init__()
        self.model, self.field, self.options = model, field, options

    def forward(self, pixel_values: Tensor) -> Tensor:
        logits: Tensor = getattr(self.model(pixel_values=pixel_values, return_dict=True, **self.options), self.field)
        return logits


class Alone(nn.Module):
    """A model as a function of the picture alone; TorchScript makes tensors of the defaults of other arguments."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixel_values: Tensor) -> Tensor:
        logits: Tensor = self.model(pixel_values)
        return logits


class Pooled(nn.Module):
    """A backbone without a classifier, given one on its pooled output."""

    def __init__(self, model: Any, width: int, classes: int) -> None:
        super().__init__()
        self.model, self.head = model, nn.Linear(width, classes)

    def forward(self, pixel_values: Tensor) -> Tensor:
        logits: Tensor = self.head(self.model(pixel_values=pixel_values, return_dict=True).pooler_output)
        return logits
