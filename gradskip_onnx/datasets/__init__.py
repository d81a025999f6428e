"""Reads datasets, images with ground truth, by a table of layouts; a layout is detected or chosen by name."""

from __future__ import annotations

from .entry import Dataset, DatasetSource, Entry
from .layout import Layout
from .selection import Selection
from .table import LAYOUTS, load, load_source

__all__ = ["LAYOUTS", "Dataset", "DatasetSource", "Entry", "Layout", "Selection", "load", "load_source"]
