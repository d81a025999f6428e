"""Many images: a list or an iterator gives what its images give one by one."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gradskip_onnx
from gradskip_onnx.errors import InputError
from gradskip_onnx.methods import choose_method
from gradskip_onnx.pipeline.batch import run_jobs
from gradskip_onnx.pipeline.explainer import Explainer
from gradskip_onnx.pipeline.question import Question
from gradskip_onnx.types import Array
from tests.support.models import Vit, vit

from .pictures import BATCHED, floats, pixels, png


@pytest.fixture
def mixed(tmp_path) -> list[Any]:
    """Five images, no two of a kind or size."""
    (tmp_path / "a.png").write_bytes(png(pixels(1)))
    others = [pixels(2, (30, 30, 3)), Image.fromarray(pixels(3, (64, 20, 3))), floats(3, 32, 32), png(pixels(4))]
    return [tmp_path / "a.png", *others]


@pytest.mark.parametrize("batch_size", [None, 1, 2, 5, 64])
@pytest.mark.parametrize("method", ["gradskip", "rise"])
def test_a_list_is_its_images_one_by_one(explainer, mixed, batch_size, method):
    options: dict[str, Any] = {"masks": 8, "keep": 0.5} if method == "rise" else {}
    alone = [explainer.explain(each, method=method, **options) for each in mixed]
    together = explainer.explain(mixed, method=method, batch_size=batch_size, **options)

    assert [found.map.shape for found in together] == [(40, 60), (30, 30), (64, 20), (32, 32), (40, 60)]
    assert [found.target.index for found in together] == [found.target.index for found in alone]
    for a, b in zip(together, alone, strict=True):
        np.testing.assert_allclose(a.map, b.map, **BATCHED)
        assert a.geometry == b.geometry


@pytest.mark.parametrize(("batch_size", "runs"), [(None, [1] * 5), (2, [2, 2, 1]), (5, [5]), (64, [5])])
def test_so_many_images_run_at_once(explainer, mixed, monkeypatch, batch_size, runs):
    seen: list[int] = []
    original = Explainer._run

    def counting(self: Explainer, images: Array, *rest: Any) -> Any:
        seen.append(len(images))
        return original(self, images, *rest)

    monkeypatch.setattr(Explainer, "_run", counting)
    explainer.explain(mixed, batch_size=batch_size)
    explainer.classify(mixed, batch_size=batch_size)
    assert seen == runs * 2
    seen.clear()
    explainer.explain(floats(11, 3, 32, 32))
    assert seen == [8, 3]  # a preprocessed array, however long


def test_a_tuple_is_a_list_and_none_is_none(explainer, mixed):
    assert len(explainer.explain(tuple(mixed[:2]))) == 2
    assert len(explainer.explain(mixed[:1])) == 1
    assert explainer.explain([]) == []
    assert [each[0].label for each in explainer.classify(mixed, batch_size=2)] == [
        explainer.classify(each)[0].label for each in mixed
    ]


def test_an_iterator_is_drawn_from_as_needed(explainer):
    """Ten thousand images are never held: each is drawn when its explanation is asked for."""
    drawn: list[int] = []

    def photographs() -> Iterator[Array]:
        for number in range(10_000):
            drawn.append(number)
            yield pixels(number)

    found = explainer.explain(photographs(), batch_size=2)
    assert drawn == []
    first, second, third = next(found), next(found), next(found)
    assert drawn == [0, 1, 2, 3]
    for seed, each in enumerate((first, second, third)):
        np.testing.assert_allclose(each.map, explainer.explain(pixels(seed)).map, **BATCHED)
    named = explainer.classify(photographs())
    drawn.clear()
    assert next(named)[0] == first.top[0]
    assert drawn == [0]


def test_images_that_are_done_are_let_go(explainer):
    held: list[weakref.ref[Image.Image]] = []

    def photographs() -> Iterator[Image.Image]:
        for seed in range(6):
            image = Image.fromarray(pixels(seed))
            held.append(weakref.ref(image))
            yield image
            del image

    for number, _ in enumerate(explainer.explain(photographs()), 1):
        assert sum(each() is not None for each in held[:number]) <= 1  # at most the one just explained


def test_any_iterable_is_drawn_from(explainer, mixed):
    assert len(list(explainer.explain(dict(enumerate(mixed)).values()))) == len(mixed)


def test_targets_of_many_images(explainer, mixed):
    def indices(target: Any, images: Any = mixed) -> list[int]:
        return [found.target.index for found in explainer.explain(images, target)]

    assert indices(2) == indices("bird") == [2] * 5
    assert indices([0, 1, "bird", 3, "elk"]) == [0, 1, 2, 3, 4]
    assert indices(np.array([4, 3, 2, 1, 0])) == [4, 3, 2, 1, 0]
    assert indices([4, 0], mixed[:1]) == [4, 0]  # several classes of the one image
    assert indices([1, 2, 3, 4, 0], iter(mixed)) == [1, 2, 3, 4, 0]
    assert indices((each for each in range(5)), iter(mixed)) == [0, 1, 2, 3, 4]
    assert indices(3, iter(mixed)) == [3] * 5


def test_targets_that_do_not_fit(explainer, mixed):
    with pytest.raises(InputError, match="3 targets for 5 images"):
        explainer.explain(mixed, [0, 1, 2])
    with pytest.raises(InputError, match="0 targets for 1 images"):
        explainer.explain(mixed[0], [])
    with pytest.raises(InputError, match="3 targets for more images"):
        list(explainer.explain(iter(mixed), [0, 1, 2]))
    with pytest.raises(InputError, match="more than 5 targets for 5 images"):
        list(explainer.explain(iter(mixed), [0, 1, 2, 3, 4, 0]))


def test_wrong_requests_are_refused_before_an_iterator_is_touched(explainer):
    def untouched() -> Iterator[Array]:
        raise AssertionError("an image was drawn")
        yield

    wrong: list[dict[str, Any]] = [{"method": "magic"}, {"target": 99}, {"batch_size": 0}, {"colour": 3}]
    for options in wrong:
        with pytest.raises(InputError):
            explainer.explain(untouched(), **options)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_one_bad_image_raises_and_is_named(explainer, mixed, tmp_path, batch_size):
    (tmp_path / "bad.png").write_bytes(b"no image")
    with pytest.raises(InputError, match=r"bad\.png"):
        explainer.explain([mixed[0], tmp_path / "bad.png", mixed[1]], batch_size=batch_size)
    found = explainer.explain(iter([mixed[0], mixed[1], floats(3)]))
    assert next(found).map.shape == (40, 60)
    next(found)
    with pytest.raises(InputError, match="image 3"):
        next(found)


def test_the_loop_goes_on_where_an_image_fails(explainer, mixed):
    """As the README shows it."""
    question = Question(choose_method("gradskip"))
    outcomes = run_jobs(
        [mixed[0], floats(3), mixed[1]],
        explainer.prepare,
        lambda some: explainer.answer(some, [None] * len(some), question),
        batch_size=2,
    )

    assert [each.error is None for each in outcomes] == [True, False, True]


def test_the_one_liner_takes_lists_too(mixed):
    model = vit(Vit(depth=3)).SerializeToString()

    assert [each.map.shape for each in gradskip_onnx.explain(model, mixed[:2])] == [(40, 60), (30, 30)]


def test_likeliest_classes_are_of_one_image(explainer):
    assert len(explainer.explain_likeliest(pixels(), 3)) == 3
    assert len(explainer.explain_likeliest(floats(1, 3, 32, 32), 2)) == 2
    for wrong in ([pixels(), pixels()], iter([pixels()]), floats(2, 3, 32, 32)):
        with pytest.raises(InputError, match="of one image"):
            explainer.explain_likeliest(wrong)


def test_an_image_is_made_upright_once(explainer, tmp_path, monkeypatch):
    from gradskip_onnx.images import read

    turned: list[str] = []
    original = read._turned
    monkeypatch.setattr(read, "_turned", lambda image: turned.append("once") or original(image))  # type: ignore[func-returns-value]
    (tmp_path / "a.png").write_bytes(png(pixels()))
    explainer.explain(tmp_path / "a.png")

    assert turned == ["once"]
