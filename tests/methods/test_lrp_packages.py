"""AttnLRP against lxt and zennit, the packages of its authors; real weights."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import lxt
import lxt.explicit.functional as lf
import timm
import torch
import torchvision
import zennit.core
from lxt.explicit.rules import identity
from PIL import Image
from torch import nn
from zennit.composites import LayerMapComposite, NameMapComposite
from zennit.rules import Gamma

from gradskip_onnx.types import Array

from .lrp_cases import IMAGES, TARGETS, case, load, patches_of, same
from .tiny_vit import HEADS, WIDTH, TinyVit, exported

pytestmark = pytest.mark.torch


def vision_transformer() -> nn.Module:
    """torchvision's, small, with a head that is not all zeros."""
    torch.manual_seed(3)
    model: nn.Module = torchvision.models.VisionTransformer(
        image_size=16, patch_size=4, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=24, num_classes=5
    )
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            nn.init.normal_(module.weight, 1.0, 0.2)
    return model.eval()


PATCHED = ((nn.GELU, "forward"), (nn.LayerNorm, "forward"), (nn.MultiheadAttention, "forward"))


@pytest.fixture
def with_lxt(monkeypatch: pytest.MonkeyPatch) -> None:
    """lxt's rules for torchvision's ViT and zennit's for layers, until the test is over.

    lxt reads all its models at once, and those for text want an older transformers: only that for vision is read.
    """
    models: Any = ModuleType("lxt.efficient.models")
    models.__path__, models.get_default_map = [f"{next(iter(lxt.__path__))}/efficient/models"], None
    monkeypatch.setitem(sys.modules, models.__name__, models)
    from lxt.efficient import monkey_patch
    from lxt.efficient.models.vit_torch import cp_LRP
    from lxt.efficient.zennit_patches import monkey_patch_zennit

    for where, name in (*PATCHED, (zennit.core.BasicHook, "forward"), (zennit.core.BasicHook, "backward")):
        monkeypatch.setattr(where, name, getattr(where, name))
        monkeypatch.setattr(where, f"original_{name}", None, raising=False)
    monkey_patch(torchvision.models.vision_transformer, cp_LRP)
    monkey_patch_zennit()


def torchvision_file() -> bytes:
    """Written before anything is patched."""
    return bytes(exported(vision_transformer(), 17, size=(16, 16)).SerializeToString())


@pytest.mark.parametrize(("linear", "conv"), [(0.05, 0.25), (0.0, 0.0), (1.0, 100.0)])
def test_attnlrp_agrees_with_lxt(linear: float, conv: float, request: pytest.FixtureRequest) -> None:
    """As in lxt's own example: R = sum over the channels of x * gradient, gamma rules by zennit."""
    explainer = load(torchvision_file())
    image = np.random.default_rng(7).normal(size=(1, 3, 16, 16)).astype(np.float32)
    request.getfixturevalue("with_lxt")
    composite = LayerMapComposite([(kind, Gamma(g)) for kind, g in ((nn.Conv2d, conv), (nn.Linear, linear)) if g])
    model = vision_transformer().double()
    composite.register(model)
    leaf = torch.tensor(image).double().requires_grad_()
    for target in (0, 4):
        leaf.grad = None
        model(leaf)[0, target].backward()
        assert leaf.grad is not None
        expected = (leaf * leaf.grad).sum(1)[0].detach().numpy()
        (found,) = explainer.explain(image, target, method="attnlrp", gamma_linear=linear, gamma_conv=conv)
        same([found.relevance.scores], [expected])
    composite.remove()


def test_full_attnlrp_agrees_with_the_rules_of_lxt() -> None:
    """The model in lxt's functions, which carry relevance itself; the stabilisers are set to 0."""
    model = TinyVit(1).double()

    def layer(x: Any, of: Any) -> Any:
        return lf.linear_epsilon(x, of.weight, of.bias, 0.0)

    def norm(x: Any, of: Any) -> Any:
        return lf.layer_norm_grad_fn.apply(x, of.weight, of.bias, of.eps, 0.0)

    def block(i: int, x: Any) -> Any:
        parts = layer(norm(x, model.norm1[i]), model.qkv[i])
        q, k, v = parts.reshape(1, -1, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        scores = lf.mul2(lf.matmul(q, k.transpose(-2, -1), epsilon=0.0), (WIDTH // HEADS) ** -0.5)
        mixed = lf.matmul(lf.softmax(scores, -1), v, epsilon=0.0).transpose(1, 2).reshape(x.shape)
        x = lf.add2(x, layer(mixed, model.out[i]), epsilon=0.0)
        active = identity(nn.functional.gelu, layer(norm(x, model.norm2[i]), model.up[i]))
        return lf.add2(x, layer(active, model.down[i]), epsilon=0.0)

    expected = []
    for image, target in zip(IMAGES, TARGETS, strict=True):
        patches = model.embed(torch.tensor(image[None]).double()).flatten(2).transpose(1, 2)
        tokens = (torch.cat([model.extra, patches], dim=1) + model.position).detach().requires_grad_()
        x = tokens
        for i in range(model.depth):
            x = block(i, x)
        y = layer(norm(x, model.norm)[:, 0], model.heads[0])[0, target]
        y.backward(y.detach())
        assert tokens.grad is not None
        expected.append(patches_of(tokens.grad[0].numpy(), 1))
    same(case("class token").maps("attnlrp", variant="full", read="tokens"), expected)


ASSETS = os.environ.get("GRADSKIP_ASSETS")
RUNS: dict[str, dict[str, Any]] = {"attnlrp": {}, "ah+ln": {"read": "pixels"}, "chefer1": {}, "pe-lrp": {}}


@pytest.mark.slow
@pytest.mark.skipif(not ASSETS, reason="GRADSKIP_ASSETS is not set")
def test_real_weights(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """DeiT-tiny on a small photograph: AttnLRP by lxt, AH+LN by torch with detach(), all methods finite."""
    model = timm.create_model("deit_tiny_patch16_224", norm_layer=partial(nn.LayerNorm, eps=1e-6)).eval()
    model.load_state_dict(torch.load(f"{ASSETS}/deit_tiny/deit_tiny_patch16_224.pth", weights_only=True))
    model.set_input_size((96, 96))
    explainer = load(exported(model, 17, size=(96, 96)).SerializeToString())
    with Image.open(sorted(Path(f"{ASSETS}/images").iterdir())[0]) as picture:
        pixels = np.asarray(picture.convert("RGB").resize((96, 96)), np.float32) / 127.5 - 1
    image = pixels.transpose(2, 0, 1)[None]
    found = {
        name: explainer.explain(image, 7, method=name, **options)[0].relevance.scores for name, options in RUNS.items()
    }
    assert all(np.isfinite(one).all() and np.ptp(one) > 0 for one in found.values())

    request.getfixturevalue("with_lxt")
    attend = nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        nn.functional, "scaled_dot_product_attention", lambda q, k, v, **more: attend(q.detach(), k.detach(), v, **more)
    )

    def at_pixels() -> Array:
        leaf = torch.tensor(image).double().requires_grad_()
        model.double()(leaf)[0, 7].backward()
        assert leaf.grad is not None
        return np.asarray((leaf * leaf.grad).sum(1)[0].detach().numpy())

    with monkeypatch.context() as patched:
        patched.setattr(nn.GELU, "forward", lambda _, x: nn.functional.gelu(x))
        same([found["ah+ln"]], [at_pixels()])
    layers = [name for name, _ in model.named_modules() if name.endswith(("fc1", "fc2", "head"))]
    with NameMapComposite([(layers, Gamma(0.05)), (["patch_embed.proj"], Gamma(0.25))]).context(model):
        same([found["attnlrp"]], [at_pixels()])
