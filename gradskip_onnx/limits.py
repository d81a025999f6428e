"""What an untrusted file may cost, each limit with its reason; checked before memory or time is spent.

Each limit can be raised by an environment variable, GRADSKIP_MAX_ and its name; SECURITY.md lists them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from .errors import InputError, ModelError


@dataclass(frozen=True, slots=True)
class Limit:
    """The largest amount that is worked on, and of what."""

    name: str
    default: int
    unit: str

    @property
    def variable(self) -> str:
        return f"GRADSKIP_MAX_{self.name}"

    @property
    def amount(self) -> int:
        """The limit as it is now: the default, or what the environment says."""
        text = os.environ.get(self.variable, "")
        if text and not (text.isascii() and text.isdigit() and len(text) < 20):
            raise InputError(f"{self.variable} is {text[:40]!r}; a whole number of {self.unit} is expected")
        return int(text) if text else self.default

    def check(self, amount: int, what: str) -> None:
        """Raise ModelError if `what` has more than the limit allows."""
        if amount > self.amount:
            size = f"{amount:,}" if amount < 10**18 else "more than 10^18"
            raise ModelError(
                f"{what} has {size} {self.unit}, more than the limit of {self.amount:,}; "
                f"if the file is to be trusted, raise it by {self.variable}"
            )


# The largest transformers have some 10,000 nodes. Our own work is linear in them; ONNX Runtime takes longer than that
# over the thousands of outputs of a dry run: 10,000 nodes are read in 6 s on two busy cores, 40,000 in 50 s.
NODES = Limit("NODES", 20_000, "nodes")
# One tensor of a run: 1 GiB of float32. The attention of 16 heads over 4,096 tokens just fits.
ELEMENTS = Limit("ELEMENTS", 1 << 28, "elements")
# A run on a probe image takes seconds even for large models; a loop in a file can take forever.
DRY_RUN = Limit("DRY_RUN_SECONDS", 120, "seconds")
