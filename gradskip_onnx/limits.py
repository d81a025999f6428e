"""What files of unknown origin and options may cost, each limit with its reason; SECURITY.md lists them.

Limits are checked before memory or time is spent. Those of a model's graph can be raised by an environment variable,
GRADSKIP_MAX_ and their name.
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

# Files and options.
MODEL_BYTES = 2 << 30  # of the .onnx file: protocol buffers end there, and larger models keep weights beside it
PIXELS = 100_000_000  # of an image: about 300 MB decoded; the map at image size takes 400 MB more
IMAGE_BYTES = 1 << 30  # of an image file: ten times the largest photographs
INPUT_SIDE = 16_384  # pixels of a model's input that a user may ask for: 3 GB as floats
STORED_SIDE = 4_096  # the same where a file beside or inside the model asks: 200 MB, and nobody has agreed to it
TEXT_BYTES = 32 << 20  # of labels, tables and configurations: a million class names have 20 MiB
CLASSES = 1_000_000  # class numbers in a table of labels: each number up to the largest becomes a name
XML_BYTES = 4 << 20  # of an annotation: the largest of ImageNet has 20 kB
XML_DEPTH = 16  # nested elements of an annotation: Pascal VOC has 4
ARRAY_BYTES = 8 << 30  # of an array in a .npz: PathMNIST at 224 pixels has 13 GB to train on, 1 GB to test
CACHE_FILES = 256  # entries of the cache: some dozens of models
CACHE_BYTES = 512 << 20  # of all entries
CACHE_ENTRY_BYTES = 64 << 20  # of one entry; a model that carries its weights inside is not worth a second copy
THREADS = 256  # of a session: more than any processor that is sold has cores, and each takes memory for its stack
