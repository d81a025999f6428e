"""What the machine says of itself, from files made up here."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradskip_onnx.machine import CORES, free_bytes

MEMORY = "MemTotal:       24000000 kB\nMemFree:         1000000 kB\nMemAvailable:    9000000 kB\n"


def machine(folder: Path, memory: str | None, most: str | None, taken: str = "0") -> int | None:
    if memory is not None:
        (folder / "meminfo").write_text(memory)
    if most is not None:
        (folder / "memory.max").write_text(most)
        (folder / "memory.current").write_text(taken)
    return free_bytes(folder / "meminfo", folder)


@pytest.mark.parametrize(
    ("memory", "most", "taken", "expected"),
    [
        (MEMORY, None, "", 9_000_000 * 1024),
        (MEMORY, "max\n", "5", 9_000_000 * 1024),
        (MEMORY, "1000000\n", "400000\n", 600_000),
        (MEMORY, "1000000", "1200000", 0),
        (None, "1000000", "400000", 600_000),
        ("MemTotal: 5 kB\n", None, "", None),
        (None, None, "", None),
    ],
)
def test_free_memory_is_the_tightest_bound(tmp_path, memory, most, taken, expected):
    assert machine(tmp_path, memory, most, taken) == expected


def test_this_machine_has_cores():
    assert CORES >= 1
