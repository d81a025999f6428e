"""How many images of a folder are in work at once: as many as there are cores, if memory holds so many passes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gradskip_onnx.machine import CORES, free_bytes
from gradskip_onnx.runtime.session import CPU
from gradskip_onnx.types import Architecture

from .explainer import Explainer

SHARE = 0.5  # of the free memory that passes may take: pictures and the rest of the machine need some, too
ASSUMED = 4 << 30  # bytes that count as free where the system does not say
PIXEL = 4096  # bytes of a pass for each pixel of the input: twice what ViT-B/16 takes besides attention
NUMBER = 4  # bytes
FEW = 8  # images; so few are done before further sessions would pay


@dataclass(frozen=True, slots=True)
class Lanes:
    """Batches whose passes run at once, each in one thread, and how many batches are prepared and drawn ahead."""

    count: int = 1
    ahead: int = 0


ONE_LANE = Lanes()


def pass_bytes(architecture: Architecture, batch_size: int) -> int:
    """A rough upper bound of what one pass takes besides the weights: attention with its gradient, and the rest."""
    height, width = architecture.input_dims.size
    attention = 0
    for block in architecture.blocks:
        queries = block.grid.patches + len(block.special)
        keys = block.grid.patches // block.reduction**2 + len(block.special)
        attention += 2 * block.heads * queries * keys * NUMBER
    return batch_size * (attention + PIXEL * height * width)


def lanes_that_fit(needed: int, cores: int, free: int | None) -> int:
    """How many passes of `needed` bytes run at once on so many cores: a divisor of them, so that none is idle."""
    room = int(SHARE * (ASSUMED if free is None else free)) // max(needed, 1)
    return max(count for count in range(1, cores + 1) if cores % count == 0 and (count <= room or count == 1))


def in_lanes(explainer: Explainer, images: int, batch_size: int, threads: int | None = None) -> tuple[Explainer, Lanes]:
    """The explainer with as many threads a pass as suits the lanes, and the lanes, for so many images.

    Passes beside each other in one thread each use the cores better than one pass in many threads, whose operators
    wait for each other; and the pass of an image does not depend on the others. `threads` bounds the cores used.
    """
    if images <= FEW:
        return explainer, ONE_LANE
    cores = threads or CORES
    count = 1
    if explainer.provider == CPU:
        count = lanes_that_fit(pass_bytes(explainer.architecture, batch_size), cores, free_bytes())
    lanes = Lanes(count, ahead=2)
    if count == 1:
        return explainer, lanes
    return replace(explainer, model=explainer.model.with_threads(cores // count)), lanes
