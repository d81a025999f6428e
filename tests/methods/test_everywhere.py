"""Every method on every kind of model: a finite map of the right shape, or the refusal that the page documents."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import gradskip_onnx
from gradskip_onnx.api import Explainer
from gradskip_onnx.demo import demo_model
from gradskip_onnx.demo.scenes import scene
from gradskip_onnx.errors import InputError, UnsupportedModelError
from gradskip_onnx.instrument.pass_request import PassRequest
from gradskip_onnx.methods import METHODS
from gradskip_onnx.methods.masking.rise import RiseOptions, draw_masks
from gradskip_onnx.types import Array, Needs, Trace
from tests.support.method_models import fast

FIXTURES = Path(__file__).parent.parent / "fixtures"
MODELS: dict[str, Callable[[], Any]] = {
    "vit": demo_model,
    "deit": lambda: FIXTURES / "deit_distilled.onnx",
    "segformer": lambda: FIXTURES / "segformer.onnx",
}
REFUSED = {("attention-flow", "segformer"): "rollout is the substitute"}
MASKED_PIXELS = {("tis", "segformer"), ("mutex", "segformer")}
TWIN = 1e-6  # both sides start from the same float32 arrays; sums are ordered differently


@cache
def opened(name: str) -> Explainer:
    return gradskip_onnx.load(MODELS[name](), threads=1)


def picture(explainer: Explainer, seed: int = 3) -> Array:
    """A scene with planted evidence, as the model takes it."""
    how = explainer.preprocess
    values = scene(seed).image / 255.0
    return np.asarray(((values - how.mean) / how.std).transpose(2, 0, 1), dtype=np.float32)


@pytest.mark.parametrize("model", sorted(MODELS))
@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_on_every_model(name: str, model: str):
    explainer = opened(model)
    image = picture(explainer)
    if reason := REFUSED.get((name, model)):
        with pytest.raises(UnsupportedModelError, match=reason):
            explainer.explain(image[None], method=name, **fast(name))
        return
    (found,) = explainer.explain(image[None], method=name, **fast(name))
    scores, grids = found.relevance.scores, {block.grid for block in explainer.architecture.blocks}

    assert np.isfinite(scores).all()
    assert np.ptp(scores) > 0
    quarters = {(4 * rows, 4 * columns) for rows, columns in grids}
    assert scores.shape in {*grids, *quarters, image.shape[1:]}  # of patches, of quarters a side, or of pixels
    assert found.map.shape == image.shape[1:]
    assert found.relevance.method == name
    assert any("replaced by noise" in note for note in found.relevance.notes) == ((name, model) in MASKED_PIXELS)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_the_same_call_gives_the_same_map(name: str):
    """Masks, noise and clusters come from seeds; nothing is left from the call before."""
    explainer = opened("deit")
    images = np.stack([picture(explainer), picture(explainer, seed=4)])
    together = explainer.explain(images, method=name, **fast(name))
    (alone,) = explainer.explain(images[1:], method=name, **fast(name))

    found, expected = together[1].relevance.scores, alone.relevance.scores
    assert np.abs(found - expected).max() <= 1e-3 * np.abs(expected).max()  # sums depend on the batch size
    assert not np.allclose(together[0].relevance.scores, found)


# --- SegFormer: reduced keys, stages and a region, written out as whole matrices -------------------------------------


@cache
def passed() -> tuple[Explainer, Trace, Array]:
    """The model, a pass that shows all attention, and the pixels predicted as the class."""
    explainer = opened("segformer")
    every = explainer.architecture.every_block
    needs = Needs(attention=every, attention_gradients=every)
    (trace,), _, _ = explainer._run(picture(explainer)[None], [None], None, PassRequest(needs))
    return explainer, trace, trace.logits.argmax(axis=0) == trace.target


def expanded(A: Array, grid: tuple[int, int], side: int) -> Array:
    """(N, M) -> (N, N): a key stands for side x side tokens, each with an equal part."""
    rows, columns = grid
    E = np.zeros((A.shape[1], rows * columns))
    for j in range(rows * columns):
        y, x = divmod(j, columns)
        E[(y // side) * (columns // side) + x // side, j] = 1 / side**2
    return np.asarray(A.astype(np.float64) @ E)


def to_finer(coarse: tuple[int, int], fine: tuple[int, int], share: float) -> Array:
    """(N_coarse, N_fine): each token to the 2 x 2 tokens of its cell; a square matrix that moves nothing otherwise."""
    T = np.zeros((coarse[0] * coarse[1], fine[0] * fine[1]))
    for j in range(T.shape[1]):
        y, x = divmod(j, fine[1])
        if coarse == fine:
            T[j, j] = 1.0
        else:
            T[(y // 2) * coarse[1] + x // 2, j] = share
    return T


def start_row() -> Array:
    """The share of the explained pixels that lies on each token of the last stage."""
    explainer, _, mask = passed()
    rows, columns = explainer.architecture.blocks[-1].grid
    row = np.zeros((rows, columns))
    for y, x in np.argwhere(mask):
        row[y * rows // mask.shape[0], x * columns // mask.shape[1]] += 1
    return np.asarray(row.ravel() / mask.sum())


def matrices(kind: str) -> list[Array]:
    explainer, trace, _ = passed()
    found = []
    for block in explainer.architecture.blocks:
        A, G = (side[block.attention].astype(np.float64) for side in (trace.values, trace.gradients))
        merged = A.mean(axis=0) if kind == "attention" else np.maximum(A * G, 0).mean(axis=0)
        found.append(expanded(merged, block.grid, block.reduction))
    return found


def carried(row: Array, factors: list[Array], stop: int = 0) -> Array:
    """row M_L T M_(L-1) ... down to block `stop`."""
    blocks = passed()[0].architecture.blocks
    for at in range(len(blocks) - 1, stop - 1, -1):
        row = row @ factors[at]
        if at > stop:
            row = row @ to_finer(blocks[at].grid, blocks[at - 1].grid, 0.25)
    return np.asarray(row.reshape(blocks[stop].grid))


def explained(name: str, **options: float | str) -> Array:
    explainer, _, _ = passed()
    chosen: Any = options
    (found,) = explainer.explain(picture(explainer)[None], method=name, **chosen)
    scores: Array = found.relevance.scores
    return scores


def same(found: Array, expected: Array, within: float = TWIN) -> None:
    assert np.ptp(expected) > 1e-3 * expected.max()
    assert np.abs(found - expected).max() <= within * np.abs(expected).max()


def test_raw_attention_of_segformer():
    last = len(matrices("attention")) - 1
    same(explained("raw-attention"), carried(start_row(), matrices("attention"), last))


def test_rollout_of_segformer():
    factors = [(A + np.eye(len(A))) / (1 + A.sum(axis=1, keepdims=True)) for A in matrices("attention")]
    same(explained("rollout"), carried(start_row(), factors))


def test_chefer2_of_segformer():
    same(explained("chefer2"), carried(start_row(), [np.eye(len(E)) + E for E in matrices("weighted")]))


def test_tam_of_segformer():
    """A third of the five blocks is left out: the map lies on the grid of the second."""
    explainer, _, _ = passed()
    blocks, row = explainer.architecture.blocks, start_row()
    factors = [np.eye(len(A)) + A for A in matrices("attention")[:-1]] + matrices("attention")[-1:]
    image = picture(explainer)
    scales = np.linspace(0, 1, 4, dtype=np.float32)[:, None, None, None] * image
    region, target = passed()[2].astype(np.float32), passed()[1].target
    needs = PassRequest(Needs(attention_gradients=explainer.architecture.last_block))
    traces, _, _ = explainer._run(scales, [target] * 4, [region] * 4, needs)
    D = np.mean([trace.gradients[blocks[-1].attention] for trace in traces], axis=0)
    W = row @ np.maximum(D, 0).mean(axis=0)
    for at in range(len(blocks) - 1, 1, -1):
        W = W @ to_finer(blocks[at].grid, blocks[at - 1].grid, 1.0)

    same(explained("tam", steps=4), carried(row, factors, 1) * W.reshape(blocks[1].grid))


def test_legrad_of_segformer():
    """Only the last block's tokens can be replaced, and there they are what the model itself reads."""
    explainer, trace, _ = passed()
    block = explainer.architecture.blocks[-1]
    G = np.maximum(trace.gradients[block.attention].astype(np.float64), 0)

    # two backward passes, which ONNX Runtime fuses differently: float32 rounding through a block and the decoder
    same(explained("legrad"), G.mean(axis=(0, 1)).reshape(block.grid), within=1e-5)


def test_legrad_of_the_mean_is_for_classes_of_the_image():
    with pytest.raises(InputError, match="legrad option readout: mean is for classes"):
        explained("legrad", readout="mean")


def test_rise_of_segformer():
    """The probability of the class, averaged over the pixels that the whole picture gave to it."""
    explainer, trace, mask = passed()
    options = RiseOptions(masks=24, cells=4, keep=0.5)
    masks = np.concatenate(list(draw_masks(options, (96, 96))))
    session = onnxruntime.InferenceSession(str(FIXTURES / "segformer.onnx"), providers=["CPUExecutionProvider"])
    images = (masks[:, None] * picture(explainer)).astype(np.float32)
    logits = session.run([explainer.architecture.logits], {explainer.architecture.input: images})[0].astype(np.float64)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    p = (powers / powers.sum(axis=1, keepdims=True))[:, trace.target][:, mask].mean(axis=1)

    same(explained("rise", masks=24, cells=4, keep=0.5), np.tensordot(p, masks, axes=1) / (24 * 0.5))
