"""Every error a user can cause, each with the exit code the command line gives it, and the one warning of Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .types import Mismatch


class PreprocessingWarning(UserWarning):
    """What was assumed about the preprocessing of images; a wrong assumption gives plausible, wrong maps."""


class GradskipError(Exception):
    """A failure that is explained in one line: what, where, got what, try what."""

    exit_code = 2

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors go from process to process without their constructors, which take more than a text."""
        return _again, (type(self), self.args, self.__dict__)


def _again(kind: type[GradskipError], args: tuple[Any, ...], state: dict[str, Any]) -> GradskipError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class InputError(GradskipError):
    """An image, option, label or output path that cannot be used."""


def unknown_name(what: str, name: object, known: Iterable[str]) -> InputError:
    """The error for a name that is not among the known ones; it proposes the nearest."""
    from difflib import get_close_matches

    names = sorted(known)
    near = get_close_matches(str(name), names, 1, 0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return InputError(f"unknown {what} {name!r:.80}; {hint}known: {', '.join(names)}")


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


def printable(text: str) -> str:
    """The text with control characters, which could steer a terminal, replaced by question marks."""
    return "".join(c if c.isprintable() else "?" for c in text)
