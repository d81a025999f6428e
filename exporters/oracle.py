"""The torch model's own values and gradients, by hooks and autograd."""

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
    """One pass of the torch model; lists go over the blocks."""

    logits: Array
    attention: list[Array]  # (B, heads, N, keys)
    attention_gradients: list[Array]
    outputs: list[Array]  # (B, N, d)
    gradients: list[Array]


def differentiate(exportable: Exportable, images: Array, classes: Array | None, predictions: Array | None) -> Oracle:
    """Gradients of the score of `classes` (B,); None: values alone.

    The score is the logit of the class; for segmentation its mean over the pixels that `predictions`, logits
    (B, C, h, w), give to the class, over all pixels where there are none. The predictions are handed in because two
    nearly equal logits may fall either way. The model itself stays as it is.
    """
    import torch

    twin = _in_float64(exportable)
    with torch.set_grad_enabled(classes is not None), _watch(twin.blocks) as seen:
        logits = twin.module(torch.from_numpy(images).double())
        if classes is not None:
            weights = seed(logits.detach().numpy() if predictions is None else predictions, classes)
            (logits * torch.from_numpy(weights)).sum().backward()
    return Oracle(
        logits=logits.detach().numpy(),
        attention=[_array(tensor) for tensor in seen.attention],
        attention_gradients=[_array(tensor.grad) for tensor in seen.attention if tensor.grad is not None],
        outputs=[_array(tensor) for tensor in seen.outputs],
        gradients=[_array(tensor.grad) for tensor in seen.outputs if tensor.grad is not None],
    )


def _in_float64(exportable: Exportable) -> Exportable:
    """A copy with the numbers that the file holds, those of float16 rounded to it.

    In float32 torch's own rounding now and then puts a unit of a ReLU on the wrong side of its kink, and a sound file
    would look wrong.
    """
    twin = copy.deepcopy(exportable)  # module and blocks at once, so that the blocks stay parts of the module
    if twin.dtype == "float16":
        twin.module.half()
    twin.module.double()
    return twin


def seed(logits: Array, classes: Array) -> Array:
    """The weight of every logit in the score, summed over the batch: images do not mix."""
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
class Seen:
    """What went by while watching; tensors keep their gradients."""

    attention: list[torch.Tensor]
    outputs: list[torch.Tensor]


@contextmanager
def _watch(blocks: tuple[torch.nn.Module, ...]) -> Iterator[Seen]:
    """Collect the softmax inside each block and what each block returns."""
    import torch

    seen, inside = Seen([], []), [False]

    class Softmaxes(torch.overrides.TorchFunctionMode):
        """Sees every softmax, whether it is a module, a function or a method."""

        def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if inside[0] and getattr(func, "__name__", "") == "softmax":
                seen.attention.append(_keep(result))
            return result

    def enter(_module: Any, _args: Any) -> None:
        inside[0] = True

    def leave(_module: Any, _args: Any, result: Any) -> None:
        inside[0] = False
        seen.outputs.append(_keep(result[0] if isinstance(result, tuple) else result))

    hooks = [block.register_forward_pre_hook(enter) for block in blocks]
    hooks += [block.register_forward_hook(leave) for block in blocks]
    try:
        with Softmaxes():
            yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _keep(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.requires_grad:
        tensor.retain_grad()
    return tensor
