"""Writes labelled images as a folder that `gradskip-onnx evaluate` reads, with their boxes where they are known."""

from __future__ import annotations

import csv
from pathlib import Path
from xml.etree import ElementTree

from PIL import Image

from gradskip_onnx.datasets.boxes import CORNERS
from gradskip_onnx.datasets.entry import Box

from .labelled import Labelled


def write_folder(images: Labelled, classes: tuple[str, ...], folder: Path) -> None:
    """In the layout `imagenet` if boxes are known, else `folder`."""
    (_write_boxed if images.boxes else _write_plain)(images, classes, folder)


def _write_plain(images: Labelled, classes: tuple[str, ...], folder: Path) -> None:
    """PNG files, and labels.csv."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "labels.csv").open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        table.writerow(("file", "label"))
        for pixels, label, name in zip(images.pixels, images.labels, images.names, strict=True):
            Image.fromarray(pixels).save(folder / f"{name}.png")
            table.writerow((f"{name}.png", classes[label]))


def _write_boxed(images: Labelled, classes: tuple[str, ...], folder: Path) -> None:
    """PNG files by class, an XML file for each that has boxes, and the list of classes.

    The layout names classes by WordNet ids; these here are counted from 0 and mean nothing in WordNet.
    """
    ids = [f"n{index:08d}" for index in range(len(classes))]
    for name in ("Annotations", *ids):
        (folder / name).mkdir(parents=True, exist_ok=True)
    lines = [f"{wnid} {name}\n" for wnid, name in zip(ids, classes, strict=True)]
    (folder / "synsets.txt").write_text("".join(lines), encoding="utf-8")
    for pixels, label, name, boxes in zip(images.pixels, images.labels, images.names, images.boxes, strict=True):
        Image.fromarray(pixels).save(folder / ids[label] / f"{name}.png")
        if boxes:
            annotation(ids[label], boxes, pixels.shape[:2]).write(folder / "Annotations" / f"{name}.xml")


def annotation(name: str, boxes: tuple[Box, ...], size: tuple[int, int]) -> ElementTree.ElementTree:
    """Boxes of objects with one name in the form of Pascal VOC, for an image of `size` (height, width)."""
    root = ElementTree.Element("annotation")
    stated = ElementTree.SubElement(root, "size")
    for side, pixels in zip(("height", "width"), size, strict=True):
        ElementTree.SubElement(stated, side).text = str(pixels)
    for box in boxes:
        one = ElementTree.SubElement(root, "object")
        ElementTree.SubElement(one, "name").text = name
        frame = ElementTree.SubElement(one, "bndbox")
        for corner, value in zip(CORNERS, box, strict=True):
            ElementTree.SubElement(frame, corner).text = str(value)
    return ElementTree.ElementTree(root)
