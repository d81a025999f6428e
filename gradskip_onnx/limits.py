"""What an untrusted file may cost, each limit with its reason; checked before memory or time is spent.

Each limit can be raised by an environment variable, GRADSKIP_MAX_ and its name; SECURITY.md lists them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from .errors import InputError, ModelError
from .machine import free_bytes


@dataclass(frozen=True, slots=True)
class Limit:
    """The largest amount that is worked on, and of what."""

    name: str
    default: int
    unit: str
    of_free: float = 0.0  # so many for each byte of memory that is free, where that is more than the default

    @property
    def variable(self) -> str:
        return f"GRADSKIP_MAX_{self.name}"

    @property
    def amount(self) -> int:
        """The limit as it is now: what the environment says, else the default or what the free memory allows."""
        text = os.environ.get(self.variable, "")
        if text and not (text.isascii() and text.isdigit() and len(text) < 20):
            raise InputError(f"{self.variable} is {text[:40]!r}; a whole number of {self.unit} is expected")
        if text:
            return int(text)
        return max(self.default, int(self.of_free * (free_bytes() or 0))) if self.of_free else self.default

    def check(self, amount: int, what: str) -> None:
        """Raise ModelError if `what` has more than the limit allows."""
        if amount > self.amount:
            size = f"{amount:,}" if amount < 10**18 else "more than 10^18"
            raise ModelError(
                f"{what} has {size} {self.unit}, more than the limit of {self.amount:,}; "
                f"if the file is to be trusted, raise it by {self.variable}"
            )


# The largest transformers have some 10,000 nodes. Time is linear in them: 100,000 take some 40 s on one core, a quarter
# of it in ONNX Runtime, which opens three sessions over them.
NODES = Limit("NODES", 100_000, "nodes")
# What a run on a probe image holds at once. A file of large images takes what its plain pass takes, where sizes are not
# foreseen with the gaps of an arena, and an explanation about as much again: a third of the memory that is free.
RUN_BYTES = Limit("RUN_BYTES", 2 << 30, "bytes of tensors at once", of_free=1 / 3)
# One tensor of a run; a softmax holds two of float32, what goes in and what comes out. The attention of 16 heads over
# 4,096 tokens takes 1 GiB.
ELEMENTS = Limit("ELEMENTS", 1 << 28, "elements", of_free=1 / 24)
# A run on a probe image takes seconds even for large models; a loop in a file can take forever.
DRY_RUN = Limit("DRY_RUN_SECONDS", 120, "seconds")
# A model file: protocol buffers end there, and larger models keep their weights in files beside it.
MODEL_BYTES = Limit("MODEL_BYTES", 2 << 30, "bytes")
# An image: about 300 MB decoded; the map at image size takes 400 MB more.
PIXELS = Limit("PIXELS", 100_000_000, "pixels")
# An image file: ten times the largest photographs.
IMAGE_BYTES = Limit("IMAGE_BYTES", 1 << 30, "bytes")
# A side of the model's input, as a user may ask for it: 3 GB as floats.
INPUT_SIDE = Limit("INPUT_SIDE", 16_384, "pixels")
# The same where a file beside or inside the model asks: 200 MB, and nobody has agreed to it.
STORED_SIDE = Limit("STORED_SIDE", 4_096, "pixels")
# Labels, tables and configurations: a million class names have 20 MiB.
TEXT_BYTES = Limit("TEXT_BYTES", 32 << 20, "bytes")
# Class numbers in a table of labels: each number up to the largest becomes a name.
CLASSES = Limit("CLASSES", 1_000_000, "classes")
# An XML annotation: the largest of ImageNet has 20 kB, and Pascal VOC nests 4 elements.
XML_BYTES = Limit("XML_BYTES", 4 << 20, "bytes")
XML_DEPTH = Limit("XML_DEPTH", 16, "elements")
# An array in a .npz: PathMNIST at 224 pixels has 13 GB to train on, 1 GB to test.
ARRAY_BYTES = Limit("ARRAY_BYTES", 8 << 30, "bytes")
# A checkpoint: what its entries hold beyond the bytes of the file; torch compresses nothing, so most have none.
UNPACKED_BYTES = Limit("UNPACKED_BYTES", 64 << 20, "bytes")
# A file of ONNX Runtime Web, or its archive: 28 MB and 33 MB.
RUNTIME_BYTES = Limit("RUNTIME_BYTES", 64 << 20, "bytes")
# The cache: some dozens of models; an entry as large as a model that carries its weights is not worth a second copy.
CACHE_FILES = Limit("CACHE_FILES", 256, "entries")
CACHE_BYTES = Limit("CACHE_BYTES", 512 << 20, "bytes")
CACHE_ENTRY_BYTES = Limit("CACHE_ENTRY_BYTES", 64 << 20, "bytes")
# A file of an audit: a part has at most some 100 MB of maps.
AUDIT_FILE_BYTES = Limit("AUDIT_FILE_BYTES", 4 << 30, "bytes")
# A session: more than any processor that is sold has cores, and each thread takes memory for its stack.
THREADS = Limit("THREADS", 256, "threads")
