"""Writes files atomically, and removes what writers that were killed left behind."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from gradskip_onnx.errors import InputError

from .locks import try_lock

PREFIX, SUFFIX = ".gradskip-", ".tmp"
DEEPEST = 255  # mkdir and rmtree of the standard library call themselves for each folder on the way


def make_folder(path: Path) -> None:
    """Create a folder and those above it; OSError if it is so deep that Python could not remove it again."""
    if len(path.parents) > DEEPEST:
        raise OSError(errno.ENAMETOOLONG, f"more than {DEEPEST} folders deep")
    path.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the failure of a block that writes `path` into an InputError that names it."""
    try:
        yield
    except OSError as error:
        raise InputError(f"output {path}: cannot be written ({error.strerror or error})") from None


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
                rename_whole(temporary, path, replace)
        if os.name != "posix":
            rename_whole(temporary, path, replace)
    finally:
        temporary.unlink(missing_ok=True)


def rename_whole(temporary: Path, path: Path, replace: bool) -> None:
    """Give a finished file its name; without `replace` a file that has it already raises FileExistsError."""
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


@contextlib.contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """A folder in `parent` for files that are renamed when they are whole; gone at the end."""
    folder = parent / temporary_name()
    folder.mkdir()
    handle = os.open(folder, os.O_RDONLY) if os.name == "posix" else None  # elsewhere folders cannot be opened
    try:
        if handle is not None:
            try_lock(handle)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files and folders of writers that are gone; those of living ones are locked."""
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):
        for path in folder.glob(f"{PREFIX}*{SUFFIX}"):
            with contextlib.suppress(OSError):
                handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    if try_lock(handle):
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
                finally:
                    os.close(handle)
