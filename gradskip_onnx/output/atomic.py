"""Writes files atomically."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def temporary_name() -> str:
    """A file name that no other process uses."""
    return f".gradskip-{os.getpid()}-{secrets.token_hex(4)}.tmp"


def write_whole(path: Path, content: bytes) -> None:
    """Write to a temporary file beside `path` and rename it, so that no reader sees half a file."""
    temporary = path.with_name(temporary_name())
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
