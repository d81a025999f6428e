"""Class indices of WordNet ids (n01440764), from the list that comes with ImageNet."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.labels import read_text

WNID = re.compile(r"n\d{8}")
LISTS = ("imagenet_labels.txt", "LOC_synset_mapping.txt", "synset_words.txt", "synsets.txt", "imagenet_synsets.txt")
ALL = 1000  # classes of ILSVRC; their ids in sorted order are the classes 0 to 999


def read_synsets(path: Path) -> dict[str, int]:
    """Class indices by id, from a file whose line i starts with the id of class i."""
    lines = read_text(path).split("\n")
    found = [match for line in lines if (match := WNID.match(line.strip()))]
    if not found or len(found) != len([line for line in lines if line.strip()]):
        raise InputError(f"{path}: not a list of WordNet ids; each line must start with one, such as n01440764")
    return {match[0]: index for index, match in enumerate(found)}


def find_synsets(file: Path | None, near: Path, folders: Sequence[str] = ()) -> dict[str, int]:
    """Class indices by id: from `file`, a list in or above the folder `near`, or 1000 folder names; else empty."""
    if file is not None:
        return read_synsets(file)
    for place in (near, near.parent, near.parent.parent):
        for name in LISTS:
            if (place / name).is_file():
                return read_synsets(place / name)
    named = sorted(name for name in folders if WNID.fullmatch(name))
    return {name: index for index, name in enumerate(named)} if len(named) == ALL else {}


def index_of(name: str, synsets: dict[str, int]) -> int | str | None:
    """The class behind the name of a folder or table: an index, the index of a WordNet id, or a class name."""
    text = name.strip()
    if WNID.fullmatch(text):
        return synsets.get(text)
    if re.fullmatch(r"\d{1,6}", text):
        return int(text)
    return text or None


def unknown_note(names: Sequence[str], synsets: dict[str, int]) -> tuple[str, ...]:
    """A warning if some of the names are WordNet ids without a class index."""
    ids = sorted({name for name in names if WNID.fullmatch(name) and name not in synsets})
    if not ids:
        return ()
    return (f"{len(ids)} WordNet ids such as {ids[0]} have no class index, so these labels are unused; see --synsets",)
