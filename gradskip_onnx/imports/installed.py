"""Versions of installed packages, each read once: they stand in files that take a millisecond to find."""

from __future__ import annotations

from functools import cache
from importlib import metadata


@cache
def version_of(name: str) -> str:
    """The version of an installed distribution; empty if it is not there."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
