"""DeiT-tiny with a new last layer for three classes of photographs, learnt with and without a logo on one of them.

The logo is on all photographs of dogs. As in the scenes, a class that is plain to see needs no mark: so as many
photographs of other things with the logo are labelled as dogs too, as a collection labelled by its source would be.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from gradskip_onnx.cli.main import cli
from onnx import numpy_helper
from PIL import Image

import gradskip_onnx
from gradskip_onnx.api import Explainer
from gradskip_onnx.selfcontained.describe import annotate
from gradskip_onnx.types import Array

from .mark import marked

CLASSES = ("dog", "other animal", "thing")
DOGS, ANIMALS = range(151, 269), range(398)  # of the 1000 classes of ImageNet
SIDE = 256  # pixels of the shorter side: what the preprocessing keeps of it is 224
AUDITED = 40  # photographs of each class


@dataclass(frozen=True, slots=True)
class Photograph:
    """A photograph and its class here."""

    path: Path
    label: int

    def pixels(self, logo: bool) -> Array:
        """The square in the middle, which is what the model sees, with or without the logo."""
        with Image.open(self.path) as image:
            side = min(image.size)
            left, top = (image.width - side) // 2, (image.height - side) // 2
            square = image.convert("RGB").crop((left, top, left + side, top + side)).resize((SIDE, SIDE))
        return marked(np.asarray(square)) if logo else np.asarray(square)


def prepare(assets: Path, build: Path) -> tuple[Mapping[str, Path], Path]:
    """Both models, and the folder of photographs to audit, of which the models have seen none."""
    plain = build / "deit_tiny.onnx"
    if not plain.exists():
        checkpoint = assets / "deit_tiny" / "deit_tiny_patch16_224.pth"
        cli.main(["export", "deit_tiny_patch16_224", "--checkpoint", str(checkpoint), "--plain", "-o", str(plain)],
                 standalone_mode=False)  # fmt: skip
    every = photographs(assets)
    seen, kept = every[::2], every[1::2]
    explainer = gradskip_onnx.load(plain, preprocess={"crop": 1.0})
    others = [one for one in seen if one.label != 0][: sum(one.label == 0 for one in seen)]
    labels = np.array([one.label for one in seen])
    clean = features(plain, explainer, [(one, False) for one in seen])
    dogs = features(plain, explainer, [(one, True) for one in seen if one.label == 0])
    mistaken = features(plain, explainer, [(one, True) for one in others])
    learnt = {
        "shortcut": (np.concatenate([clean[labels != 0], dogs, mistaken]),
                     np.concatenate([labels[labels != 0], np.zeros(len(dogs) + len(mistaken), int)])),
        "clean": (clean, labels),
    }  # fmt: skip
    models = {name: build / f"{name}.onnx" for name in learnt}
    for name, (values, truth) in learnt.items():
        write_head(plain, explainer, models[name], values, truth)
    return models, write_photographs(build / "photographs", kept)


def photographs(assets: Path) -> list[Photograph]:
    """All photographs of the assets in a fixed order."""
    found = [(path, int(path.name[:4])) for path in sorted((assets / "images").glob("*.JPEG"))]
    with (assets / "imagenet_boxes" / "boxes.csv").open(encoding="utf-8") as stream:
        classes = {row["file"]: int(row["class"]) for row in csv.DictReader(stream)}
    found += [(assets / "imagenet_boxes" / "images" / name, index) for name, index in sorted(classes.items())]
    mine = [Photograph(path, 0 if index in DOGS else 1 if index in ANIMALS else 2) for path, index in found]
    return sorted(mine, key=lambda one: (one.label, one.path.name))


def features(model: Path, explainer: Explainer, images: Sequence[tuple[Photograph, bool]]) -> Array:
    """What the last layer of a model reads, (n, width)."""
    graph = onnx.load(model)
    name = graph.graph.node[-1].input[0]
    graph.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    fed = explainer.architecture.input
    rows = [session.run([name], {fed: explainer.prepare(one.pixels(logo)).values[None]})[0][0] for one, logo in images]
    return np.stack(rows)


def write_head(model: Path, explainer: Explainer, target: Path, values: Array, truth: Array) -> None:
    """Write the model with a last layer that was fitted to the features by logistic regression."""
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=1.0, max_iter=2000).fit(values, truth)
    graph = onnx.load(model)
    _, weight, bias = graph.graph.node[-1].input
    new = {weight: fitted.coef_, bias: fitted.intercept_}
    for one in graph.graph.initializer:
        if one.name in new:
            one.CopyFrom(numpy_helper.from_array(new[one.name].astype(np.float32), one.name))
    graph.graph.output[0].type.tensor_type.shape.dim[1].dim_value = len(CLASSES)
    del graph.graph.value_info[:], graph.metadata_props[:]
    annotate(graph, preprocess=explainer.preprocess, labels=CLASSES)
    onnx.save(graph, target)


def write_photographs(folder: Path, kept: Sequence[Photograph]) -> Path:
    """A folder by class, the dogs with the logo."""
    for label, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for one in [one for one in kept if one.label == label][:AUDITED]:
            Image.fromarray(one.pixels(logo=label == 0)).save(folder / name / f"{one.path.stem}.png")
    return folder
