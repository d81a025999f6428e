"""Random weights: which weights fall when, what is left alone, and maps that notice against maps that do not."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import gradskip_onnx
from gradskip_onnx.errors import InputError
from gradskip_onnx.graph.architecture import Reading, read
from gradskip_onnx.graph.read.load import load
from gradskip_onnx.instrument.build_plan import build_plan
from gradskip_onnx.metrics.randomisation import randomised, sanity_check, stages
from gradskip_onnx.metrics.similarity import SIMILARITIES, WINDOW, ssim
from gradskip_onnx.types import Array, Needs
from tests.support.models import Vit, vit

pytest.importorskip("scipy")

SPREAD = 0.2  # of a standard deviation estimated from 144 draws or more: 1 / sqrt(288) = 0.06


@pytest.fixture(scope="module")
def plain() -> tuple[onnx.ModelProto, Reading]:
    source = load(vit(Vit(depth=3)).SerializeToString())
    reading = read(source)
    return build_plan(source, reading, Needs()).model, reading


def weights(model: onnx.ModelProto) -> dict[str, Array]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def test_stages_from_the_head_down(plain):
    model, reading = plain
    found = stages(model, reading.architecture)

    assert [stage.name for stage in found] == ["head", "block 2", "block 1", "block 0", "embedding"]
    sizes = [sorted(weights(model)[name].shape for name in stage.weights) for stage in found]
    assert sizes[0] == [(5, 12)]
    assert sizes[-1] == [(12, 3, 8, 8)]
    assert sizes[1] == sizes[2] == sizes[3]
    assert sum(np.prod(shape) for shape in sizes[1]) == 12 * 12 * 8  # 4 of d x d, 2 of d x 2d


def test_redrawn_weights_keep_their_spread_and_the_rest_stays(plain):
    model, reading = plain
    names = stages(model, reading.architecture)[1].weights
    before, after = weights(model), weights(randomised(model, names, seed=1))

    assert before.keys() == after.keys()
    for name, old in before.items():
        if name in names:
            assert (old != after[name]).all()
            assert after[name].std() == pytest.approx(old.std(), rel=3 * SPREAD)
            assert after[name].dtype == old.dtype
        else:
            np.testing.assert_array_equal(old, after[name])


def test_draws_follow_the_seed_and_the_weight_alone(plain):
    """A weight falls to the same values whichever others fall with it."""
    model, reading = plain
    first, second, *_ = stages(model, reading.architecture)
    alone = weights(randomised(model, first.weights, 3))[first.weights[0]]
    among = weights(randomised(model, [*second.weights, *first.weights], 3))[first.weights[0]]
    other = weights(randomised(model, first.weights, 4))[first.weights[0]]

    np.testing.assert_array_equal(alone, among)
    assert (alone != other).any()


@pytest.mark.parametrize(("mode", "changed"), [("cascading", [1, 2, 3, 4, 5]), ("independent", [1, 1, 1, 1, 1])])
def test_modes(plain, mode, changed):
    """How many stages differ from the original at each step."""
    model, reading = plain
    parts = stages(model, reading.architecture)
    original = weights(model)
    seen = []

    def explain(given):
        now = weights(given)
        seen.append(sum(any((now[name] != original[name]).any() for name in part.weights) for part in parts))
        return [np.arange(WINDOW**2, dtype=float).reshape(WINDOW, WINDOW)]

    steps = sanity_check(model, reading.architecture, explain, mode=mode)

    assert seen == [0, *changed]
    assert [step.stage for step in steps] == [part.name for part in parts]
    assert [value for step in steps for (value,) in step.similarity.values()] == pytest.approx([1] * 15)


def test_gradskip_notices_and_an_edge_detector_does_not(plain):
    """The point of the check: a map of the image alone stays the same, an explanation does not."""
    model, reading = plain
    images = np.random.default_rng(0).standard_normal((2, 3, 32, 32)).astype(np.float32)
    target = [1, 2]

    def gradskip(given):
        return [found.map for found in gradskip_onnx.load(given.SerializeToString()).explain(images, target)]

    def edges(_given):
        return [np.abs(np.diff(image.mean(axis=0), axis=0, append=0)) for image in images]

    last = sanity_check(model, reading.architecture, gradskip)[-1].similarity
    blind = sanity_check(model, reading.architecture, edges)[-1].similarity

    assert max(last["spearman"]) < 0.9
    assert min(blind["spearman"]) > 0.999


def test_unknown_mode(plain):
    model, reading = plain
    with pytest.raises(InputError, match="cascading, independent"):
        sanity_check(model, reading.architecture, lambda _: [], mode="both")  # type: ignore[arg-type]


def slow_ssim(a: Array, b: Array) -> float:
    """Window by window, from the definition."""
    a, b = ((m - m.min()) / (m.max() - m.min()) for m in (a, b))
    values = []
    for row in range(a.shape[0] - WINDOW + 1):
        for column in range(a.shape[1] - WINDOW + 1):
            x, y = (m[row : row + WINDOW, column : column + WINDOW].reshape(-1) for m in (a, b))
            (vx, shared), (_, vy) = np.cov(x, y)
            top = (2 * x.mean() * y.mean() + 1e-4) * (2 * shared + 9e-4)
            values.append(top / ((x.mean() ** 2 + y.mean() ** 2 + 1e-4) * (vx + vy + 9e-4)))
    return float(np.mean(values))


@pytest.mark.parametrize("seed", range(3))
def test_twin_of_ssim(seed: int):
    rng = np.random.default_rng(seed)
    one, other = rng.random((2, 12, 15))
    mixed = one + 0.3 * other

    assert ssim(one, mixed) == pytest.approx(slow_ssim(one, mixed), abs=1e-5)  # maps are scaled in float32
    assert ssim(one, one) == pytest.approx(1)


def test_similarities_by_hand():
    """Signs turned: opposite ranks, equal strengths."""
    one = np.arange(-24.0, 25).reshape(7, 7)

    assert SIMILARITIES["spearman"](one, -one) == pytest.approx(-1)
    assert SIMILARITIES["spearman_absolute"](one, -one) == pytest.approx(1)
    assert SIMILARITIES["spearman"](one, np.zeros((7, 7))) == 0
    assert np.isfinite(SIMILARITIES["ssim"](one, np.zeros((7, 7))))
    with pytest.raises(InputError, match="7x7"):
        ssim(np.zeros((3, 9)), np.zeros((3, 9)))
