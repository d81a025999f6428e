"""Lets NumPy sort without instructions that AMD's Zen 4 has and is slow at; the Gini coefficient sorts attention."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from pathlib import Path

VARIABLE = "NPY_DISABLE_CPU_FEATURES"
# By the names of NumPy below 2.4 and from there on; it passes over those that it does not know.
AVX512 = "X86_V4 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR"
FIRST = 8192  # characters that hold what is said of the first core; of hundreds of cores it would take long to ask
ZEN_4 = (
    r"vendor_id\s*: AuthenticAMD$",
    r"cpu family\s*: 25$",  # Zen 3 too, which has no AVX-512
    r"flags\s*:.* avx512f\b",
)


def sort_quickly(processors: Path = Path("/proc/cpuinfo")) -> None:
    """On Zen 4 tell NumPy, before it is imported, not to use AVX-512; what a user has told it stays.

    Its sort stores some lanes of a register to memory at each step, which Zen 4 does in microcode: 19 to 38 ns a value
    instead of 3 to 6 with AVX2.
    """
    if "numpy" in sys.modules or VARIABLE in os.environ:
        return
    with suppress(OSError):
        with processors.open(encoding="ascii", errors="replace") as lines:
            first = lines.read(FIRST).partition("\n\n")[0]
        if all(re.search(line, first, re.MULTILINE) for line in ZEN_4):
            os.environ[VARIABLE] = AVX512
