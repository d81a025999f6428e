"""Symbolic sizes of axes: products of numbers, of the open batch size and of the open number of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal


@dataclass(frozen=True, slots=True)
class Free:
    """A size known only at run time: the batch, or the number of tokens less `front` first and `back` last ones.

    A negative `front` or `back` counts tokens that the model adds there itself.
    """

    kind: Literal["batch", "tokens"]
    front: int = 0
    back: int = 0

    def __str__(self) -> str:
        less = self.front + self.back
        return self.kind + (f" - {less}" if less > 0 else f" + {-less}" if less < 0 else "")


Size = tuple[int | Free, ...]  # a product, the slowest factor first; () is 1
Shape = tuple[Size, ...]
BATCH, TOKENS = Free("batch"), Free("tokens")


@dataclass(frozen=True, slots=True)
class Scale:
    """The values of the open sizes in the original file."""

    batch: int
    tokens: int

    def value(self, size: Size) -> int:
        return prod(self.factor(factor) for factor in size)

    def factor(self, factor: int | Free) -> int:
        if isinstance(factor, int):
            return factor
        return self.batch if factor.kind == "batch" else self.tokens - factor.front - factor.back


def plain(number: int) -> Size:
    """The size of an axis of fixed length."""
    return () if number == 1 else (number,)


def number(size: Size) -> int | None:
    """The value of a size without open factors, else None."""
    whole = [factor for factor in size if isinstance(factor, int)]
    return prod(whole) if len(whole) == len(size) else None


def open_tokens(size: Size) -> Free | None:
    """The open number of tokens, if a size is exactly that; else None."""
    only = size[0] if len(size) == 1 else None
    return only if isinstance(only, Free) and only.kind == "tokens" else None


def spell(shape: Shape) -> str:
    """For messages: (batch, tokens, 3·64)."""
    return "(" + ", ".join("·".join(map(str, size)) or "1" for size in shape) + ")"


def regroup(shape: Shape, dims: Sequence[int], scale: Scale) -> Shape | None:
    """The shape after a reshape to `dims`: factors are assigned in order; None if an open one would be split."""
    waiting = [factor for size in shape for factor in size]
    found = []
    for need in dims:
        taken: list[int | Free] = []
        # an open size that is 1 here looks like any other 1: it goes to the first axis that can take it
        while waiting and (need > 1 or (need == 1 and not taken and scale.factor(waiting[0]) == 1)):
            factor, value = waiting[0], scale.factor(waiting[0])
            if value and need % value == 0:
                taken.append(waiting.pop(0))
                need //= value
            elif isinstance(factor, int) and factor % need == 0:
                taken.append(need)
                waiting[0], need = factor // need, 1
            else:
                return None
        if need != 1:
            return None
        found.append(_tidy(taken))
    return tuple(found) if all(scale.factor(factor) == 1 for factor in waiting) else None


def _tidy(factors: Sequence[int | Free]) -> Size:
    """Merge adjacent plain numbers, so that equal sizes compare equal."""
    tidy: list[int | Free] = []
    for factor in factors:
        last = tidy[-1] if tidy else None
        if isinstance(factor, int) and isinstance(last, int):
            tidy[-1] = last * factor
        elif factor != 1:
            tidy.append(factor)
    return tuple(tidy)
