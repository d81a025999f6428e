"""Every error a user can cause, each with the exit code the command line gives it; imports nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .types import Mismatch


class GradskipError(Exception):
    """A failure that is explained in one line: what, where, got what, try what."""

    exit_code = 2


class InputError(GradskipError):
    """An image, option, label or output path that cannot be used."""


class ModelError(GradskipError):
    """A file that is not a usable ONNX model: truncated, not ONNX, weights missing or not finite."""


class UnsupportedModelError(GradskipError):
    """A sound ONNX model that cannot be explained; `code` is stable, for scripts, `mismatches` lists near misses."""

    exit_code = 3

    def __init__(self, code: str, message: str, mismatches: Iterable[Mismatch] = ()) -> None:
        super().__init__(f"{message} [{code}]")
        self.code = code
        self.mismatches = tuple(mismatches)


class MissingRuleError(UnsupportedModelError):
    """An operator between the blocks and the score that has no gradient rule."""

    def __init__(self, message: str) -> None:
        super().__init__("no-gradient-rule", message)


class DeviceError(GradskipError):
    """The requested device is not available, or ONNX Runtime is not installed."""

    exit_code = 4


class VerificationError(GradskipError):
    """A written file does not compute the same outputs as the model it was made from."""

    exit_code = 5
