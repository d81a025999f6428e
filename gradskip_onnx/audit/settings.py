"""What an audit is asked to do, apart from its model and its data."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gradskip_onnx.errors import InputError, unknown_name
from gradskip_onnx.methods import DEFAULT, MethodChoice, choose_method
from gradskip_onnx.metrics.substrates import SUBSTRATES, Blurred, Substrate

from .regions import NamedRegion

FILLS: Mapping[str, Substrate] = {"mean": SUBSTRATES["mean"], "blur": Blurred(), "black": SUBSTRATES["black"]}
TARGETS = ("predicted", "label")
ENGINES = ("local", "ray")
MOST_LOSSES = 3  # of worker processes in a row, without a part finished in between: then it is not chance
Step = Callable[[str], None]  # called with the id of each image that is done


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """The counterfactual check: erase the most relevant patches, erase as many random ones, ask the model again."""

    share: float = 0.1  # of the patches of an image
    fill: str = "mean"  # what erased pixels become
    draws: int = 4  # of random patches; the check compares with their mean

    def __post_init__(self) -> None:
        if not (isinstance(self.share, int | float) and 0 < self.share < 1):
            raise InputError(f"check share: got {self.share!r:.80}, allowed: a fraction above 0 and below 1")
        if self.fill not in FILLS:
            raise unknown_name("fill of the check", self.fill, tuple(FILLS))
        if not (isinstance(self.draws, int) and 1 <= self.draws <= 1000):
            raise InputError(f"check draws: got {self.draws!r:.80}, allowed: 1 to 1000")


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """The settings of an audit; the last four change how it runs, and no row."""

    method: MethodChoice = field(default_factory=lambda: choose_method(DEFAULT))
    score: str = "logit"
    target: str = "predicted"
    regions: tuple[NamedRegion, ...] = ()
    check: CheckSettings = CheckSettings()
    seed: int = 0
    batch_size: int = 8
    privacy: bool = False  # no file names in the results, only their hashes
    part_size: int | None = None  # images of a part; None: from the number of images and the size of their maps
    workers: int = 1
    engine: str = "local"
    retry: bool = False  # do parts again that hold images which failed

    def __post_init__(self) -> None:
        for name, value, known in (("target", self.target, TARGETS), ("engine", self.engine, ENGINES)):
            if value not in known:
                raise unknown_name(name, value, known)
        names = [region.name for region in self.regions]
        twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
        if twice is not None:
            raise InputError(f"region {twice!r} is named twice")
        most = 4 * (os.cpu_count() or 1)
        if not 1 <= self.workers <= max(most, 64):
            raise InputError(f"workers: got {self.workers}, allowed: 1 to {max(most, 64)}")
        if self.part_size is not None and self.part_size < 1:
            raise InputError(f"part size: got {self.part_size}, allowed: a whole number at least 1")
