"""Values and gradients of the torch model, by hooks and autograd."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gradskip_onnx.types import Array

from .request import Exportable

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, eq=False)
class Oracle:
    """Values and gradients of one pass of the torch model; lists have one entry per block."""

    logits: Array
    attention: list[Array]  # (B, heads, N, keys)
    attention_gradients: list[Array]
    outputs: list[Array]  # (B, N, d)
    gradients: list[Array]


def differentiate(exportable: Exportable, images: Array, classes: Array | None, predictions: Array | None) -> Oracle:
    """Run a float64 copy of the model; with `classes` (B,) also differentiate the score of each class.

    The score is the logit of the class; for segmentation its mean over the pixels predicted as the class, or over all
    pixels if there are none. `predictions` are the logits (B, C, h, w) that decide which pixels these are: those of the
    file, because two nearly equal logits may have another order in torch.
    """
    import torch

    twin = _in_float64(exportable)
    with torch.set_grad_enabled(classes is not None), _record(twin.blocks) as recording:
        logits = twin.module(torch.from_numpy(images).double())
        if classes is not None:
            weights = seed(logits.detach().numpy() if predictions is None else predictions, classes)
            (logits * torch.from_numpy(weights)).sum().backward()
    return Oracle(
        logits=logits.detach().numpy(),
        attention=[_array(tensor) for tensor in recording.attention],
        attention_gradients=[_array(tensor.grad) for tensor in recording.attention if tensor.grad is not None],
        outputs=[_array(tensor) for tensor in recording.outputs],
        gradients=[_array(tensor.grad) for tensor in recording.outputs if tensor.grad is not None],
    )


def _in_float64(exportable: Exportable) -> Exportable:
    """A float64 copy with the weights of the file, rounded to float16 first if the file holds float16.

    In float32 torch's own rounding can put an input of a ReLU on the wrong side of 0, and a correct file would fail.
    """
    twin = copy.deepcopy(exportable)  # copies module and blocks together, so that the blocks stay parts of the module
    if twin.dtype == "float16":
        twin.module.half()
    twin.module.double()
    return twin


def seed(logits: Array, classes: Array) -> Array:
    """The weight of every logit in the sum of the scores of all images; images do not interact."""
    weights = np.zeros(logits.shape, np.float32)
    for image, chosen in enumerate(classes):
        mask = logits[image].argmax(axis=0) == chosen if logits.ndim == 4 else np.True_
        mask = mask if np.any(mask) else np.ones_like(mask)
        weights[image, chosen] = mask / np.count_nonzero(mask)
    return weights


def _array(tensor: torch.Tensor) -> Array:
    array: Array = tensor.detach().numpy()
    return array


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """Tensors recorded during a pass, one per block; they keep their gradients."""

    attention: list[torch.Tensor]
    outputs: list[torch.Tensor]


@contextmanager
def _record(blocks: tuple[torch.nn.Module, ...]) -> Iterator[Recording]:
    """Record the softmax inside each block and the output of each block."""
    import torch

    recording, inside = Recording([], []), [False]

    class Softmaxes(torch.overrides.TorchFunctionMode):
        """Intercepts every softmax, whether it is a module, a function or a method."""

        def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if inside[0] and getattr(func, "__name__", "") == "softmax":
                recording.attention.append(_keep(result))
            return result

    def enter(_module: Any, _args: Any) -> None:
        inside[0] = True

    def leave(_module: Any, _args: Any, result: Any) -> None:
        inside[0] = False
        recording.outputs.append(_keep(result[0] if isinstance(result, tuple) else result))

    hooks = [block.register_forward_pre_hook(enter) for block in blocks]
    hooks += [block.register_forward_hook(leave) for block in blocks]
    try:
        with Softmaxes():
            yield recording
    finally:
        for hook in hooks:
            hook.remove()


def _keep(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.requires_grad:
        tensor.retain_grad()
    return tensor
