"""Loads plain vision transformers of timm: vit_*, deit_*, deit3_*, also distilled ones."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.model_configs import from_timm
from gradskip_onnx.images.preprocess import Preprocess

from . import checkpoints
from .quiet import quiet
from .request import SEED, Exportable, ExportRequest, from_hub, imagenet_labels

if TYPE_CHECKING:
    import torch

FUSED = "fused_attn"  # attribute of timm's attention modules: whether the fused kernel is used


def load(request: ExportRequest) -> Exportable:
    """The timm model of this name with its weights; a distilled one averages its two heads, as timm does in eval."""
    name = request.name.removeprefix("timm/")
    module = _create(name, request)
    if request.checkpoint is not None:
        state = checkpoints.read(request.checkpoint)
        checkpoints.fit(module, _resampled(state, module, request), request.checkpoint, name)
    if not module.num_classes:
        raise InputError(f"{name} has no classifier; give the number of classes with --classes and a --checkpoint")
    blocks = getattr(module, "blocks", None)
    if blocks is None:
        raise InputError(f"{name} has no list of transformer blocks; export another vit_* or deit_* model")
    _show_attention(module)
    size = _whole_patches(name, module)
    return Exportable(
        name=name,
        module=module.eval(),
        blocks=tuple(blocks),
        size=size,
        preprocess=_preprocess(module, size),
        labels=_labels(module),
        dtype=request.dtype,
    )


def _whole_patches(name: str, module: Any) -> tuple[int, int]:
    """The image size, a multiple of the patch size; else timm would silently ignore pixels at the border."""
    size, grid = module.patch_embed.img_size, module.patch_embed.grid_size
    sides = [side // cells for side, cells in zip(size, grid, strict=True)]
    if any(side % cells for side, cells in zip(size, grid, strict=True)):
        raise InputError(
            f"{name}: {size[0]}x{size[1]} is no multiple of the patches of {sides[0]}x{sides[1]}; see --size"
        )
    return int(size[0]), int(size[1])


def _create(name: str, request: ExportRequest) -> Any:
    import timm
    import torch

    if not timm.is_model(name):
        raise InputError(f"timm does not know {name!r}{_similar(name)}")
    pretrained = request.checkpoint is None and not request.random_weights
    if pretrained and timm.get_pretrained_cfg(name) is None:
        raise InputError(f"timm has no weights for {name}; give a file with --checkpoint, or use --random-weights")
    options: dict[str, Any] = {"pretrained": pretrained}
    if request.size is not None:
        options["img_size"] = request.size
    if request.classes is not None:
        options["num_classes"] = request.classes
    with quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        return from_hub(name, lambda: _build(name, options))


def _build(name: str, options: dict[str, Any]) -> Any:
    import timm

    try:
        return timm.create_model(name, **options)
    except (TypeError, AssertionError, RuntimeError) as failure:  # what timm raises for options a model cannot take
        reason = str(failure).strip().splitlines()[0][:160]
        raise InputError(f"timm cannot build {name} with these options: {reason}") from failure


def _similar(name: str) -> str:
    """Names similar to an unknown one, as the end of a message."""
    import difflib

    import timm

    names = [*timm.list_models("vit_*"), *timm.list_models("deit*")]
    close = difflib.get_close_matches(name.split(".")[0], names, n=3)
    return f"; did you mean {', '.join(close)}?" if close else "; timm.list_models('vit_*') lists them"


def _show_attention(module: torch.nn.Module) -> None:
    """Switch this instance from the fused kernel to plain matrix products and softmax."""
    for part in module.modules():
        if hasattr(part, FUSED):
            setattr(part, FUSED, False)


def _resampled(state: dict[str, torch.Tensor], module: Any, request: ExportRequest) -> dict[str, torch.Tensor]:
    """The state with its position embedding resampled to the model's grid, if the request names a size."""
    from timm.layers import resample_abs_pos_embed

    have, want = state.get("pos_embed"), getattr(module, "pos_embed", None)
    if request.size is None or have is None or want is None or have.shape == want.shape or have.ndim != 3:
        return state
    grid = module.patch_embed.grid_size
    prefix = want.shape[1] - grid[0] * grid[1]
    side = round((have.shape[1] - prefix) ** 0.5)
    if have.shape[1] - prefix != side * side:
        raise InputError(f"{request.checkpoint}: pos_embed {tuple(have.shape)} is no square grid, so no --size fits it")
    return state | {"pos_embed": resample_abs_pos_embed(have, list(grid), num_prefix_tokens=prefix)}


def _preprocess(module: Any, size: tuple[int, int]) -> Preprocess:
    from timm.data import resolve_model_data_config

    config = json.loads(json.dumps(resolve_model_data_config(module)))  # tuples to lists, as in a file
    return replace(from_timm(config), size=size, source="timm pretrained_cfg")


def _labels(module: Any) -> tuple[str, ...]:
    names = (module.pretrained_cfg or {}).get("label_names") or ()
    return tuple(names) if len(names) == module.num_classes else imagenet_labels(module.num_classes)
