"""The examples of CONTRIBUTING.md work, and the files it names exist."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest
from PIL import Image

import gradskip_onnx
from gradskip_onnx.autodiff.rules.table import NOTES, VJPS
from gradskip_onnx.autodiff.scores import seeds
from gradskip_onnx.datasets import LAYOUTS, load
from gradskip_onnx.graph.rewrite.lower import lower
from gradskip_onnx.graph.rewrite.lowerings import LOWERINGS
from gradskip_onnx.methods import METHODS
from gradskip_onnx.metrics import METRICS, Saliency, Sample, choose, measure
from gradskip_onnx.runtime.session import open_session
from gradskip_onnx.types import TensorFact
from tests.autodiff.gradient_models import SEED, differentiate, fact, one_node, run
from tests.support.models import Vit, vit

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"```python\n# (\w+)\n(.*?)```", PAGE, re.DOTALL))
TABLES: tuple[dict[Any, Any], ...] = (VJPS, NOTES, LOWERINGS, METHODS, METRICS)
ROUNDING = 1e-5  # float32 against float64


@pytest.fixture
def example(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ModuleType]:
    """The example of this name as a module; the tables are as before when the test is over."""
    before = [dict(table) for table in TABLES]
    name = f"contributing_{request.param}"
    path = tmp_path / f"{name}.py"
    path.write_text(EXAMPLES[request.param], encoding="utf-8")
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[name]
    for table, rows in zip(TABLES, before, strict=True):
        table.clear()
        table.update(rows)


def given(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("example", [name], indirect=True)


def explained(**options: Any) -> Any:
    explainer = gradskip_onnx.load(vit(Vit(depth=2)).SerializeToString(), threads=1)
    image = np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype(np.float32)
    return explainer.explain(image, 2, **options)[0]


def test_every_example_is_tried():
    assert set(EXAMPLES) == {"operator", "lowering", "method", "metric", "layout", "score"}
    assert PAGE.count("```python") == len(EXAMPLES)


@given("operator")
@pytest.mark.usefixtures("example")
def test_operator():
    x, g = np.array([-2.0, -0.3, 0.1, 0.7], np.float32), np.array([3.0, 4.0, 5.0, 6.0], np.float32)
    model = one_node("Shrink", [x], [False], 1, {"lambd": 0.5, "bias": 0.5}, 17)
    derived, names = differentiate(model, {"x0": fact(x, False), "y0": fact(x, False)}, ["y0"], ["x0"], rules=VJPS)
    found = run(derived, [names["x0"]], {"x0": x, f"{SEED}/y0": g})

    np.testing.assert_array_equal(found[names["x0"]], [3.0, 0.0, 0.0, 6.0])


@given("lowering")
@pytest.mark.usefixtures("example")
def test_lowering():
    rng = np.random.default_rng(0)
    feeds = {
        name: rng.standard_normal(dims).astype(np.float32) for name, dims in (("x", (2, 5, 8)), ("skip", (2, 5, 8)))
    }
    bias = rng.standard_normal(8).astype(np.float32)
    x, skip, y = (gs.Variable(name, np.float32, (2, 5, 8)) for name in ("x", "skip", "y"))
    fused = gs.Node("BiasAdd", "fused", inputs=[x, gs.Constant("b", bias), skip], outputs=[y], domain="com.microsoft")
    graph = gs.Graph([fused], inputs=[x, skip], outputs=[y], opset=17)
    facts = {name: TensorFact((2, 5, 8), np.dtype(np.float32)) for name in ("x", "skip", "y")}
    model: onnx.ModelProto = gs.export_onnx(lower(graph, facts, 17).graph)
    model.ir_version = 8
    found = open_session(model, None, "cpu").run(["y"], feeds)["y"]

    assert {node.op_type for node in model.graph.node} == {"Add"}
    np.testing.assert_allclose(found, feeds["x"] + bias + feeds["skip"], rtol=ROUNDING)


@given("method")
@pytest.mark.usefixtures("example")
def test_method():
    found, other = explained(method="token-norm"), explained(method="token-norm", order=1)

    assert found.relevance.method == "token-norm"
    assert found.relevance.scores.shape == (4, 4)
    assert (found.relevance.scores > 0).all()
    assert (other.relevance.scores > found.relevance.scores).all()  # the sum of channels is more than their length


@given("metric")
@pytest.mark.usefixtures("example")
def test_metric():
    values = np.zeros((5, 4))
    values[0, 0], values[0, 1], values[4, 3] = 6, -2, 2
    sample, saliency = Sample("tiny", np.zeros((1, 5, 4), np.float32), 0), Saliency(values, values)
    (tenth,) = measure([choose("concentration")], sample, saliency, lambda images: np.zeros(len(images)))

    assert METRICS["concentration"].value(tenth) == pytest.approx(8 / 10)  # two pixels of twenty


@given("layout")
def test_layout(example: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "data" / "numbered").mkdir(parents=True)
    Image.new("RGB", (4, 4)).save(tmp_path / "data" / "numbered" / "7_cat.png")
    monkeypatch.setitem(LAYOUTS, "numbered", example.LAYOUT)
    (entry,) = load(str(tmp_path / "data"), "numbered").entries

    assert example.detect(str(tmp_path / "data"))
    assert not example.detect(str(tmp_path))
    assert (entry.id, entry.label) == ("numbered/7_cat.png", 7)


@given("score")
def test_score(example: ModuleType, monkeypatch: pytest.MonkeyPatch):
    rows: dict[str, Any] = {**seeds.SEEDS, "against-the-mean": example.against_the_mean}
    monkeypatch.setattr(seeds, "SEEDS", rows)
    plain, other = (explained(method="gradskip", score=score) for score in ("logit", "against-the-mean"))

    assert np.isfinite(other.map).all()
    assert not np.allclose(plain.map, other.map)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:\w+/)+(?:\w+\.\w+)?)`", PAGE))))
def test_files_exist(path: str):
    assert (ROOT / path).exists()
