"""The scenes keep their promises: reproducible, exactly masked, told apart by form alone; the models learnt them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image

from gradskip_onnx import demo
from gradskip_onnx.demo import scenes, shapes
from gradskip_onnx.images.preprocess import Preprocess, prepare

FIXTURES = Path(__file__).parent.parent / "fixtures"
SEEDS = range(40)
AT_ONCE = 100  # images in one run, for memory
HELD_OUT = range(10_000, 14_000)  # training used seeds from 1,000,000 on; no choice was made by looking at these

VIT = demo.demo_model()
DEIT = FIXTURES / "deit_distilled.onnx"
SEGFORMER = FIXTURES / "segformer.onnx"


def test_same_seed_gives_the_same_bytes_on_every_machine():
    made = scenes.scene(7)

    digest = hashlib.sha256(made.image.tobytes() + made.mask.tobytes()).hexdigest()
    assert digest == "c99d9481dc850474af3d900a1678bfe6d4885bf5420ec1745b755e31e0adbbfb"
    assert scenes.CLASSES[made.label] == "moon"


def test_another_seed_gives_another_scene():
    assert len({scenes.scene(seed).image.tobytes() for seed in SEEDS}) == len(SEEDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_mask_is_where_the_object_was_drawn(seed):
    made, bare = scenes.scene(seed), scenes.backdrop(seed)

    changed = (made.image != bare).any(axis=2)
    assert not (changed & ~made.mask).any(), "the object left its mask"
    # Edge pixels hardly covered may round to the colour below.
    assert (changed & made.mask).sum() > 0.9 * made.mask.sum()
    assert 100 < made.mask.sum() < 500


@pytest.mark.parametrize("seed", SEEDS)
def test_only_the_planted_object_depends_on_the_class(seed):
    """One seed with all classes in turn: outside the masks not a byte differs, so nothing else can tell the class."""
    made = [scenes.scene(seed, label=label) for label in range(len(scenes.CLASSES))]

    touched = np.any([m.mask for m in made], axis=0)
    for one in made:
        np.testing.assert_array_equal(one.image[~touched], scenes.backdrop(seed)[~touched])
    assert [m.label for m in made] == list(range(len(scenes.CLASSES)))
    assert scenes.scene(seed).image.tobytes() in {m.image.tobytes() for m in made}


def test_distractors_are_never_classes():
    assert not set(shapes.PLANTED) & set(shapes.DISTRACTORS)
    assert {thing.form for seed in range(200) for thing in scenes._arrange(seed)[0]} == set(shapes.DISTRACTORS)


@pytest.fixture(scope="module")
def layouts():
    return [scenes._arrange(seed) for seed in range(1500)]


@pytest.mark.parametrize("attribute", ["x", "y", "unit", "tilt", "mirror", "ink", "texture"])
def test_planted_object_is_styled_and_placed_like_a_distractor(attribute, layouts):
    """Two-sample Kolmogorov-Smirnov statistic against its 0.1 % critical value, seeds fixed."""
    planted = np.sort([getattr(thing, attribute) for _, thing in layouts])
    others = np.sort([getattr(thing, attribute) for things, _ in layouts for thing in things])

    at = np.unique(np.concatenate([planted, others]))
    ranks = [np.searchsorted(sample, at, side="right") / len(sample) for sample in (planted, others)]
    critical = 1.95 * np.sqrt(1 / len(planted) + 1 / len(others))
    assert np.abs(ranks[0] - ranks[1]).max() < critical


def test_classes_are_balanced():
    counts = np.bincount([scenes.scene(seed, 16).label for seed in range(1600)], minlength=len(scenes.CLASSES))

    expected = 1600 / len(scenes.CLASSES)
    assert ((counts - expected) ** 2 / expected).sum() < 24.3  # chi-squared, 7 degrees of freedom, 0.1 %


@pytest.mark.parametrize("name", shapes.FORMS)
def test_forms_have_one_area_and_stay_within_reach(name):
    axis = np.linspace(-1.6, 1.6, 641)
    inside = shapes.distance(name, axis[None, :], axis[:, None]) < 0.0

    area = inside.sum() * (axis[1] - axis[0]) ** 2
    assert area == pytest.approx(shapes.AREA, rel=0.01)  # lattice counting
    rows, columns = np.nonzero(inside)
    assert np.hypot(axis[rows], axis[columns]).max() < shapes.REACH


def test_another_size_shows_the_same_picture():
    small, large = scenes.scene(3, 96), scenes.scene(3, 384)

    reduced = np.asarray(Image.fromarray(large.image).resize((96, 96), Image.Resampling.BOX), float)
    assert np.abs(reduced - small.image).mean() < 2.0  # grey levels; edges are averaged differently
    assert small.label == large.label


def test_batch_stacks_scenes():
    made = scenes.batch([5, 9], 48)

    assert made.images.shape == (2, 48, 48, 3)
    assert made.masks.shape == (2, 48, 48)
    np.testing.assert_array_equal(made.images[1], scenes.scene(9, 48).image)
    assert made.labels.tolist() == [scenes.scene(seed).label for seed in (5, 9)]


def notes(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads({p.key: p.value for p in onnx.load(path).metadata_props}["gradskip_onnx"])
    return document


def logits(path: Path, images: Iterable[np.ndarray]) -> np.ndarray:
    """Images are bytes at the model's size; prepared with nothing but the file's own metadata."""
    preprocess = Preprocess.from_dict(notes(path)["preprocess"])
    arrays = np.stack([prepare(Image.fromarray(image), preprocess)[0] for image in images])
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    parts = [arrays[at : at + AT_ONCE] for at in range(0, len(arrays), AT_ONCE)]
    return np.concatenate([session.run(["logits"], {"pixel_values": part})[0] for part in parts])


@pytest.fixture(scope="module")
def held_out():
    return scenes.batch(HELD_OUT)


@pytest.mark.slow
@pytest.mark.parametrize(("path", "least"), [(VIT, 0.97), (DEIT, 0.92)])
def test_classifiers_know_the_held_out_scenes(path, least, held_out):
    """Measured 97.4 % and 93.6 %. Fewer scenes would not do: the first thousand alone give the demo model 96.1 %."""
    assert notes(path)["labels"] == list(scenes.CLASSES)
    assert (logits(path, held_out.images).argmax(1) == held_out.labels).mean() >= least


@pytest.mark.slow
def test_segformer_finds_the_planted_object(held_out):
    assert notes(SEGFORMER)["labels"] == ["background", *scenes.CLASSES]
    images, labels, masks = held_out.images[:300], held_out.labels[:300], held_out.masks[:300]
    scores = logits(SEGFORMER, images)  # (n, 9, 24, 24)
    named = scores.argmax(1).repeat(4, axis=1).repeat(4, axis=2)

    truth = masks * (labels[:, None, None] + 1)
    assert (named == truth).mean() >= 0.98  # measured 0.99; naming nothing at all would give 0.97
    assert (named == truth)[masks].mean() >= 0.85  # measured 0.92


@pytest.mark.parametrize(("path", "most"), [(VIT, 2_000_000), (DEIT, 1_000_000), (SEGFORMER, 1_000_000)])
def test_files_are_small_plain_and_take_any_batch(path, most):
    model = onnx.load(path)

    assert path.stat().st_size <= most
    assert {node.domain for node in model.graph.node} == {""}
    assert [i.name for i in model.graph.input] == ["pixel_values"]
    assert [o.name for o in model.graph.output] == ["logits"]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param


def test_demo_image_is_the_scene_of_its_seed_and_the_model_knows_it():
    made = scenes.scene(demo.SEED, demo.SIDE)
    shipped = np.asarray(Image.open(demo.demo_image()))

    np.testing.assert_array_equal(shipped, made.image)
    scores = logits(VIT, [shipped])[0]
    assert scores.argmax() == made.label
