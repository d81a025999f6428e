"""Writes files atomically, and removes what writers that were killed left behind."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from .locks import try_lock

PREFIX, SUFFIX = ".gradskip-", ".tmp"


def temporary_name() -> str:
    """A file name that no other process uses."""
    return f"{PREFIX}{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"


def write_whole(path: Path, content: bytes, *, replace: bool = True) -> None:
    """Write to a temporary file beside `path` and rename it, so that no reader sees half a file.

    Without `replace` a file that exists, even one made this moment by another process, raises FileExistsError.
    """
    temporary = path.with_name(temporary_name())
    try:
        with temporary.open("xb") as stream:
            try_lock(stream.fileno())  # as long as it is held, `remove_leftovers` knows that somebody writes
            stream.write(content)
            stream.flush()
            if os.name == "posix":  # elsewhere an open file cannot be renamed
                _rename(temporary, path, replace)
        if os.name != "posix":
            _rename(temporary, path, replace)
    finally:
        temporary.unlink(missing_ok=True)


def _rename(temporary: Path, path: Path, replace: bool) -> None:
    if not replace:
        try:
            os.link(temporary, path)  # unlike a rename, a second name never takes the place of a file
            return
        except FileExistsError:
            raise
        except OSError:  # a file system without second names
            if path.exists():
                raise FileExistsError(path) from None
    os.replace(temporary, path)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of writers that are gone; those of living ones are locked."""
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):
        for path in folder.glob(f"{PREFIX}*{SUFFIX}"):
            with contextlib.suppress(OSError):
                handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    if try_lock(handle):
                        path.unlink()
                finally:
                    os.close(handle)
