"""A small audit of real images by a real model, with its manifest, and copies of it that tests may damage."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from gradskip_onnx import api
from gradskip_onnx.audit.place import open_place
from gradskip_onnx.audit.run import run_audit
from gradskip_onnx.audit.settings import AuditSettings
from gradskip_onnx.datasets import load
from gradskip_onnx.evidence.manifest import write_manifest
from gradskip_onnx.methods import choose_method
from tests.support.evaluation_data import PREPROCESS, SIDE, model_bytes, pictures

COUNT = 10


@dataclass(frozen=True, slots=True)
class Case:
    """Where an audit, its model and its images lie, and the hash that its manifest had."""

    folder: Path
    model: Path
    data: Path
    sha256: str

    @property
    def place(self):
        return open_place(self.folder)


BOXES = "image,label,boxes,mask\n00.png,0,0 0 16 16,\n01.png,1,,mask.png\n"


def with_boxes(top: Path) -> Case:
    """An audit of two images, one with a box and one with a mask."""
    data = pictures(top / "data", 2)
    (data / "list.csv").write_text(BOXES)
    Image.fromarray(np.tril(np.full((SIDE, SIDE), 255, np.uint8))).save(data / "mask.png")
    return audited(top, data / "list.csv")


def audited(top: Path, where: Path | None = None, **settings: Any) -> Case:
    """An audit of pictures, of which one is broken, or of those that a list names."""
    model, folder = top / "m.onnx", top / "audit"
    model.write_bytes(model_bytes())
    if where is None:
        where = pictures(top / "data", COUNT)
        (where / "04.png").write_bytes(b"no image")
    explainer = api.load(str(model), preprocess=PREPROCESS, labels=["ant", "bee", "cat", "dog", "elk"], threads=1)
    asked = AuditSettings(method=choose_method("rollout"), part_size=4, batch_size=2, **settings)
    run_audit(explainer, load(str(where)), folder, asked)
    (folder / "report.html").write_text("<p>a page</p>")
    return Case(folder, model, top / "data", write_manifest(open_place(folder)).sha256)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return audited(tmp_path_factory.mktemp("evidence"))


@pytest.fixture
def case(finished: Case, tmp_path: Path) -> Case:
    top = tmp_path / "copy"
    shutil.copytree(finished.folder.parent, top)
    return Case(top / "audit", top / "m.onnx", top / "data", finished.sha256)
