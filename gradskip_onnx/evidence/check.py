"""The result of one check, and how many of them say what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "failed", "not checked"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was compared: a file, the chain, an image."""

    what: str
    state: State
    text: str = ""


def holds(what: str, got: object, expected: object, text: str = "") -> Check:
    """A check of one value; the text of a failure names both."""
    if got == expected:
        return Check(what, "ok", text)
    return Check(what, "failed", f"got {_short(got)}, the manifest says {_short(expected)}")


def failed(checks: Sequence[Check]) -> list[Check]:
    return [check for check in checks if check.state == "failed"]


def _short(value: object) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 64 else f"{text[:61]}..."
