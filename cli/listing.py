"""Reads lists of methods and metrics: NAME or NAME[OPTION=VALUE,...], separated by commas, or `all`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from gradskip_onnx.errors import InputError

from .options import read_method_options

if TYPE_CHECKING:
    from gradskip_onnx.methods import MethodChoice
    from gradskip_onnx.metrics import Choice
    from gradskip_onnx.metrics.table import Row

ALL = "all"
Entry = tuple[str, tuple[str, ...]]  # a name and the texts of its options
ENTRY = re.compile(r"\s*(?P<name>[^\[\],\s]+)\s*(?:\[(?P<options>[^\[\]]*)\])?\s*(?:,|$)")


def read_list(text: str) -> list[Entry]:
    """The names of a list with the texts of their options, in order."""
    found, at = [], 0
    while at < len(text):
        match = ENTRY.match(text, at)
        if match is None:
            raise InputError(f"{text[at:]!r}: write NAME or NAME[OPTION=VALUE,OPTION=VALUE], separated by commas")
        pairs = (pair.strip() for pair in (match["options"] or "").split(","))
        found.append((match["name"], tuple(pair for pair in pairs if pair)))
        at = match.end()
    if not found:
        raise InputError("the list is empty; write NAME or NAME[OPTION=VALUE,OPTION=VALUE], separated by commas")
    return found


def read_methods(text: str) -> list[MethodChoice]:
    """The methods of a list; `all` stands for every method not named in it, with default options."""
    from gradskip_onnx.methods import choose_method, every_method, find_method

    return [
        choose_method(name, **read_method_options(find_method(name).options, pairs))
        for name, pairs in _expand_all(read_list(text), lambda: (row.name for row in every_method()))
    ]


def read_metrics(text: str) -> list[Choice[Row]]:
    """The metrics of a list; `all` stands for every metric not named in it, with default options."""
    from gradskip_onnx.evaluation import choose_metric, every_metric, find_metric

    return [
        choose_metric(name, **read_method_options(find_metric(name).options, pairs))
        for name, pairs in _expand_all(read_list(text), every_metric)
    ]


def _expand_all(entries: list[Entry], known: Callable[[], Iterable[str]]) -> Iterator[Entry]:
    """The entries, with `all` replaced by every known name that is not among them; they are asked for only then."""
    named = {name for name, _ in entries}
    for name, pairs in entries:
        if name == ALL and not pairs:
            yield from ((other, ()) for other in known() if other not in named)
        else:
            yield name, pairs
