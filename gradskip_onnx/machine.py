"""What the machine offers to this process: cores, and memory that is free."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
MEMORY = Path("/proc/meminfo")
GROUP = Path("/sys/fs/cgroup")  # of a container: what it may take, and what it takes


def free_bytes(memory: Path = MEMORY, group: Path = GROUP) -> int | None:
    """Memory that can be taken without swapping, within the bounds of a container; None where Linux does not say."""
    found: list[int] = []
    with suppress(OSError):
        text = memory.read_text(encoding="ascii", errors="replace")
        found += [1024 * int(kilobytes) for kilobytes in re.findall(r"(?m)^MemAvailable:\s+(\d+) kB", text)]
    with suppress(OSError, ValueError):  # ValueError: "max", there is no bound
        most = int((group / "memory.max").read_text(encoding="ascii"))
        found.append(max(0, most - int((group / "memory.current").read_text(encoding="ascii"))))
    return min(found, default=None)
