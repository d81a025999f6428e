"""Names of classes in texts and in file names."""

from __future__ import annotations

import re

from gradskip_onnx.images.classes import Candidate


def named(entry: Candidate) -> str:
    """The label and index of a class, for people."""
    return f"class {entry.index}" if unnamed(entry) else f"{entry.label} ({entry.index})"


def unnamed(entry: Candidate) -> bool:
    """Whether a class has an index but no label."""
    return entry.label in ("", str(entry.index), f"class {entry.index}")


def class_suffix(entry: Candidate) -> str:
    """The part of a file name that tells the classes of one image apart."""
    words = "" if unnamed(entry) else re.sub(r"\W+", "_", entry.label.split(",")[0]).strip("_")[:40]
    return f".{entry.index}" + (f"_{words}" if words else "")
