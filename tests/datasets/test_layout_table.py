"""The table of layouts: complete, and in a fixed order."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from gradskip_onnx import datasets
from gradskip_onnx.datasets import LAYOUTS


def test_every_file_that_reads_a_layout_is_in_the_table():
    folder = Path(datasets.__file__).parent
    modules = [import_module(f"gradskip_onnx.datasets.{path.stem}") for path in sorted(folder.glob("[a-z]*.py"))]
    rows = [module.LAYOUT for module in modules if hasattr(module, "LAYOUT")]
    assert sorted(row.name for row in rows) == sorted(LAYOUTS)
    assert [row for row in rows if LAYOUTS[row.name] is not row] == []


def test_the_order_in_which_layouts_are_tried():
    assert tuple(LAYOUTS) == ("planted", "list", "address", "medmnist", "ade20k", "imagenet", "samples", "folder")
