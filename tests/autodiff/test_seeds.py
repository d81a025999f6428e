"""The scores that are differentiated, against torch: chosen class, region of pixels, gradient at the logits."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest

pytest.importorskip("torch")

import torch
from onnx import helper

from gradskip_onnx.autodiff import SEEDS, Emit, Sym
from gradskip_onnx.types import Array, TensorFact

from .gradient_models import ir_version, run

pytestmark = pytest.mark.torch

CLOSE = 1e-6  # float32 softmax and division
CLASSES, HEIGHT, WIDTH = 4, 3, 5


def seeded(task: str, score: str, opset: int = 18, dtype: Any = np.float32) -> onnx.ModelProto:
    """A model that only holds logits, target and region, and the seed and the chosen class as outputs."""
    dims = (None, CLASSES) if task == "classification" else (None, CLASSES, HEIGHT, WIDTH)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    value = helper.make_tensor_value_info
    given = [value("z", kind, dims), value("target", 7, [None]), value("region", 1, [None, None, None])]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["z"], ["logits"])], "seed", given, [value("logits", kind, dims)]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version(opset))
    surgeon = gs.import_onnx(model)
    facts = {
        "z": TensorFact(dims, np.dtype(dtype)),
        "logits": TensorFact(dims, np.dtype(dtype)),
        "target": TensorFact((None,), np.dtype(np.int64)),
        "region": TensorFact((None, HEIGHT, WIDTH), np.dtype(np.float32)),
    }
    emit = Emit(surgeon, facts, opset)
    seed, chosen = SEEDS[score](emit, emit.sym("logits"), emit.sym("target"), emit.sym("region"))
    assert isinstance(seed, Sym)
    assert len(seed.dims) == len(dims)
    surgeon.outputs = [rename(seed, "seed"), rename(chosen, "chosen")]
    surgeon.cleanup()
    result: onnx.ModelProto = gs.export_onnx(surgeon, do_type_check=False)
    result.ir_version = ir_version(opset)
    onnx.checker.check_model(result)
    return result


def rename(sym: Sym, name: str) -> Any:
    sym.tensor.name = name
    return sym.tensor


def expected(task: str, score: str, z: Array, target: Array, region: Array) -> tuple[Array, Array]:
    """Image by image, pixel by pixel, from the definition."""
    seeds, chosen = [], []
    for image in range(len(z)):
        logits = torch.tensor(z[image]).double().requires_grad_()
        wanted = int(target[image % len(target)])
        shown = logits if score == "logit" else torch.softmax(logits, 0)
        if task == "classification":
            c = wanted if wanted >= 0 else int(logits.argsort(descending=True)[-1 - wanted])
            value = shown[c]
        else:
            predicted = logits.argmax(0)
            pixels = torch.bincount(predicted.flatten(), minlength=CLASSES)
            c = wanted if wanted >= 0 else int(pixels.argsort(descending=True, stable=True)[-1 - wanted])
            weights = torch.tensor(region[image % len(region)]).double().expand(HEIGHT, WIDTH)
            weights = (predicted == c).double() if (weights < 0).any() else weights
            weights = torch.ones(HEIGHT, WIDTH).double() if weights.sum() == 0 else weights
            value = (shown[c] * weights).sum() / weights.sum()
        seeds.append(torch.autograd.grad(value, logits)[0].numpy())
        chosen.append(c)
    return np.stack(seeds), np.asarray(chosen)


RNG = np.random.default_rng(3)
Z2 = RNG.normal(size=(3, CLASSES)).astype(np.float32)
Z4 = RNG.normal(size=(3, CLASSES, HEIGHT, WIDTH)).astype(np.float32)
Z4[:, 3] -= 9  # a class no pixel is predicted as
AUTO = np.full((1, 1, 1), -1, np.float32)
MASK = (RNG.uniform(size=(3, HEIGHT, WIDTH)) > 0.5).astype(np.float32)
SOME_NEGATIVE = MASK.copy()
SOME_NEGATIVE[1, 0, 0] = -1
EMPTY = MASK * np.asarray([1, 0, 1], np.float32)[:, None, None]
TARGETS = [np.asarray(t) for t in ([-1], [2], [0, 1, 2], [-1, 3, 0], [-2, 1, -4])]


@pytest.mark.parametrize("opset", [13, 18, 20])
@pytest.mark.parametrize("score", ["logit", "probability"])
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_classification(score: str, target: Array, opset: int) -> None:
    compare("classification", score, Z2, target, AUTO, opset)


@pytest.mark.parametrize("opset", [13, 20])
@pytest.mark.parametrize("score", ["logit", "probability"])
@pytest.mark.parametrize("target", [*TARGETS, np.asarray([3])], ids=str)
@pytest.mark.parametrize(
    "region",
    [AUTO, MASK, SOME_NEGATIVE, EMPTY, MASK * 2.5, MASK[:1], AUTO * 0],
    ids=["auto", "mask", "negative", "empty", "weights", "one", "zero"],
)
def test_segmentation(score: str, target: Array, region: Array, opset: int) -> None:
    compare("segmentation", score, Z4, target, region, opset)


def compare(task: str, score: str, z: Array, target: Array, region: Array, opset: int) -> None:
    model = seeded(task, score, opset)
    for batch in (z, z[:1]):
        count = len(batch)
        feeds = {"z": batch, "target": target[:count], "region": region[:count]}
        got = run(model, ["seed", "chosen"], feeds)
        seed, chosen = expected(task, score, batch, feeds["target"], feeds["region"])
        assert got["chosen"].tolist() == chosen.tolist()
        assert got["chosen"].dtype == np.int64
        np.testing.assert_allclose(got["seed"], seed, atol=CLOSE)


def test_the_element_type_follows_the_logits() -> None:
    got = run(
        seeded("segmentation", "logit", dtype=np.float16),
        ["seed"],
        {"z": Z4.astype(np.float16), "target": np.asarray([0]), "region": MASK},
    )
    assert got["seed"].dtype == np.float16
    assert np.isfinite(got["seed"]).all()


@pytest.mark.parametrize("task", ["classification", "segmentation"])
def test_one_image_can_have_several_targets(task: str) -> None:
    z, wanted = (Z2 if task == "classification" else Z4)[:1], np.asarray([-1, 3, -2, 0])
    got = run(seeded(task, "probability"), ["seed", "chosen"], {"z": z, "target": wanted, "region": AUTO})
    seed, chosen = expected(task, "probability", np.repeat(z, 4, axis=0), wanted, AUTO)
    assert got["chosen"].tolist() == chosen.tolist()
    np.testing.assert_allclose(got["seed"], seed, atol=CLOSE)


def test_a_place_that_does_not_exist_is_the_first() -> None:
    feeds = {"z": Z2[:1], "target": np.asarray([-5, -1000, -4]), "region": AUTO}
    assert run(seeded("classification", "logit"), ["chosen"], feeds)["chosen"].tolist() == [
        int(Z2[0].argmax()), int(Z2[0].argmax()), int(Z2[0].argmin()),
    ]  # fmt: skip
