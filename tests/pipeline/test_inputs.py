"""What people have as images: every kind gives the same answer, one by one, in a list or from an iterator."""

from __future__ import annotations

import io
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gradskip_onnx
from gradskip_onnx.errors import InputError, PreprocessingWarning
from gradskip_onnx.images.read import open_picture
from gradskip_onnx.methods import choose_method
from gradskip_onnx.pipeline.batch import run_jobs
from gradskip_onnx.pipeline.explainer import Explainer
from gradskip_onnx.pipeline.question import Question
from gradskip_onnx.types import Array
from tests.support.models import Vit, vit

BATCHED: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-7}  # batching changes the order of sums inside a matrix product
LABELS = ("cat", "dog", "bird", "fish", "elk")


class Tensor:
    """What other libraries hold arrays in."""

    def __init__(self, values: Array) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self.values

    def __iter__(self) -> Iterator[Array]:
        return iter(self.values)


class Exchanged:
    """A tensor that has no `__array__`, only the protocol by which libraries exchange memory."""

    def __init__(self, values: Array) -> None:
        self.values = values.copy()

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[Any, int]:
        return self.values.__dlpack_device__()


class OnDevice:
    """As PyTorch has them: part of a gradient, on a device, and NumPy gets neither."""

    def __init__(self, values: Array, cut: bool = False) -> None:
        self.values, self.cut = values, cut

    def detach(self) -> OnDevice:
        return OnDevice(self.values, True)

    def cpu(self) -> Any:
        return Tensor(self.values) if self.cut else Elsewhere()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


class Elsewhere:
    """A tensor that does not leave its device."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


@pytest.fixture(scope="module")
def explainer() -> gradskip_onnx.Explainer:
    return gradskip_onnx.load(
        vit(Vit(depth=3)).SerializeToString(), "cpu", preprocess={"crop": 1.0}, labels=LABELS, threads=1
    )


def pixels(seed: int = 0, size: tuple[int, ...] = (40, 60, 3)) -> Array:
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)


def floats(*shape: int) -> Array:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def png(values: Array) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(values).save(buffer, "PNG")
    return buffer.getvalue()


KINDS: dict[str, Callable[[Path], Any]] = {
    "text": str,
    "path": lambda path: path,
    "bytes": lambda path: path.read_bytes(),
    "bytearray": lambda path: bytearray(path.read_bytes()),
    "PIL image": Image.open,
    "picture": open_picture,
    "open file": lambda path: path.open("rb"),
    "file in memory": lambda path: io.BytesIO(path.read_bytes()),
    "pixels": lambda path: np.asarray(Image.open(path)),
    "strided pixels": lambda path: np.asarray(Image.open(path))[::-1][::-1],
    "tensor of pixels": lambda path: Tensor(np.asarray(Image.open(path))),
    "channels first": lambda path: np.asarray(Image.open(path)).transpose(2, 0, 1),
    "with transparency": lambda path: np.asarray(Image.open(path).convert("RGBA")),
    "exchanged memory": lambda path: Exchanged(np.asarray(Image.open(path))),
    "tensor on a device": lambda path: OnDevice(np.asarray(Image.open(path))),
}


@pytest.mark.parametrize("kind", KINDS)
def test_one_image_of_any_kind(explainer, tmp_path, kind):
    (tmp_path / "a.png").write_bytes(png(pixels()))
    expected = explainer.explain(tmp_path / "a.png")
    found = explainer.explain(KINDS[kind](tmp_path / "a.png"))

    assert found.map.shape == (40, 60)
    np.testing.assert_array_equal(found.map, expected.map)
    assert explainer.classify(KINDS[kind](tmp_path / "a.png")) == explainer.classify(tmp_path / "a.png") == expected.top


def test_grey_pixels_are_a_grey_image(explainer):
    grey = pixels(size=(40, 60))

    np.testing.assert_array_equal(explainer.explain(grey).map, explainer.explain(Image.fromarray(grey)).map)


@pytest.mark.parametrize("wrap", [lambda values: values, Tensor], ids=["array", "tensor"])
def test_preprocessed_floats(explainer, wrap):
    """Without a batch axis it is one image, with one a list."""
    batch = floats(3, 3, 32, 32)
    many, one = explainer.explain(wrap(batch)), explainer.explain(wrap(batch[0]))

    assert len(many) == 3
    assert one.map.shape == (32, 32)
    np.testing.assert_allclose(one.map, many[0].map, **BATCHED)
    np.testing.assert_array_equal(one.map, explainer.explain(wrap(batch[:1]))[0].map)
    assert [each[0].index for each in explainer.classify(wrap(batch))] == [each.top[0].index for each in many]


REFUSED: dict[str, tuple[Any, str]] = {
    "channels first or last": (pixels(size=(3, 40, 3)), r"\(3, 40, 3\) and type uint8 may have.*PIL image"),
    "two channels": (pixels(size=(40, 60, 2)), r"\(40, 60, 2\) and type uint8.*\(H, W, 3\)"),
    "an input with channels last": (floats(32, 32, 3), r"give array\.transpose\(2, 0, 1\).*floats \(3, 32, 32\)"),
    "pixels of 0 to 1": (np.abs(floats(3, 40, 60)), r"give \(array \* 255\)"),
    "pixels as whole numbers": (np.zeros((40, 60, 3), np.int64), r"give array\.astype\('uint8'\)"),
    "floats as from a camera": (floats(40, 60, 3), r"\(40, 60, 3\) and type float32.*floats \(3, 32, 32\)"),
    "another size": (floats(3, 16, 32), r"\(3, 16, 32\)"),
    "a batch of floats of another size": (floats(2, 3, 40, 60), r"\(2, 3, 40, 60\) and type float32"),
    "an open text file": (io.StringIO("cat"), "gave str and not bytes; open it in binary mode"),
    "whole numbers": (np.zeros((1, 3, 32, 32), np.int64), "int64"),
    "a vector": (floats(3), r"\(3,\)"),
    "no pixels": (pixels(size=(0, 60, 3)), "empty image"),
    "no image in a batch": (floats(0, 3, 32, 32), "holds no image"),
    "texts": (np.array(["a.png", "b.png"]), r"\(2,\) and type <U5"),
    "a number": (3, "int is no image; give a path"),
    "nothing": (None, "NoneType is no image"),
    "not finite": (np.full((3, 32, 32), np.nan, np.float32), "NaN"),
    "bytes of something else": (b"no image", "not an image"),
    "another device": (Elsewhere(), "Elsewhere cannot become a NumPy array .*cuda"),
    "a list in a list": ([[1, 2, 3]], r"image( 1)?: list is no image"),
    "a batch in a list": ([pixels(), floats(2, 3, 32, 32)], r"image 2: an array of shape \(2, 3, 32, 32\)"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_image_is_refused(explainer, case):
    """What it is, and what would have been one, in a single InputError; `classify` says the same."""
    given, message = REFUSED[case]
    for call in (explainer.explain, explainer.classify):
        with pytest.raises(InputError, match=message):
            call(given)


@pytest.mark.parametrize("shape", [(2, 40, 60, 3), (2, 3, 40, 60)], ids=str)
def test_a_batch_of_pixels_is_a_list(explainer, shape):
    batch = pixels(size=shape)
    found = explainer.explain(batch)

    assert [each.map.shape for each in found] == [(40, 60)] * 2
    for each, alone in zip(found, batch, strict=True):
        np.testing.assert_array_equal(each.map, explainer.explain(alone).map)


@pytest.mark.parametrize("top", [1.0, 255.0])
def test_floats_that_look_like_pixels(explainer, top):
    """Used as they are, as documented; but said."""
    values = np.random.default_rng(0).uniform(0, top, (3, 32, 32)).astype(np.float32)
    with pytest.warns(PreprocessingWarning, match=r"look like pixels.*uint8 \(H, W, 3\)"):
        explainer.explain(values)


def test_floats_that_look_preprocessed_are_taken_silently(explainer):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        explainer.explain(floats(3, 32, 32))
        explainer.explain(np.zeros((3, 32, 32)))


@pytest.mark.torch
def test_tensors_of_torch(explainer):
    """Pixels as torchvision reads them, preprocessed floats of any width, and part of a gradient."""
    torch = pytest.importorskip("torch")
    image, values = pixels(size=(3, 40, 60)), floats(2, 3, 32, 32)

    np.testing.assert_array_equal(explainer.explain(torch.from_numpy(image)).map, explainer.explain(image).map)
    expected = explainer.explain(values)
    for tensor in (torch.from_numpy(values), torch.from_numpy(values).double().requires_grad_()):
        for found, each in zip(explainer.explain(tensor), expected, strict=True):
            np.testing.assert_array_equal(found.map, each.map)
    assert len(explainer.explain(list(torch.from_numpy(values)))) == 2
    with pytest.raises(InputError, match="BFloat16"):
        explainer.explain(torch.zeros(3, 32, 32, dtype=torch.bfloat16))


def test_a_model_that_takes_no_pictures():
    explainer = gradskip_onnx.load(vit(Vit(channels=4)).SerializeToString())
    with pytest.raises(InputError, match=r"4 channels.*floats \(4, 32, 32\)"):
        explainer.explain(pixels())
    assert explainer.explain(floats(4, 32, 32)).map.shape == (32, 32)


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
