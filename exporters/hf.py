"""Loads SegFormer by name, and ViT, DeiT and SegFormer from folders, with transformers."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.labels import read_json
from gradskip_onnx.images.model_configs import beside, from_hugging_face
from gradskip_onnx.images.preprocess import Preprocess

from . import checkpoints
from .quiet import quiet
from .request import SEED, Exportable, ExportRequest, from_hub, imagenet_labels


@dataclass(frozen=True, slots=True)
class Kind:
    """A model class of transformers."""

    block: str  # class name of its blocks
    any_size: bool = False  # whether the image size is free


KINDS: dict[str, Kind] = {
    "SegformerForSemanticSegmentation": Kind("SegformerLayer", any_size=True),
    "SegformerForImageClassification": Kind("SegformerLayer", any_size=True),
    "ViTForImageClassification": Kind("ViTLayer"),
    "DeiTForImageClassification": Kind("DeiTLayer"),
    "DeiTForImageClassificationWithTeacher": Kind("DeiTLayer"),
}

STRIDE = 32  # of SegFormer's last stage; at a size that is no multiple, grids lose pixels at the border

# Overlays of transformers' SegformerConfig, whose defaults are b0 (Xie et al. 2021, table 6).
WIDE = {"hidden_sizes": [64, 128, 320, 512]}
DEEP = WIDE | {"decoder_hidden_size": 768}
SIZES: dict[str, dict[str, Any]] = {
    "b0": {},
    "b1": WIDE,
    "b2": DEEP | {"depths": [3, 4, 6, 3]},
    "b3": DEEP | {"depths": [3, 4, 18, 3]},
    "b4": DEEP | {"depths": [3, 8, 27, 3]},
    "b5": DEEP | {"depths": [3, 6, 40, 3]},
}


@dataclass(frozen=True, slots=True)
class Family:
    """SegFormer for one task, with the defaults of its published models."""

    kind: str  # key of KINDS
    hub: Callable[[str], str]  # "b0" -> repository on the hub
    classes: int
    size: int  # side of the image in pixels


def _segformer_hub(size: str) -> str:
    side = 640 if size == "b5" else 512
    return f"nvidia/segformer-{size}-finetuned-ade-{side}-{side}"


FAMILIES: dict[str, Family] = {
    "segformer": Family("SegformerForSemanticSegmentation", _segformer_hub, 150, 512),
    "mit": Family("SegformerForImageClassification", lambda size: f"nvidia/mit-{size}", 1000, 224),
}


def load(request: ExportRequest) -> Exportable:
    """The transformers model of this name or folder, with eager attention."""
    return _from_folder(request) if Path(request.name).is_dir() else _by_name(request)


def _by_name(request: ExportRequest) -> Exportable:
    match = re.fullmatch(r"(?:nvidia/)?(segformer|mit)[_-](b[0-5])(.*)", request.name)
    if match is None:
        raise InputError(f"{request.name!r} is no SegFormer name; e.g. segformer_b0, nvidia/mit-b0")
    family, hub = FAMILIES[match[1]], request.name if "/" in request.name else FAMILIES[match[1]].hub(match[2])
    if request.checkpoint is None and not request.random_weights:
        module = from_hub(hub, lambda: _pretrained(family.kind, hub, request))
        preprocess = from_hub(hub, lambda: _hub_preprocess(hub))
    else:
        module = _fresh(family.kind, _config(SIZES[match[2]], request.classes or family.classes), request)
        size = (family.size, family.size)
        preprocess = Preprocess(size, 1.0, interpolation="bilinear", resize="stretch", source="usual for SegFormer")
    return _exportable(request.name, family.kind, module, preprocess, request)


def _from_folder(request: ExportRequest) -> Exportable:
    folder = Path(request.name)
    document = read_json(folder / "config.json") if (folder / "config.json").is_file() else None
    if not isinstance(document, dict):
        raise InputError(f"{folder} holds no config.json; expected a folder as transformers saves it")
    names = document.get("architectures") or ["none"]
    kind = str(names[0])
    if kind not in KINDS:
        raise InputError(f"{folder}: architecture {kind} cannot be exported; supported: {', '.join(KINDS)}")
    if request.checkpoint is None and not request.random_weights:
        module = _stored(kind, folder, request)
    else:
        module = _fresh(kind, _folder_config(kind, folder, request), request)
    stored = beside(folder / "model.onnx").preprocess
    size = getattr(module.config, "image_size", None)
    usual = Preprocess((size, size) if isinstance(size, int) else (512, 512), 1.0, resize="stretch")
    return _exportable(folder.resolve().name, kind, module, stored or usual, request)


def _exportable(name: str, kind: str, module: Any, preprocess: Preprocess, request: ExportRequest) -> Exportable:
    blocks = tuple(part for part in module.modules() if type(part).__name__ == KINDS[kind].block)
    if not blocks:
        raise InputError(f"{name}: no {KINDS[kind].block} found; this version of transformers is not known")
    if KINDS[kind].any_size:
        size = _free_size(name, request.size or preprocess.size)
    else:
        size = _bound_size(name, module, request)
    return Exportable(
        name=name,
        module=_logits_only(module).eval(),
        blocks=blocks,
        size=size,
        preprocess=replace(preprocess, size=size),
        labels=_labels(module.config),
        dtype=request.dtype,
    )


def _free_size(name: str, size: tuple[int, int]) -> tuple[int, int]:
    if any(side % STRIDE for side in size):
        raise InputError(f"{name}: {size[0]}x{size[1]} is no multiple of {STRIDE}, the stride of SegFormer; see --size")
    return size


def _bound_size(name: str, module: Any, request: ExportRequest) -> tuple[int, int]:
    sides = module.config.image_size
    size = (sides, sides) if isinstance(sides, int) else (int(sides[0]), int(sides[1]))
    if request.size not in (None, size):
        raise InputError(f"{name} is bound to {size[0]}x{size[1]} by its position embedding; leave --size out")
    return size


def _logits_only(module: Any) -> Any:
    import torch

    class LogitsOnly(torch.nn.Module):
        """The model as a function from pixels to logits."""

        def __init__(self) -> None:
            super().__init__()
            self.model = module

        def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.model(pixel_values=pixel_values, return_dict=True).logits
            return logits

    return LogitsOnly()


def _class(kind: str) -> Any:
    import transformers

    return getattr(transformers, kind)


def _config(values: dict[str, Any], classes: int) -> Any:
    from transformers import SegformerConfig

    return SegformerConfig(**values, num_labels=classes, attn_implementation="eager")


def _folder_config(kind: str, folder: Path, request: ExportRequest) -> Any:
    options = {} if request.classes is None else {"num_labels": request.classes}
    with quiet():
        return _class(kind).config_class.from_pretrained(
            str(folder), local_files_only=True, attn_implementation="eager", **options
        )


def _fresh(kind: str, config: Any, request: ExportRequest) -> Any:
    """A model of this configuration with the weights of the checkpoint, or with seeded random ones.

    transformers loads the checkpoint, because it knows the names of weights in its earlier versions.
    """
    import torch

    with quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        if request.checkpoint is None:
            return _class(kind)(config)
        state = checkpoints.read(request.checkpoint)
        module, report = _class(kind).from_pretrained(
            None, config=config, state_dict=state, output_loading_info=True, ignore_mismatched_sizes=True
        )
    _require_complete(report, request.checkpoint, request.name)
    return module


def _pretrained(kind: str, place: str, request: ExportRequest) -> Any:
    if request.classes is not None:
        raise InputError("--classes needs --checkpoint or --random-weights; published weights bring their own classes")
    with quiet():
        module, report = _class(kind).from_pretrained(
            place, attn_implementation="eager", output_loading_info=True, ignore_mismatched_sizes=True
        )
    _require_complete(report, Path(place), request.name)
    return module


def _stored(kind: str, folder: Path, request: ExportRequest) -> Any:
    """The model with the weights in the folder; transformers reads pickles with weights_only, so no code is run."""
    checkpoints.require_no_bombs(folder)
    try:
        return _pretrained(kind, str(folder.resolve()), request)
    except pickle.UnpicklingError as refused:
        raise InputError(
            f"the weights in {folder} hold more than tensors and were refused, because loading them could run code; "
            "save them as safetensors"
        ) from refused
    except OSError as failure:
        reason = str(failure).strip().splitlines()[0][:160]
        raise InputError(f"{folder}: no usable weights ({reason}); give a file with --checkpoint") from failure


def _require_complete(report: dict[str, Any], path: Path, name: str) -> None:
    reshaped = [f"{key} is {tuple(have)}, expected {tuple(want)}" for key, have, want in report["mismatched_keys"]]
    checkpoints.require_match(path, name, sorted(report["missing_keys"]), sorted(report["unexpected_keys"]), reshaped)


def _hub_preprocess(hub: str) -> Preprocess:
    from transformers.utils import cached_file

    with quiet():
        path = Path(cached_file(hub, "preprocessor_config.json"))
    document = read_json(path)
    if not isinstance(document, dict):
        raise InputError(f"{hub}: preprocessor_config.json is no object")
    return replace(from_hugging_face(document), source=f"{hub} preprocessor_config.json")


def _labels(config: Any) -> tuple[str, ...]:
    names = [str(config.id2label[index]) for index in range(config.num_labels)]
    if any(name != f"LABEL_{index}" for index, name in enumerate(names)):
        return tuple(names)
    return imagenet_labels(config.num_labels)
