"""Images with what is known about them: a table of folder layouts, detected by their shape or chosen by name."""

from __future__ import annotations

from .entry import Dataset, Entry
from .layouts import LAYOUTS, Layout, load
from .selection import Selection

__all__ = ["LAYOUTS", "Dataset", "Entry", "Layout", "Selection", "load"]
