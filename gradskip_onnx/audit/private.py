"""Names that must not leave the machine: in privacy mode the results hold their hashes instead."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import PurePath

SHORTEST = 4  # characters of a word that tells something of a path
UNSAID = "the image could not be used; the reason names files, which privacy mode leaves out"


def hidden(name: str) -> str:
    """What stands for a name: the beginning of its SHA-256."""
    return f"sha256:{hashlib.sha256(os.fsencode(name)).hexdigest()[:32]}"


def without_names(text: str, *names: str) -> str:
    """A message with every name replaced; where a part of one is still in it, a message that says nothing."""
    for name in sorted({*names, *(PurePath(name).name for name in names)} - {""}, key=len, reverse=True):
        text = text.replace(name, "(image)")
    words = {word for name in names for word in re.split(r"[\\/.\s_-]", name) if len(word) >= SHORTEST}
    return UNSAID if any(word in text for word in words) else text
