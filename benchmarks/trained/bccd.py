"""Cuts windows out of the blood smears of BCCD; one kind of cell decides the class of a window, its boxes are known.

A smear shows red cells everywhere, mostly one white cell, and some platelets. The class of a window is the rarest kind
in it, so windows are only cut where that is beyond doubt: `decide` says when.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from gradskip_onnx.datasets.boxes import Annotation, read_boxes
from gradskip_onnx.datasets.entry import Box
from gradskip_onnx.types import Array

from .labelled import Data, Labelled

SIDE = 128  # pixels of a window
REDUCTION = 2  # photographs are halved: a white cell is 100 pixels wide then, a red one 50, a platelet 20
CLASSES = ("white cell", "platelet", "red cells only")
KINDS = ("WBC", "Platelets", "RBC")  # what decides each class, by the names of the annotations
PLACED = 2  # classes whose evidence has a place; that there are only red cells is told by what is not there

# How much of the best visible cell of a kind must be inside the window; of a large white cell, a part is plain enough.
VISIBLE = (0.4, 1.0, 0.9)
LARGEST_EVIDENCE = 0.5  # of a window, for white cells: a box that fills it cannot tell good maps from bad ones

TRAIN_STEP, TEST_STEP = 4, 16  # pixels between the places of windows
TRAIN_COUNT, TEST_COUNT = 1_000, 150  # windows of each class: an epoch, a folder for `evaluate`
TEST_SEED = 0


@dataclass(frozen=True, slots=True, eq=False)
class Photograph:
    """A halved photograph; boxes by kind in its pixels."""

    name: str
    pixels: Array  # (h, w, 3) bytes
    boxes: Mapping[str, tuple[Box, ...]]


@dataclass(frozen=True, slots=True)
class Window:
    """Where a window is cut, and what decides it: boxes in pixels of the window."""

    photograph: int
    left: int
    top: int
    label: int
    boxes: tuple[Box, ...]


def read(folder: Path) -> Data:
    """Windows of the data set's own splits: new ones in each epoch from trainval, a fixed choice from test.

    The folder `tune` shows photographs of val, which the model has learned from: there are too few to keep more back.
    """
    train = read_split(folder, "trainval")
    places = find_windows(train, TRAIN_STEP)
    tune, test = (fixed_windows(read_split(folder, split)) for split in ("val", "test"))
    return Data(lambda rng: cut(train, spread(places, TRAIN_COUNT, rng)), test, {"test": test, "tune": tune})


def fixed_windows(photographs: Sequence[Photograph]) -> Labelled:
    """The same windows in every run."""
    windows = find_windows(photographs, TEST_STEP)
    return cut(photographs, spread(windows, TEST_COUNT, np.random.default_rng(TEST_SEED)))


def read_split(folder: Path, split: str) -> list[Photograph]:
    names = (folder / "ImageSets" / "Main" / f"{split}.txt").read_text(encoding="utf-8").split()
    return [read_photograph(folder, name) for name in names]


def read_photograph(folder: Path, name: str) -> Photograph:
    with Image.open(folder / "JPEGImages" / f"{name}.jpg") as image:
        pixels = np.asarray(image.convert("RGB").reduce(REDUCTION))
    annotation = read_boxes(folder / "Annotations" / f"{name}.xml")
    return Photograph(name, pixels, {kind: halved(annotation, kind) for kind in KINDS})


def halved(annotation: Annotation, kind: str) -> tuple[Box, ...]:
    """The boxes of a kind in the reduced photograph; two boxes of the data set are points and left out."""
    boxes = [box for name, box in annotation.objects if name == kind]
    return tuple(
        (x0 / REDUCTION, y0 / REDUCTION, x1 / REDUCTION, y1 / REDUCTION)
        for x0, y0, x1, y1 in boxes
        if x1 > x0 and y1 > y0
    )


def find_windows(photographs: Sequence[Photograph], step: int) -> list[Window]:
    """Every window on a grid of places whose class is beyond doubt."""
    return [window for index, one in enumerate(photographs) for window in _windows_of(index, one, step)]


def _windows_of(index: int, photograph: Photograph, step: int) -> Iterator[Window]:
    height, width = photograph.pixels.shape[:2]
    for top in range(0, height - SIDE + 1, step):
        for left in range(0, width - SIDE + 1, step):
            label = decide(photograph.boxes, left, top)
            if label is not None:
                yield Window(index, left, top, label, evidence(photograph.boxes, left, top, label))


def decide(boxes: Mapping[str, tuple[Box, ...]], left: int, top: int) -> int | None:
    """The class of a window: the rarest kind of cell of which anything is in it; None where that is open to doubt.

    A platelet beside a white cell, a cell that is cut off too much and a white cell that fills the window are doubts.
    """
    seen = [inside(boxes[kind], left, top) for kind in KINDS]
    white, platelets, red = seen
    if not (white or platelets or red) or (white and platelets):
        return None
    label = next(index for index, found in enumerate(seen) if found)
    if max(share for _, share in seen[label]) < VISIBLE[label]:
        return None
    if white and sum(_area(box) for box, _ in white) > LARGEST_EVIDENCE * SIDE**2:
        return None
    return label


def evidence(boxes: Mapping[str, tuple[Box, ...]], left: int, top: int, label: int) -> tuple[Box, ...]:
    """The boxes of the deciding cells, in pixels of the window; none for a class that is told by an absence."""
    return tuple(part for part, _ in inside(boxes[KINDS[label]], left, top)) if label < PLACED else ()


def inside(boxes: Sequence[Box], left: int, top: int) -> list[tuple[Box, float]]:
    """The parts of boxes that lie in a window, in its pixels, and which share of the box each part is."""
    found = []
    for x0, y0, x1, y1 in boxes:
        part = (max(x0 - left, 0), max(y0 - top, 0), min(x1 - left, SIDE), min(y1 - top, SIDE))
        if part[2] > part[0] and part[3] > part[1]:
            found.append((part, _area(part) / _area((x0, y0, x1, y1))))
    return found


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def spread(windows: Sequence[Window], count: int, rng: np.random.Generator) -> list[Window]:
    """`count` different windows of each class, as evenly from all photographs as there are enough of them."""
    chosen = []
    for label in range(len(CLASSES)):
        mine = [window for window in windows if window.label == label]
        if len(mine) < count:
            raise ValueError(f"{len(mine)} windows of class {CLASSES[label]!r}, {count} are wanted; take smaller steps")
        taken: dict[int, int] = {}  # windows seen so far of each photograph
        rounds = []
        for number in rng.permutation(len(mine)):
            photograph = mine[number].photograph
            rounds.append((taken.setdefault(photograph, 0), int(number)))
            taken[photograph] += 1
        # the first window of every photograph comes before the second of any
        chosen += [mine[number] for _, number in sorted(rounds, key=lambda pair: pair[0])[:count]]
    return chosen


def cut(photographs: Sequence[Photograph], windows: Sequence[Window]) -> Labelled:
    """The windows as images."""
    corners = [(photographs[w.photograph], w.left, w.top) for w in windows]
    return Labelled(
        np.stack([one.pixels[top : top + SIDE, left : left + SIDE] for one, left, top in corners]),
        np.array([window.label for window in windows], np.int64),
        tuple(f"{one.name}_{left:03d}_{top:03d}" for one, left, top in corners),
        tuple(window.boxes for window in windows),
    )
