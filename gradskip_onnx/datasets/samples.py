"""Image files with their class in the name, INDEX_WNID_name or WNID_name, such as sample images of ImageNet."""

from __future__ import annotations

import re
from pathlib import Path

from .entry import Dataset
from .files import file_entry, images_here
from .layout import DatasetRequest, Layout
from .synsets import find_synsets, unknown_note

NAME = re.compile(r"(?:(?P<index>\d{1,6})_)?(?P<wnid>n\d{8})_.+")


def _home(root: Path) -> Path | None:
    """The folder with such images: images/ in `root`, or `root` itself; None if neither has any."""
    places = [place for place in (root / "images", root) if place.is_dir()]
    return next((p for p in places if any(NAME.fullmatch(path.stem) for path in images_here(p)[:1])), None)


def detect(where: str) -> bool:
    return _home(Path(where)) is not None


def load(request: DatasetRequest) -> Dataset:
    """The images whose name contains the class."""
    home = _home(request.path) or request.path
    named = [(path, match) for path in images_here(home) if (match := NAME.fullmatch(path.stem))]
    synsets = find_synsets(request.synsets, home)
    entries = [
        file_entry(path, home, int(match["index"]) if match["index"] else synsets.get(match["wnid"]))
        for path, match in named
    ]
    unindexed = [match["wnid"] for _, match in named if not match["index"]]
    return Dataset(LAYOUT.name, str(home), tuple(entries), unknown_note(unindexed, synsets))


LAYOUT = Layout("samples", "files named INDEX_WNID_name or WNID_name", "label", detect, load)
