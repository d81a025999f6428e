"""Locks on open files. The system lets go of them when their process ends, in whatever way, so none is ever stale."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gradskip_onnx.errors import InputError

NAME = ".gradskip-lock"


def try_lock(handle: int) -> bool:
    """Lock an open file; False if another process has it. On file systems without locks every call succeeds."""
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network file systems
        return True
    return True


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder while the block runs; raises InputError if another run holds it."""
    try:
        handle = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except OSError as error:
        raise InputError(f"output {folder}: cannot be written to ({error.strerror or error})") from None
    try:
        if not try_lock(handle):
            raise InputError(f"output {folder} is in use by another run; wait for it, or name another --output")
        yield
    finally:
        os.close(handle)  # and the lock is gone
