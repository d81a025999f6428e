"""Classes and their scores in words, and in names of files."""

from __future__ import annotations

import re

from gradskip_onnx.images.classes import Candidate


def named(entry: Candidate) -> str:
    """A class as people read it."""
    return f"class {entry.index}" if unnamed(entry) else f"{entry.label} ({entry.index})"


def unnamed(entry: Candidate) -> bool:
    """Whether only the number of a class is known."""
    return entry.label in ("", str(entry.index), f"class {entry.index}")


def class_suffix(entry: Candidate) -> str:
    """What tells the files of several classes of one image apart."""
    words = "" if unnamed(entry) else re.sub(r"\W+", "_", entry.label.split(",")[0]).strip("_")[:40]
    return f".{entry.index}" + (f"_{words}" if words else "")
