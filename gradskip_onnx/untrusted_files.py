"""Opens files of unknown origin: regular files only, and no more bytes of them than allowed."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from .errors import InputError
from .limits import Limit

# Opening a pipe must not wait for its writer; Windows has no such pipes, and needs to be told that bytes are meant.
FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)

KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading; raises OSError for pipes, which may never answer, and devices, which never end.

    The kind is looked up before the file is opened, because opening some devices has effects, and once more after it.
    """
    try:
        _require_regular(os.stat(path))
        handle = os.open(path, FLAGS)
    except ValueError as broken:  # a zero byte in the name
        raise OSError(errno.EINVAL, str(broken)) from None
    try:
        _require_regular(os.fstat(handle))
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_bounded(path: str | os.PathLike[str], limit: Limit) -> bytes:
    """The content of a regular file within a limit of bytes; raises InputError with its path for any other."""
    name, most = shortened(path), limit.amount
    try:
        with open_regular(path) as stream:
            size = os.fstat(stream.fileno()).st_size
            data = stream.read(most + 1) if size <= most else b""
    except OSError as error:
        raise InputError(f"{name}: cannot be read ({error.strerror or error})") from None
    if max(size, len(data)) > most:  # files of the system, and files that grow, have more than they say
        raise InputError(f"{name}: {max(size, len(data))} bytes, limit {most}; {limit.variable} raises it")
    return data


def shortened(path: str | os.PathLike[str], most: int = 200) -> str:
    """A path for messages; of an overlong one both ends."""
    text = str(Path(path)) if str(path) else "''"
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-most // 2 :]}"


def _require_regular(state: os.stat_result) -> None:
    if not stat.S_ISREG(state.st_mode):
        kind = next((words for test, words in KINDS if test(state.st_mode)), "a special file")
        raise OSError(errno.EINVAL, f"it is {kind}, not a regular file")
