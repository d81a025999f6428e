"""Lists of methods and metrics as users write them: NAME or NAME[OPTION=VALUE,...], separated by commas, or `all`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradskip_onnx.errors import InputError

from .options import read_method_options

if TYPE_CHECKING:
    from gradskip_onnx.evaluation import MethodChoice
    from gradskip_onnx.metrics import Choice

ALL = "all"
ENTRY = re.compile(r"\s*(?P<name>[^\[\],\s]+)\s*(?:\[(?P<options>[^\[\]]*)\])?\s*(?:,|$)")


def read_list(text: str) -> list[tuple[str, tuple[str, ...]]]:
    """Names with the texts of their options, in the order given."""
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
    """The methods of a list; `all` are those not named elsewhere in it, with their defaults."""
    from gradskip_onnx.evaluation import choose_method
    from gradskip_onnx.methods import METHODS

    entries = read_list(text)
    found = []
    for name, pairs in entries:
        names = _others(entries, sorted(METHODS)) if name == ALL and not pairs else [name]
        for each in names:
            row = choose_method(each).row
            found.append(choose_method(each, **read_method_options(row.options, pairs)))
    return found


def read_metrics(text: str) -> tuple[list[Choice], bool]:
    """The metrics of a list, and whether FLOPs are among them."""
    from gradskip_onnx.evaluation import GFLOPS, choose_metric, metric_names
    from gradskip_onnx.evaluation.choices import metric_options

    entries = read_list(text)
    found, counted = [], False
    for name, pairs in entries:
        for each in _others(entries, metric_names()) if name == ALL and not pairs else [name]:
            if each == GFLOPS:
                counted = True
            else:
                found.append(choose_metric(each, **read_method_options(metric_options(each), pairs)))
    return found, counted


def _others(entries: list[tuple[str, tuple[str, ...]]], known: tuple[str, ...] | list[str]) -> list[str]:
    named = {name for name, _ in entries}
    return [name for name in known if name not in named]
