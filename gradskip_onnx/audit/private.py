"""Names as they stand in results: Unicode, whatever the bytes of a file name are, and in privacy mode hashes."""

from __future__ import annotations

import hashlib
import re
from pathlib import PurePath

SHORTEST = 4  # characters of a word that tells something of a path
UNSAID = "the image could not be used; the reason names files, which privacy mode leaves out"


def recorded(name: str, *, privacy: bool) -> str:
    """The name of an image in the results of an audit."""
    return hidden(name) if privacy else as_unicode(name)


def as_unicode(text: str) -> str:
    r"""The text with bytes that are no Unicode, which names of files may hold, written out: \udcff."""
    return text.encode("utf-8", "backslashreplace").decode()


def hidden(name: str) -> str:
    """What stands for a name: the beginning of its SHA-256."""
    return f"sha256:{hashlib.sha256(name.encode('utf-8', 'backslashreplace')).hexdigest()[:32]}"


def without_names(text: str, *names: str) -> str:
    """A message with every name replaced; where a part of one is still in it, a message that says nothing."""
    for name in sorted({*names, *(PurePath(name).name for name in names)} - {""}, key=len, reverse=True):
        text = text.replace(name, "(image)")
    words = {word for name in names for word in re.split(r"[\\/.\s_-]", name) if len(word) >= SHORTEST}
    return UNSAID if any(word in text for word in words) else text
