"""WordNet ids (n01440764) as class indices, from the list that comes with ImageNet."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.labels import read_text

WNID = re.compile(r"n\d{8}")
LISTS = ("imagenet_labels.txt", "LOC_synset_mapping.txt", "synset_words.txt", "synsets.txt", "imagenet_synsets.txt")
ALL = 1000  # as many folders hold all classes of ILSVRC, and their order is that of the indices


def read_synsets(path: Path) -> dict[str, int]:
    """Line i starts with the id of class i."""
    lines = read_text(path).split("\n")
    found = [match for line in lines if (match := WNID.match(line.strip()))]
    if not found or len(found) != len([line for line in lines if line.strip()]):
        raise InputError(f"{path}: not a list of WordNet ids; each line must start with one, such as n01440764")
    return {match[0]: index for index, match in enumerate(found)}


def find_synsets(given: Path | None, near: Path, folders: Sequence[str] = ()) -> dict[str, int]:
    """The list given, one lying in the folder or above it, or the order of 1000 folders; else nothing."""
    if given is not None:
        return read_synsets(given)
    for place in (near, near.parent, near.parent.parent):
        for name in LISTS:
            if (place / name).is_file():
                return read_synsets(place / name)
    named = sorted(name for name in folders if WNID.fullmatch(name))
    return {name: index for index, name in enumerate(named)} if len(named) == ALL else {}


def index_of(name: str, synsets: dict[str, int]) -> int | str | None:
    """A class as folders and tables name it: an index, a WordNet id, or the name of a class."""
    text = name.strip()
    if WNID.fullmatch(text):
        return synsets.get(text)
    if re.fullmatch(r"\d{1,6}", text):
        return int(text)
    return text or None


def unknown_note(names: Sequence[str], synsets: dict[str, int]) -> tuple[str, ...]:
    """A warning if WordNet ids are used and cannot be told apart from one another as classes."""
    lost = sorted({name for name in names if WNID.fullmatch(name) and name not in synsets})
    if not lost:
        return ()
    return (
        f"{len(lost)} WordNet ids such as {lost[0]} have no class index, so these labels are unused; see --synsets",
    )
