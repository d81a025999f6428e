"""AttnLRP by lxt and zennit, its authors' packages, in a process of its own: lxt replaces methods of torch's classes.

    python -m benchmarks.speed.torch_lrp CASE IMAGES MAPS THREADS

Writes its maps to MAPS and answers each line it is sent by a line, after one more explanation: how long that took.
"""

from __future__ import annotations

import pickle
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

ANSWER = "done"
GAMMAS = {"linear": 0.05, "conv": 0.25}  # as in lxt's own example
LINEAR = ("fc1", "fc2", "head", "head_dist")


def attnlrp(model: Any, images: Any) -> Callable[[], Any]:
    """Relevance of the predicted classes at the pixels, (B, H, W): x times the modified gradient."""
    import lxt
    import torch
    import torchvision
    from torch import nn
    from zennit.composites import NameMapComposite
    from zennit.rules import Gamma

    # lxt reads all its models at once, and those for text want an older transformers: only that for vision is read.
    models: Any = ModuleType("lxt.efficient.models")
    models.__path__, models.get_default_map = [f"{next(iter(lxt.__path__))}/efficient/models"], None
    sys.modules[models.__name__] = models
    from lxt.efficient import monkey_patch
    from lxt.efficient.models.vit_torch import cp_LRP
    from lxt.efficient.zennit_patches import monkey_patch_zennit

    monkey_patch(torchvision.models.vision_transformer, cp_LRP)
    monkey_patch_zennit()
    attend = nn.functional.scaled_dot_product_attention
    nn.functional.scaled_dot_product_attention = lambda q, k, v, **more: attend(q.detach(), k.detach(), v, **more)
    for part in model.modules():
        if isinstance(part, nn.LayerNorm):
            part.__class__ = nn.LayerNorm  # timm's own would not be patched
        if hasattr(part, "fused_attn"):
            part.fused_attn = True  # what was patched above
    layers = [name for name, _ in model.named_modules() if name.split(".")[-1] in LINEAR]
    rules = [(layers, Gamma(GAMMAS["linear"])), (["patch_embed.proj"], Gamma(GAMMAS["conv"]))]
    NameMapComposite(rules).register(model)
    leaf = images.requires_grad_()

    def explain() -> Any:
        scores = model(leaf).max(dim=1).values.sum()
        (gradient,) = torch.autograd.grad(scores, leaf)
        return (leaf * gradient).sum(1).detach()

    return explain


def main(case: str, images: str, maps: str, threads: str) -> None:
    import torch
    from gradskip_onnx.exporters import load

    torch.set_num_threads(int(threads))
    model = load(pickle.loads(Path(case).read_bytes()).request).module
    explain = attnlrp(model, torch.from_numpy(np.load(images)))
    began = time.perf_counter()
    np.save(maps, explain().numpy())
    print(ANSWER, time.perf_counter() - began, flush=True)
    for _ in sys.stdin:
        began = time.perf_counter()
        explain()
        print(ANSWER, time.perf_counter() - began, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
