"""Classes by number and by name."""

from __future__ import annotations

import pytest

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.classes import find_class

LABELS = ("cat", "dog, hound", "hot dog", "bird")


@pytest.mark.parametrize(
    ("target", "expected"), [(2, 2), (" 1 ", 1), ("CAT", 0), ("hound", 1), ("hot", 2), (None, None)]
)
def test_numbers_names_and_synonyms(target: int | str | None, expected: int | None):
    assert find_class(target, LABELS, 4) == expected


@pytest.mark.parametrize("target", ["bird", 3, "3"])
def test_labels_beyond_the_classes_name_nothing(target: int | str):
    with pytest.raises(InputError):
        find_class(target, LABELS, 3)
