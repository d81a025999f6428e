"""What people do with an explanation in Python: see it, save it, send it elsewhere."""

from __future__ import annotations

import base64
import io
import json
import pickle
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gradskip_onnx
from gradskip_onnx.drawing.style import PictureStyle
from gradskip_onnx.errors import InputError
from tests.support.models import Vit, vit

from .results import made_up


@pytest.fixture(scope="module")
def explainer() -> gradskip_onnx.Explainer:
    return gradskip_onnx.load(vit(Vit(depth=3)).SerializeToString(), "cpu", preprocess={"crop": 1.0}, threads=1)


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)).save(path)
    return path


def test_the_representation_is_one_short_line(explainer, photo):
    for thing in (explainer, explainer.explain(photo), made_up()):
        assert "\n" not in repr(thing)
        assert len(repr(thing)) < 160
    assert repr(made_up()) == "Explanation(cat (0), probability 0.600, gradskip, cat.png, map 32x24)"


def test_odd_names_stay_on_the_line():
    odd = made_up()
    object.__setattr__(odd.original, "name", "a\nb\x1b" + "c" * 500)

    assert "a?b?ccc" in repr(odd)
    assert len(repr(odd)) < 160


def test_pictures_are_of_pillow(explainer, photo):
    found = explainer.explain(photo)

    assert found.figure().mode == found.overlay().mode == found.image.mode == "RGB"
    assert found.image.size == (60, 40)
    assert found.figure().width > found.overlay().width
    assert found.overlay(opacity=0.1).tobytes() != found.overlay(opacity=0.9).tobytes()
    np.testing.assert_array_equal(found.figure(overlay_only=True), found.overlay())


def test_a_wrong_style_is_refused_with_the_right_name():
    for call in (made_up().figure, made_up().overlay, made_up().show, lambda **style: made_up().save("x", **style)):
        with pytest.raises(InputError, match=r"unknown picture option 'opacty'; did you mean 'opacity'\?"):
            call(opacty=0.5)


def test_the_image_outlives_its_file(explainer, photo):
    found = explainer.explain(photo)
    before = found.figure().tobytes()
    photo.unlink()

    assert found.figure().tobytes() == before


@pytest.mark.parametrize("given", [np.zeros((3, 32, 32), np.float32), np.zeros((40, 60, 3), np.uint8)], ids=["f", "u"])
def test_arrays_have_pictures_too(explainer, given):
    assert explainer.explain(given).figure().width > 300


def test_inputs_of_other_channels_are_shown_in_grey():
    explainer = gradskip_onnx.load(vit(Vit(channels=4)).SerializeToString())
    found = explainer.explain(np.random.default_rng(0).standard_normal((4, 32, 32)).astype(np.float32))

    assert found.image.size == (32, 32)
    assert found.figure().width > 300


def test_notebooks_show_the_figure():
    found = made_up()
    with Image.open(io.BytesIO(found._repr_png_())) as picture:
        assert picture.size == found.figure().size
    page = found._repr_html_()
    encoded = page.split("base64,")[1].split('"')[0]
    assert base64.b64decode(encoded) == found._repr_png_()
    assert 'alt="Explanation(cat (0)' in page


def test_names_cannot_leave_the_html():
    hostile = made_up()
    object.__setattr__(hostile.original, "name", 'a"><script>alert(1)</script>.png')

    assert "<script" not in hostile._repr_html_()


def test_show_uses_the_notebook_or_the_viewer(monkeypatch):
    shown: list[Any] = []
    monkeypatch.setattr(Image.Image, "show", lambda _self, title: shown.append(("viewer", title)))
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    made_up().show()
    display = SimpleNamespace(display=lambda picture: shown.append(("cell", picture.size)))
    for kernel in (None, object()):
        shell = SimpleNamespace(kernel=kernel)
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda s=shell: s, display=display))
        made_up().show()

    assert [where for where, _ in shown] == ["viewer", "viewer", "cell"]


SAVED = {
    "out/cat": ("out/cat.png", "out/cat.npy", "out/cat.json"),
    "deep/er/cat.v2": ("deep/er/cat.v2.png", "deep/er/cat.v2.npy", "deep/er/cat.v2.json"),
    "new/": ("new/cat.png", "new/cat.npy", "new/cat.json"),
    "there": ("there/cat.png", "there/cat.npy", "there/cat.json"),
    "one.png": ("one.png",),
    "one.NPY": ("one.npy",),
    "out/one.json": ("out/one.json",),
}


@pytest.mark.parametrize("path", SAVED)
def test_save_by_stem_folder_or_suffix(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    Path("there").mkdir()
    for _ in range(2):  # replaces what it wrote before
        assert [each.as_posix() for each in made_up().save(path)] == list(SAVED[path])
    written = sorted(each.as_posix() for each in Path().rglob("*") if each.is_file())
    assert written == sorted(SAVED[path])  # and nothing half-done beside them


def test_what_is_saved_is_the_explanation(tmp_path):
    found = made_up()
    _, npy, facts = found.save(tmp_path / "cat")

    np.testing.assert_array_equal(np.load(npy), found.map)
    document = json.loads(facts.read_text())
    assert document.pop("files") == {"png": "cat.png", "npy": "cat.npy", "json": "cat.json"}
    assert document["map"] == {"min": 0.0, "max": pytest.approx(1 / 6), "size": "image", "dtype": "float32", "scale": 1}
    document["map"] = {key: document["map"][key] for key in ("min", "max")}
    assert document == found.to_dict()


def test_maps_of_half_the_width_or_on_the_grid(tmp_path):
    """Small relevance survives: the map is divided by a scale that the document names."""
    found = made_up()
    object.__setattr__(found, "map", found.map * np.float32(1e-9))
    _, npy, facts = found.save(tmp_path / "cat", dtype="float16")
    stored, scale = np.load(npy), json.loads(facts.read_text())["map"]["scale"]
    assert stored.dtype == np.float16
    np.testing.assert_allclose(stored.astype(np.float64) * scale, found.map, atol=2**-11 * found.map.max())

    (grid,) = found.save(tmp_path / "grid.npy", map="grid")
    np.testing.assert_array_equal(np.load(grid), found.relevance.scores)


WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "jpeg": ("a.jpg", {}, r"no \.jpg is written; use \.png"),
    "empty": ("", {}, "empty path"),
    "zero byte": ("a\0b", {}, "cannot be written"),
    "map": ("a", {"map": "patch"}, "map: got 'patch', allowed: image, grid"),
    "dtype": ("a", {"dtype": "int8"}, "allowed: float32, float16"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_saved_is_refused(tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    path, options, message = WRONG[case]
    with pytest.raises(InputError, match=message):
        made_up().save(path, **options)
    assert list(tmp_path.iterdir()) == []


def test_to_dict_is_ready_for_json():
    assert json.loads(json.dumps(made_up().to_dict())) == made_up().to_dict()


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_an_explanation_is_pickled_whole(explainer, photo, protocol):
    found = explainer.explain(photo, method="gradskip")
    again = pickle.loads(pickle.dumps(found, protocol))

    np.testing.assert_array_equal(again.map, found.map)
    assert again.to_dict() == found.to_dict()
    assert again.figure().tobytes() == found.figure().tobytes()


def test_every_style_is_taken():
    made_up().figure(**{name: getattr(PictureStyle(), name) for name in PictureStyle.__slots__})
