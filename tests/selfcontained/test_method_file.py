"""The file that explains itself: standard operators, the model's own outputs, names, a switch, a description."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image

import gradskip_onnx
from gradskip_onnx.drawing.smoothing import smooth
from gradskip_onnx.errors import InputError
from gradskip_onnx.images.interpolate import normalise
from gradskip_onnx.ingraph.view import View
from gradskip_onnx.methods import choose_method
from gradskip_onnx.model_file.metadata import KEY
from gradskip_onnx.selfcontained.half_precision import in_half
from gradskip_onnx.selfcontained.method_file import BuildSettings, build
from gradskip_onnx.selfcontained.save import save
from gradskip_onnx.types import Array
from tests.support.built_files import build_into, domains, run, session_of
from tests.support.models import Vit, vit
from tests.support.optimised_files import optimised

FIXTURES = Path(__file__).parent.parent / "fixtures"
METHOD = choose_method("gradskip+")
ROUNDING = 1e-5  # of the largest value: sums in another order


@pytest.fixture(scope="module")
def plain() -> onnx.ModelProto:
    return vit(Vit(depth=3))


@pytest.fixture(scope="module")
def explainer(plain):
    return gradskip_onnx.load(plain.SerializeToString(), threads=1, preprocess="half", labels=list("abcde"))


@pytest.fixture(scope="module")
def built(explainer, tmp_path_factory) -> Path:
    return build_into(tmp_path_factory.mktemp("built"), explainer, BuildSettings(METHOD))


@pytest.fixture(scope="module")
def session(built: Path):
    return session_of(built)


def images(count: int = 2) -> Array:
    return np.random.default_rng(0).standard_normal((count, 3, 32, 32)).astype(np.float32)


def close(found: Array, expected: Array) -> bool:
    return bool(np.abs(found - expected).max() <= ROUNDING * np.abs(expected).max())


def test_standard_operators_and_the_opset_of_the_source(plain, built: Path):
    onnx.checker.check_model(str(built), full_check=True)
    model = onnx.load(built)

    assert domains(model.graph) == {""}
    assert [entry.version for entry in model.opset_import if not entry.domain] == [plain.opset_import[0].version]


def test_inputs_and_outputs(session):
    shapes = {name: array.shape for name, array in run(session, images()).items()}

    assert shapes == {"logits": (2, 5), "relevance": (2, 32, 32), "explained": (2,)}
    assert [entry.name for entry in session.get_inputs()] == ["image"]
    assert {entry.name for entry in session.get_overridable_initializers()} == {"target", "explain"}


def test_own_outputs_are_those_of_the_model(plain, session):
    (expected,) = onnxruntime.InferenceSession(plain.SerializeToString()).run(["logits"], {"image": images()})

    assert close(run(session, images())["logits"], expected)


def test_a_class_that_the_model_has_not_ends_the_run(session):
    assert run(session, images(), target=np.array([4]))["explained"].tolist() == [4, 4]
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument, match="out of data bounds, idx=5"):
        run(session, images(), target=np.array([5]))


def test_explain_off_gives_the_logits_and_empty_maps(session):
    found = run(session, images(), explain=np.array(False))

    assert found["relevance"].shape == (0, 32, 32)
    np.testing.assert_array_equal(found["logits"], run(session, images())["logits"])


def test_without_a_switch(explainer, session, tmp_path: Path):
    other = session_of(build_into(tmp_path, explainer, BuildSettings(METHOD, switch=False)))
    found, expected = run(other, images()), run(session, images())

    assert {entry.name for entry in other.get_overridable_initializers()} == {"target"}
    assert close(found["relevance"], expected["relevance"])


def test_normalised(explainer, session, tmp_path: Path):
    other = session_of(build_into(tmp_path, explainer, BuildSettings(METHOD, view=View(normalised=True))))
    found, expected = run(other, images()), run(session, images())

    for one, raw in zip(found["relevance"], expected["relevance"], strict=True):
        assert (one.min(), one.max()) == (0, 1)
        assert close(one, normalise(raw))


def test_smoothed(explainer, session, tmp_path: Path):
    """As pictures of it are: patches of 8 pixels, 0.4 of which is the standard deviation."""
    other = session_of(build_into(tmp_path, explainer, BuildSettings(METHOD, view=View(smoothed=True))))
    found, expected = run(other, images()), run(session, images())

    for one, raw in zip(found["relevance"], expected["relevance"], strict=True):
        assert close(one, smooth(raw, (3.2, 3.2)))


def test_smoothing_a_grid_is_refused():
    with pytest.raises(InputError, match="size of the image"):
        View(map="grid", smoothed=True)


def test_metadata_says_what_was_built(explainer, built: Path):
    text = next(entry.value for entry in onnx.load(built).metadata_props if entry.key == KEY)
    document = json.loads(text)

    assert document["labels"] == list("abcde")
    assert document["forward_outputs"] == ["logits"]
    assert document["built"]["source_sha256"] == explainer.sha256
    assert document["built"]["options"]["detail"] == 0.5
    assert document["built"]["inputs"] == {"image": "image", "target": "target", "region": None, "explain": "explain"}
    assert document["built"]["outputs"] == {"logits": "logits", "relevance": "relevance", "explained": "explained"}
    assert document["built"]["image_size"] == [32, 32]


def test_names_the_model_has_are_left_to_it(tmp_path: Path):
    model = vit(Vit())
    model.graph.node[-1].output[0] = model.graph.output[0].name = "relevance"
    explainer = gradskip_onnx.load(model.SerializeToString(), threads=1)
    found = run(session_of(build_into(tmp_path, explainer, BuildSettings(METHOD))), images())

    assert {name: array.ndim for name, array in found.items()} == {
        "relevance": 2, "gradskip/relevance": 3, "explained": 1,
    }  # fmt: skip


def test_a_built_file_is_read_like_its_source(explainer, built: Path):
    """What was built in is left out when the file is read; another method is then explained as of the source."""
    for method in ("gradskip+", "rollout"):
        found, expected = (
            one.explain(images()[:1], method=method)[0] for one in (gradskip_onnx.load(built), explainer)
        )
        assert close(found.map, expected.map)


def test_a_method_that_cannot_be_built_in(explainer, tmp_path: Path):
    with pytest.raises(InputError, match="method rise cannot be written into a graph; those that can: "):
        build_into(tmp_path, explainer, BuildSettings(choose_method("rise")))


@pytest.mark.parametrize("switch", [True, False])
def test_several_classes_in_one_run(explainer, session, tmp_path: Path, switch: bool):
    """The likeliest three, or three that are named, for each image: as three runs."""
    top = session_of(build_into(tmp_path, explainer, BuildSettings(METHOD, top=3, switch=switch)))
    found, named = run(top, images()), run(top, images(), target=np.array([[4, 0, -1], [1, 2, 3]]))

    assert found["relevance"].shape == (2, 3, 32, 32)
    assert found["explained"].tolist() == np.argsort(-found["logits"], axis=1)[:, :3].tolist()
    assert named["explained"].tolist() == [[4, 0, found["explained"][0, 0]], [1, 2, 3]]
    for place in range(3):
        one = run(session, images(), target=np.full(2, -1 - place))
        assert close(found["relevance"][:, place], one["relevance"])
    assert close(named["relevance"][1, 2], run(session, images(), target=np.array([0, 3]))["relevance"][1])


def test_several_classes_switched_off(explainer, tmp_path: Path):
    found = run(
        session_of(build_into(tmp_path, explainer, BuildSettings(METHOD, top=2))), images(), explain=np.array(False)
    )

    assert found["logits"].shape == (2, 5)
    assert found["relevance"].size == 0


def test_several_classes_take_no_more_room(explainer, built: Path, tmp_path: Path):
    many = build_into(tmp_path, explainer, BuildSettings(METHOD, top=5))
    onnx.checker.check_model(str(many), full_check=True)

    assert many.stat().st_size < built.stat().st_size + 2000


@pytest.mark.parametrize("weights", ["inside", "beside"])
def test_half_precision(tmp_path: Path, weights: str):
    """Half the size; inputs and outputs in float32; the map differs by the rounding of half precision."""
    model = vit(Vit(width=96, depth=3))
    size = len(model.SerializeToString())
    path = tmp_path / "model.onnx"
    onnx.save_model(model, path, save_as_external_data=weights == "beside", location="weights.bin", size_threshold=200)
    explainer = gradskip_onnx.load(path, threads=1, preprocess="half")
    source, reading = in_half(explainer.model.source, explainer.model.reading)
    built = build(source, reading, BuildSettings(METHOD), preprocess=explainer.preprocess, labels=())
    (written,) = save(built, tmp_path / "half.onnx", explainer.model.source)
    found = run(session_of(written), images())
    document = json.loads(onnx.load(written).metadata_props[0].value)

    assert document["built"]["precision"] == "float16"
    assert document["built"]["source_sha256"] == explainer.sha256
    assert written.stat().st_size < 0.6 * size
    for one, scores, other in zip(found["relevance"], found["logits"], explainer.explain(images()), strict=True):
        assert scores.argmax() == other.target.index
        assert np.abs(one - other.map).max() < 0.02 * np.abs(other.map).max()


def test_preprocessing_inside(explainer, session, tmp_path: Path):
    """Photographs of any size in; what the model gets differs by at most one level of 255, in few places."""
    path = build_into(tmp_path, explainer, BuildSettings(METHOD, pixels=True))
    onnx.checker.check_model(str(path), full_check=True)
    inside = session_of(path)
    random = np.random.default_rng(5)
    for size in ((50, 70), (33, 32), (200, 90)):
        pixels = random.integers(0, 256, (*size, 3), np.uint8)
        found = dict(zip([o.name for o in inside.get_outputs()], inside.run(None, {"pixels": pixels}), strict=True))
        prepared = explainer.prepare(Image.fromarray(pixels)).values
        expected = run(session, prepared[None])

        assert found["explained"] == expected["explained"]
        assert np.abs(found["relevance"] - expected["relevance"]).max() < 0.05 * np.abs(expected["relevance"]).max()


def test_preprocessing_inside_is_left_out_when_the_file_is_read(explainer, tmp_path: Path):
    path = build_into(tmp_path, explainer, BuildSettings(METHOD, pixels=True))
    for method in ("gradskip+", "rollout"):
        found, expected = (one.explain(images(1), method=method)[0] for one in (gradskip_onnx.load(path), explainer))
        assert close(found.map, expected.map)


def test_a_file_that_a_runtime_has_fused(plain, tmp_path: Path):
    """Its operators are written out, and those of other domains are no longer imported."""
    fused = optimised(plain, "EXTENDED", tmp_path)
    assert domains(fused.graph) > {""}
    explainer = gradskip_onnx.load(fused.SerializeToString(), threads=1, preprocess="half")
    path = build_into(tmp_path, explainer, BuildSettings(METHOD))
    found, model = run(session_of(path), images()), onnx.load(path)
    (expected,) = onnxruntime.InferenceSession(plain.SerializeToString()).run(["logits"], {"image": images()})

    assert domains(model.graph) == {""}
    assert {entry.domain for entry in model.opset_import} == {""}
    assert close(found["logits"], expected)
    for one, other in zip(found["relevance"], explainer.explain(images()), strict=True):
        assert close(one, other.map)


def test_a_model_of_any_size_is_built_for_one(tmp_path: Path):
    model = onnx.load(FIXTURES / "segformer.onnx")
    for port in (model.graph.input[0], model.graph.output[0]):
        for dim in port.type.tensor_type.shape.dim[2:]:
            dim.Clear()
    explainer = gradskip_onnx.load(model.SerializeToString(), threads=1, size=96, preprocess="half")
    found = session_of(build_into(tmp_path, explainer, BuildSettings(METHOD)))

    assert found.get_inputs()[0].shape[1:] == [3, 96, 96]
    assert isinstance(found.get_inputs()[0].shape[0], str)


@pytest.mark.slow
def test_several_classes_of_a_segmentation(tmp_path: Path):
    """Each for the pixels predicted as the class, or all three for one region."""
    explainer = gradskip_onnx.load(FIXTURES / "segformer.onnx", threads=1)
    pixels = np.random.default_rng(0).standard_normal((2, 3, 96, 96)).astype(np.float32)
    one, top = (session_of(build_into(tmp_path, explainer, BuildSettings(METHOD, top=count))) for count in (0, 3))
    region = np.zeros((2, 24, 24), np.float32)
    region[:, 3:9, 5:12] = 1
    for feeds in ({}, {"region": region}):
        found = run(top, pixels, **feeds)
        for place in range(3):
            expected = run(one, pixels, target=np.full(2, -1 - place), **feeds)
            assert found["explained"][:, place].tolist() == expected["explained"].tolist()
            assert close(found["relevance"][:, place], expected["relevance"])
