"""Maps of a folder in scikit-learn's ways: files of a folder, clones, pipelines, scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_files
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize

from gradskip_onnx.adapters.scikit_learn import RelevanceMaps
from tests.support.evaluation_data import explainer, model_bytes, pictures


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of pictures for each of two classes."""
    place = tmp_path_factory.mktemp("sklearn")
    for name in ("bee", "cat"):
        pictures(place / name, 3)
        (place / name / "labels.csv").unlink()
    return place


def test_the_files_of_a_folder(folder: Path):
    """A row is the map of the model's input, averaged over the cells of its grid."""
    files = load_files(folder, load_content=False, shuffle=False).filenames
    maps = RelevanceMaps(explainer(), "rollout").fit_transform(files)
    model = explainer()
    whole = model.explain(model.prepare(files[2]).values[None], method="rollout")[0].map

    assert maps.shape == (6, 16)
    np.testing.assert_allclose(maps[2].reshape(4, 4), whole.reshape(4, 8, 4, 8).mean(axis=(1, 3)), rtol=1e-5)


def test_one_after_the_other(folder: Path):
    files = iter(sorted((folder / "bee").iterdir()))
    rows = RelevanceMaps(explainer(), "rollout", batch_size=2, grid=(2, 2)).iterate(files)

    assert next(rows).shape == (4,)
    assert len(list(files)) == 1  # of three, the first two were asked for


def test_it_predicts_as_the_model(folder: Path):
    files = sorted((folder / "cat").iterdir())
    fitted = RelevanceMaps(explainer()).fit(files)
    expected = [fitted.explainer_.classify(file)[0] for file in files]

    assert fitted.predict(files).tolist() == [one.index for one in expected]
    np.testing.assert_allclose(
        fitted.predict_proba(files).max(axis=1), [one.probability for one in expected], rtol=1e-5
    )
    assert fitted.score(files, fitted.predict(files)) == 1


def test_pipelines_and_clones(folder: Path, tmp_path: Path):
    """What images are explained alike: clusters of maps."""
    (tmp_path / "model.onnx").write_bytes(model_bytes())
    files = load_files(folder, load_content=False, shuffle=False).filenames
    maps = RelevanceMaps(tmp_path / "model.onnx", "rollout", target=1, options={"start": 2})
    other = clone(maps).set_params(method="grad-cam", options=None)
    found = make_pipeline(maps, KMeans(2, n_init=1, random_state=0)).fit_predict(files)

    assert found.shape == (6,)
    assert other.get_params()["method"] == "grad-cam"
    assert not np.allclose(normalize(other.fit_transform(files)), normalize(maps.transform(files)))
