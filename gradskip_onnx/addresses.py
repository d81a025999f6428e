"""Addresses of fsspec, such as s3://bucket/folder: the file system behind one, and the path in it."""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from .errors import InputError
from .imports.optional import import_optional

SEPARATOR = "://"
DISK = "file://"


def is_remote(text: str) -> bool:
    """Whether a text is an address that is not a path on disk."""
    return SEPARATOR in text and not text.startswith(DISK)


def on_disk(text: str) -> str:
    """The path of an address of the disk; a path stays as it is."""
    return text.removeprefix(DISK)


def without_place(text: str) -> str:
    """The last part of an address or of an absolute path, which would say whose machine it is; others as they are."""
    absolute = PurePosixPath(text).is_absolute() or PureWindowsPath(text).is_absolute()
    return PureWindowsPath(text).name if absolute or SEPARATOR in text else text


def open_address(text: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it."""
    fsspec = import_optional("fsspec.core", "audit")
    try:
        system, path = fsspec.url_to_fs(text)
    except (ValueError, ImportError, OSError) as error:  # an unknown scheme, or the package that knows it is missing
        raise InputError(f"{text}: no such kind of address ({str(error)[:200]})") from None
    return system, str(path).rstrip("/")
