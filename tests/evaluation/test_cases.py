"""Ground truth in the frame of the model, classes to explain, checked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from gradskip_onnx.datasets import Entry
from gradskip_onnx.errors import InputError
from gradskip_onnx.evaluation.cases import _targets, patch_side, seed_of
from gradskip_onnx.evaluation.truth import OTHER, areas_of, boxes_of, mask_of, seen_box, seen_pixels, shown_classes
from gradskip_onnx.images.preprocess import Geometry
from gradskip_onnx.tasks import TASKS
from tests.support.evaluation_data import explainer

# A picture of 4 rows and 8 columns whose middle 4 x 4 the model sees at 2 x 2.
GEOMETRY = Geometry((4, 8), (2.0, 0.0, 6.0, 4.0))


def entry(**truth) -> Entry:
    return Entry("x", lambda: Image.new("RGB", (8, 4)), lambda: "digest", **truth)


def test_boxes_follow_the_crop():
    assert seen_box((2.0, 0.0, 6.0, 2.0), GEOMETRY, (2, 2)) == (0.0, 0.0, 2.0, 1.0)
    assert seen_box((0.0, 0.0, 8.0, 4.0), GEOMETRY, (2, 2)) == (-1.0, 0.0, 3.0, 2.0)


def test_pixels_follow_the_crop():
    values = np.arange(32).reshape(4, 8)

    np.testing.assert_array_equal(seen_pixels(values, GEOMETRY, (2, 2), -1), [[11, 13], [27, 29]])
    wider = Geometry((4, 8), (-4.0, 0.0, 4.0, 4.0))  # half of the frame is beside the picture
    np.testing.assert_array_equal(seen_pixels(values, wider, (2, 4), -1), [[-1, -1, 9, 11], [-1, -1, 25, 27]])
    with pytest.raises(InputError, match="the mask is"):
        seen_pixels(values.T, GEOMETRY, (2, 2), -1)


def test_an_outline_is_the_label_and_nothing_else():
    outline = np.zeros((4, 8), bool)
    outline[:2, 2:4] = True
    areas = areas_of(entry(outline=lambda: outline), 3, GEOMETRY, (2, 2))

    np.testing.assert_array_equal(areas, [[3, OTHER], [OTHER, OTHER]])
    np.testing.assert_array_equal(mask_of(areas, 3), [[1, 0], [0, 0]])
    np.testing.assert_array_equal(mask_of(areas, 2), np.zeros((2, 2)))
    assert areas_of(entry(outline=lambda: outline), None, GEOMETRY, (2, 2)) is None


def test_unlabelled_pixels_are_ignored():
    areas = np.array([[0, -1], [2, 2]])

    np.testing.assert_array_equal(mask_of(areas, 2), [[0, -1], [1, 1]])


def test_boxes_are_those_of_the_class_explained():
    told = entry(boxes=lambda size: ((0.0, 0.0, float(size[1]), float(size[0])),))

    assert boxes_of(told, 3, 3, GEOMETRY, (2, 2)) == ((-1.0, 0.0, 3.0, 2.0),)
    assert boxes_of(told, 3, 4, GEOMETRY, (2, 2)) == ()
    assert boxes_of(entry(), 3, 3, GEOMETRY, (2, 2)) is None


def test_classes_of_a_segmentation_are_there_and_predicted():
    areas = np.zeros((20, 20), int)
    areas[:10] = 2
    areas[10, 0] = 1  # 0.25 % of the frame
    logits = np.zeros((3, 4, 4))
    logits[0, :2], logits[1, 2:] = 1, 1

    assert shown_classes(areas, logits) == [0]
    assert _targets(TASKS["segmentation"], logits, None, "label", areas) == [0]
    assert _targets(
        TASKS["segmentation"], logits[:, :1] * 0 - np.arange(3)[:, None, None], None, "label", areas - 5
    ) == ("no class is both there and predicted")


def test_classes_of_a_classifier():
    logits = np.array([0.0, 2.0, 1.0])

    assert _targets(TASKS["classification"], logits, 2, "predicted", None) == [1]
    assert _targets(TASKS["classification"], logits, 2, "label", None) == [2]
    assert _targets(TASKS["classification"], logits, None, "label", None) == "the image has no label"


def test_the_patch_removed_and_the_seed():
    assert patch_side(explainer()) == 8
    assert seed_of("a") == seed_of("a") != seed_of("b")
