"""The counterfactual check against a slow twin, with a model whose answer is known for every image."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from gradskip_onnx.audit import counterfactual
from gradskip_onnx.audit.counterfactual import Question, count_of, erased_patches
from gradskip_onnx.audit.doubt import doubt_of
from gradskip_onnx.audit.settings import FILLS, CheckSettings
from gradskip_onnx.errors import InputError
from gradskip_onnx.metrics import Sample
from gradskip_onnx.tasks import TASKS
from gradskip_onnx.types import Array

SIDE, PATCH = 16, 4
TASK = TASKS["classification"]


class CornerModel:
    """The logit of class 1 is the sum over the first patch, that of class 0 is 0."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def logits(self, images: Array) -> Array:
        self.batches.append(len(images))
        return np.stack([[0.0, image[:, :PATCH, :PATCH].sum() / 8] for image in images]).astype(np.float32)


def question(place: tuple[int, int], seed: int = 0, shift: float = 0.0) -> Question:
    image = np.zeros((3, SIDE, SIDE), np.float32)
    image[:, :PATCH, :PATCH] = 1.0
    scores = np.zeros((4, 4))
    scores[place] = 1.0
    logits = CornerModel().logits(image[None])[0] + np.float32(shift)
    return Question(Sample("a", image, 1, patch=PATCH, seed=seed), scores, logits)


def twin(asked: Question, settings: CheckSettings) -> tuple[float, float]:
    """The same by its words: patch by patch, image by image."""
    sample, model = asked.sample, CornerModel()
    fill = FILLS[settings.fill](sample)

    def chance(patches: Iterable[Sequence[int]]) -> float:
        image = sample.image.copy()
        for row, column in patches:
            at = np.s_[:, row * PATCH : (row + 1) * PATCH, column * PATCH : (column + 1) * PATCH]
            image[at] = fill[at]
        score = float(model.logits(image[None])[0, 1])
        return float(1 / (1 + np.exp(-score)))

    count = max(1, round(settings.share * 16))
    chosen = np.argwhere(erased_patches(asked, settings.share))
    assert len(chosen) == count
    rng = np.random.default_rng((sample.seed, counterfactual.DRAWS))
    draws = []
    for _ in range(settings.draws):
        order = rng.permutation(16)
        draws.append(chance([divmod(at, 4) for at in range(16) if order[at] < count]))
    return chance(chosen), float(np.mean(draws))


@pytest.mark.parametrize("fill", list(FILLS))
@pytest.mark.parametrize("share", [0.05, 0.25])
@pytest.mark.parametrize("seed", [0, 7])
def test_as_its_twin(fill, share, seed):
    settings = CheckSettings(share, fill, 5)
    asked = [question((0, 0), seed), question((3, 3), seed + 1)]

    answers = counterfactual.ask(CornerModel().logits, TASK, asked, settings, 4)

    for one, answer in zip(asked, answers, strict=True):
        erased, random = twin(one, settings)
        assert answer.erased == pytest.approx(erased, rel=1e-6)  # the model answers in float32
        assert answer.random == pytest.approx(random, rel=1e-6)


def test_a_right_map_passes_and_a_wrong_one_fails():
    settings = CheckSettings(0.0625, "mean", 8)
    right, wrong = counterfactual.ask(CornerModel().logits, TASK, [question((0, 0)), question((2, 2))], settings, 8)

    assert right.passed
    assert right.patches == 1
    assert doubt_of(np.ones((2, 2)), right) is None
    assert not wrong.passed
    assert "no better than chance" in str(doubt_of(np.ones((2, 2)), wrong))
    assert "no score of the map is positive" in str(doubt_of(np.zeros((2, 2)), right))


def test_the_intact_image_proves_the_logits():
    """The difference is that of the logits, and an instrumented model that answers otherwise is not believed."""
    settings = CheckSettings(0.0625, "black", 2)
    same, other = counterfactual.ask(
        CornerModel().logits, TASK, [question((0, 0)), question((0, 0), shift=0.5)], settings, 8
    )  # fmt: skip
    asked = question((0, 0))
    flipped = Question(asked.sample, asked.scores, asked.logits[::-1])
    (another,) = counterfactual.ask(CornerModel().logits, TASK, [flipped], settings, 8)

    assert same.difference == 0
    assert other.difference == pytest.approx(0.5)
    assert "another class" in str(doubt_of(np.ones((2, 2)), another))


def test_images_share_batches():
    """Three images as they are, by themselves; of each six variants, eight at a time and not six."""
    model = CornerModel()
    counterfactual.ask(model.logits, TASK, [question((0, 0))] * 3, CheckSettings(0.1, "mean", 5), 8)

    assert model.batches == [3, 8, 8, 2]


def test_at_least_one_patch_and_never_all():
    assert count_of(16, 0.001) == 1
    assert count_of(16, 0.999) == 15


@pytest.mark.parametrize("wrong", [{"share": 0.0}, {"share": 1.0}, {"fill": "red"}, {"draws": 0}, {"share": "x"}])
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(InputError):
        CheckSettings(**wrong)
