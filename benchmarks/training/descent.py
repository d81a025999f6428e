"""AdamW with clipped gradients and a learning rate that rises, stays and falls."""

from __future__ import annotations

import torch
from torch import Tensor, nn

WARM_UP = 200  # steps
STEADY = 0.65  # share of the training up to which the rate stays at its height
LONGEST_GRADIENT = 1.0


class Descent:
    """The optimizer of a model over a known number of steps."""

    def __init__(self, model: nn.Module, rate: float, steps: int) -> None:
        self.steps = steps
        self.done = 0
        self._parameters = list(model.parameters())
        self._optimizer = torch.optim.AdamW(self._parameters, lr=rate, weight_decay=0.05)
        self._schedule = torch.optim.lr_scheduler.LambdaLR(self._optimizer, lambda step: pace(step, steps))

    @property
    def progress(self) -> float:
        """The share of the steps that lies behind."""
        return self.done / self.steps

    def step(self, loss: Tensor) -> None:
        self._optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self._parameters, LONGEST_GRADIENT)
        self._optimizer.step()
        self._schedule.step()
        self.done += 1


def pace(step: int, steps: int) -> float:
    """Factor of the learning rate: up, steady, then a straight line to zero."""
    return min(1.0, (step + 1) / WARM_UP, (1.0 - step / steps) / (1.0 - STEADY))
