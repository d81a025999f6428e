"""The service of docs/examples answers real requests, says what is wrong, and serves several at once."""

from __future__ import annotations

import io
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gradskip_onnx
from tests.support.evaluation_data import model_bytes

pytest.importorskip("fastapi")
testclient = pytest.importorskip("starlette.testclient")

SERVICE = Path(__file__).parent.parent.parent / "docs" / "examples" / "service.py"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("service") / "model.onnx"
    path.write_bytes(model_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MODEL", str(path))
        spec = spec_from_file_location("service_example", SERVICE)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        patch.setitem(sys.modules, "service_example", module)
        spec.loader.exec_module(module)
        with testclient.TestClient(module.app) as open_client:
            yield open_client


def picture(seed: int = 0, size: tuple[int, int] = (40, 50)) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (*size, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file := io.BytesIO(), "PNG")
    return file.getvalue()


def test_the_answer_is_that_of_the_library(client: Any):
    found = client.post("/explain", content=picture()).json()
    expected = gradskip_onnx.load(model_bytes()).explain(picture())

    assert found["explained"] == expected.target.index
    assert [one["class"] for one in found["top"]] == [one.index for one in expected.top]
    np.testing.assert_allclose(found["relevance"], expected.relevance.scores)


def test_class_and_method_can_be_chosen(client: Any):
    found = client.post("/explain", params={"target": "3", "method": "rollout"}, content=picture()).json()
    expected = gradskip_onnx.load(model_bytes()).explain(picture(), 3, method="rollout")

    assert found["explained"] == 3
    np.testing.assert_allclose(found["relevance"], expected.relevance.scores)


def test_a_picture_has_the_size_of_the_photograph(client: Any):
    answer = client.post("/explain", params={"png": "true"}, content=picture())

    assert answer.headers["content-type"] == "image/png"
    with Image.open(io.BytesIO(answer.content)) as drawn:
        assert (drawn.size, drawn.mode) == ((50, 40), "L")
        assert drawn.getextrema()[1] == 255


def test_the_model_is_named(client: Any):
    assert client.get("/model").json()["name"] == "model.onnx"


WRONG = {
    "no picture": ({}, b"not a picture", 422, "body|bytes|image"),
    "no such class": ({"target": "99"}, picture(), 422, "classes 0 to 4"),
    "no such method": ({"method": "magic"}, picture(), 422, "unknown method 'magic'"),
    "too large": ({}, b"0" * 20_000_001, 413, "at most 20,000,000 bytes"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_in_one_line(client: Any, name: str):
    params, content, status, message = WRONG[name]
    answer = client.post("/explain", params=params, content=content)

    assert answer.status_code == status
    assert any(part in answer.json()["detail"] for part in message.split("|"))


def test_requests_at_once_get_their_own_answers(client: Any):
    bodies = [picture(seed) for seed in range(6)]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda body: client.post("/explain", content=body).json(), bodies))
    alone = [client.post("/explain", content=body).json() for body in bodies]

    assert together == alone
    assert len({str(answer["relevance"]) for answer in alone}) == 6
