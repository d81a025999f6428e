"""One image and one built file, explained by Python and by the program for Node of docs/examples."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from onnxruntime import InferenceSession, SessionOptions

from gradskip_onnx.images.preprocess import Preprocess, prepare
from gradskip_onnx.images.read import open_picture
from gradskip_onnx.model_file.metadata import KEY

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "docs" / "examples"
MAP_BOUND = 1e-3  # of the largest value of the map: the demand on every client
MODULES = "GRADSKIP_NODE_MODULES"  # environment variable: the node_modules folder of the example


@dataclass(frozen=True)
class Found:
    """What a client found: the class explained, its map, the logits (where it gives them), what it printed."""

    explained: int
    map: np.ndarray
    logits: np.ndarray | None = None
    text: str = ""


def by_python(built: Path, image: Path, target: int, preprocess: Preprocess | None = None) -> Found:
    """By ONNX Runtime in Python, with our own preparation of images."""
    options = SessionOptions()
    options.log_severity_level = 3  # not that inputs with a default are no constants
    session = InferenceSession(built, options, providers=["CPUExecutionProvider"])
    document = json.loads(session.get_modelmeta().custom_metadata_map[KEY])
    names = document["built"]
    values, _ = prepare(open_picture(image).image, preprocess or Preprocess.from_dict(document["preprocess"]))
    feeds = {names["inputs"]["image"]: values[None], names["inputs"]["target"]: np.array([target], np.int64)}
    wanted = [names["outputs"][name] for name in ("logits", "relevance", "explained")]
    logits, relevance, explained = session.run(wanted, feeds)
    return Found(int(explained[0]), relevance[0], logits[0])


def npm_packages() -> Path:
    """The folder with onnxruntime-node and sharp; skips the test where they are not installed."""
    named = os.environ.get(MODULES)
    folder = Path(named) if named else EXAMPLES / "node" / "node_modules"
    if shutil.which("node") is None or not (folder / "onnxruntime-node").exists() or not (folder / "sharp").exists():
        pytest.skip(f"Node, onnxruntime-node or sharp is not installed; see docs/clients.md and {MODULES}")
    return folder


def node_program(scratch: Path) -> Path:
    """A copy of the program for Node that finds its packages."""
    packages = npm_packages()
    program = scratch / "docs" / "examples" / "node"
    if not program.exists():
        program.mkdir(parents=True)
        shutil.copy(EXAMPLES / "node" / "explain.mjs", program)
        (program / "node_modules").symlink_to(packages.resolve())
        shutil.copytree(ROOT / "gradskip_onnx" / "web" / "page", scratch / "gradskip_onnx" / "web" / "page")
    return program / "explain.mjs"


def by_node(built: Path, image: Path, scratch: Path, target: int) -> Found:
    """By the program for Node."""
    program = node_program(scratch)
    copy = scratch / f"image{image.suffix}"
    if copy != image:
        shutil.copy(image, copy)
    words = ["node", str(program), str(built), str(copy), *([str(target)] if target >= 0 else [])]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300)
    facts = json.loads(done.stdout.splitlines()[-1])
    return Found(facts["explained"], np.load(facts["written"]), text=done.stdout)
