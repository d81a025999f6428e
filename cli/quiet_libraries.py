"""Keeps libraries from writing on the terminal past the program: what goes wrong is one line of ours."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from typing import TextIO

STDERR = 2  # the file descriptor that native code writes to


@contextlib.contextmanager
def quiet_libraries() -> Iterator[None]:
    """Let sys.stderr alone reach standard error while the block runs.

    ONNX Runtime's default logger and libtiff write to the descriptor itself, with words from the file; Python prints
    what libraries log if nobody handles it.
    """
    unheard = logging.NullHandler()
    logging.getLogger().addHandler(unheard)
    try:
        with _descriptor_apart():
            yield
    finally:
        logging.getLogger().removeHandler(unheard)


@contextlib.contextmanager
def _descriptor_apart() -> Iterator[None]:
    """Point the descriptor to nowhere, and sys.stderr, if it used it, to a copy of it."""
    try:
        copy = os.dup(STDERR)
    except OSError:  # closed by whoever started us; the next file opened must not become standard error
        copy = os.open(os.devnull, os.O_WRONLY)
    stream = sys.stderr
    with os.fdopen(copy, "w", encoding=_encoding(), errors="backslashreplace", buffering=1) as ours:
        if stream is None or _uses_descriptor(stream):
            sys.stderr = ours
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, STDERR)
        os.close(sink)
        try:
            yield
        finally:
            os.dup2(copy, STDERR)
            sys.stderr = stream


def _uses_descriptor(stream: TextIO) -> bool:
    """Whether a stream writes to it; a test may have put another in the place of sys.stderr."""
    try:
        stream.flush()
        return stream.fileno() == STDERR
    except (OSError, ValueError):  # in memory, or closed
        return False


def _encoding() -> str:
    return getattr(sys.stderr, "encoding", None) or "utf-8"
