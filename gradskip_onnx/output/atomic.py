"""Files that are whole or not there."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def temporary_name() -> str:
    """A name that no other process takes."""
    return f".gradskip-{os.getpid()}-{secrets.token_hex(4)}.tmp"


def write_whole(path: Path, content: bytes) -> None:
    """Write beside the target, then rename: nobody ever sees half a file."""
    temporary = path.with_name(temporary_name())
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
