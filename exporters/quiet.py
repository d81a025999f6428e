"""Silences the warnings, log lines and progress bars of third-party calls."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence warnings, logging, sys.stdout and sys.stderr; exceptions pass."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """`quiet`, and file descriptors 1 and 2 too: torch's C++ exporter prints whole graphs there."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    saved = [os.dup(descriptor) for descriptor in (1, 2)]
    sink = os.open(os.devnull, os.O_WRONLY)
    try:
        for descriptor in (1, 2):
            os.dup2(sink, descriptor)
        with quiet():
            yield
    finally:
        for descriptor, original in zip((1, 2), saved, strict=True):
            os.dup2(original, descriptor)
            os.close(original)
        os.close(sink)
