"""The photographs with boxes of the assets, in ImageNet's own layout, which `gradskip-onnx evaluate` reads.

python -m benchmarks.results.boxed_photographs $GRADSKIP_ASSETS results/photographs
"""

from __future__ import annotations

import csv
import shutil
from collections import defaultdict
from pathlib import Path

import click

from benchmarks.trained.evaluation_folder import annotation
from gradskip_onnx.datasets.entry import Box

CORNERS = ("x0", "y0", "x1", "y1")


@click.command()
@click.argument("assets", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def main(assets: Path, folder: Path) -> None:
    """Copy the images of ASSETS/imagenet_boxes into FOLDER by class, with an XML file each and the list of classes."""
    source, labels = assets / "imagenet_boxes", assets / "imagenet_labels.txt"
    ids = [line.split()[0] for line in labels.read_text(encoding="utf-8").splitlines()]
    (folder / "Annotations").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(labels, folder / "synsets.txt")
    rows: dict[str, list[dict[str, str]]] = defaultdict(list)
    with (source / "boxes.csv").open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            rows[row["file"]].append(row)
    for name, objects in rows.items():
        wnid = ids[int(objects[0]["class"])]
        (folder / wnid).mkdir(exist_ok=True)
        shutil.copyfile(source / "images" / name, folder / wnid / name)
        size = int(objects[0]["height"]), int(objects[0]["width"])
        found = annotation(wnid, tuple(_box(row) for row in objects), size)
        found.write(folder / "Annotations" / f"{Path(name).stem}.xml")


def _box(row: dict[str, str]) -> Box:
    left, top, right, bottom = (float(row[corner]) for corner in CORNERS)
    return left, top, right, bottom


if __name__ == "__main__":
    main()
