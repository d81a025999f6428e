"""ImageNet in the layout of ILSVRC: images flat or in folders by WordNet id, and XML files with boxes."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.labels import read_text

from .boxes import read_boxes
from .entry import Box, Dataset, Entry
from .files import file_entry, images_under
from .layout import DatasetRequest, Layout
from .synsets import WNID, find_synsets, unknown_note

SPLIT = "val"
SOLUTION = "LOC_{split}_solution.csv"


def detect(where: str) -> bool:
    root = Path(where)
    return root.is_dir() and next(root.rglob("*.xml"), None) is not None


def load(request: DatasetRequest) -> Dataset:
    """The images of a split, each with the boxes of the objects of its class."""
    root, split = request.path, request.split or SPLIT
    boxes = {path.stem: path for path in sorted(root.rglob("*.xml"))}
    images = list(images_under(root))
    inside = [path for path in images if split in path.relative_to(root).parts[:-1]]
    solution = _solution(root, split)
    chosen = [(path, _wnid(path, solution, boxes)) for path in (inside or images)]
    synsets = find_synsets(request.synsets, root, sorted({path.parent.name for path in images}))
    entries = tuple(_entry(path, root, wnid, synsets, boxes.get(path.stem)) for path, wnid in chosen)
    return Dataset(LAYOUT.name, str(root), entries, unknown_note([wnid for _, wnid in chosen], synsets))


def _solution(root: Path, split: str) -> dict[str, str]:
    """WordNet ids by image, from the table of the Kaggle edition (`ImageId,PredictionString`); empty without one."""
    table = next(iter(sorted(root.rglob(SOLUTION.format(split=split)))), None)
    if table is None:
        return {}
    rows = csv.DictReader(io.StringIO(read_text(table)))
    try:
        return {str(row.get("ImageId")): str(row.get("PredictionString")).split(" ")[0] for row in rows}
    except csv.Error as error:
        raise InputError(f"{table}: line {rows.line_num} is not CSV ({error})") from None


def _wnid(path: Path, solution: Mapping[str, str], boxes: Mapping[str, Path]) -> str:
    """The class of an image: by its folder, else by the table, else by its boxes if all have the same name."""
    if WNID.fullmatch(path.parent.name):
        return path.parent.name
    if path.stem in solution:
        return solution[path.stem]
    kinds = {name for name, _ in read_boxes(boxes[path.stem]).objects} if path.stem in boxes else set()
    return kinds.pop() if len(kinds) == 1 else ""


def _entry(path: Path, root: Path, wnid: str, synsets: Mapping[str, int], boxes: Path | None) -> Entry:
    if boxes is None:
        return file_entry(path, root, synsets.get(wnid))
    return replace(file_entry(path, root, synsets.get(wnid), (boxes,)), boxes=_boxes(boxes, wnid))


def _boxes(path: Path, wnid: str) -> Callable[[tuple[int, int]], tuple[Box, ...]]:
    return lambda size: read_boxes(path).of(wnid, size)


LAYOUT = Layout("imagenet", "images with the XML boxes of ILSVRC", "label, boxes", detect, load)
