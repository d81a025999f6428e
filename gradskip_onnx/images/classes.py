"""Finds classes by number or name, and ranks them by the scores of a model."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradskip_onnx.errors import InputError
from gradskip_onnx.tasks import Task
from gradskip_onnx.types import Array


@dataclass(frozen=True, slots=True)
class Candidate:
    """A class with its logit and probability for one image; in segmentation `probability` is its share of pixels."""

    index: int
    label: str
    logit: float
    probability: float


def find_class(target: int | str | None, labels: Sequence[str], classes: int) -> int | None:
    """The index of a class given by number or by name; None, the predicted class, stays None."""
    if target is None:
        return None
    if isinstance(target, str) and not re.fullmatch(r"\s*-?[0-9]{1,18}\s*", target):
        return _class_named(target, labels, classes)
    try:
        index = operator.index(target) if not isinstance(target, str) else int(target)
    except TypeError:
        raise InputError(f"class {target!r:.80}: give an index from 0 to {classes - 1}, a name or None") from None
    if not 0 <= index < classes:
        raise InputError(f"class {index} does not exist: the model has classes 0 to {classes - 1}")
    return index


def _class_named(name: str, labels: Sequence[str], classes: int) -> int:
    """The only class whose label, or a comma-separated synonym in it, is `name`; else the only label containing it."""
    folded = [label.casefold() for label in labels[:classes]]  # labels beyond the model's classes name nothing
    text = name.strip().casefold()
    exact = [i for i, label in enumerate(folded) if text == label or text in label.split(", ")]
    matches = exact or [i for i, label in enumerate(folded) if text in label]
    if len(matches) == 1:
        return matches[0]
    if not labels:
        raise InputError(f"class {name!r} is a name, but the model's labels are not known; give labels= (--labels)")
    if not matches:
        raise InputError(f"no class is called {name!r}; give an index from 0 to {classes - 1}")
    several = ", ".join(f"{i} ({labels[i]})" for i in matches[:5])
    raise InputError(f"{name!r} fits {len(matches)} classes: {several}; give the index")


def rank(
    task: Task, scores: Array, labels: Sequence[str], first: int | None = None, also: int | None = None
) -> tuple[Candidate, ...]:
    """The classes of one image by its scores, strongest first: all or the `first` ones, and class `also` at the end."""
    share, score = task.standing(scores)
    chosen = [int(i) for i in np.lexsort((-score, -share))[:first]]
    if also is not None and also not in chosen:
        chosen.append(also)
    return tuple(
        Candidate(i, labels[i] if i < len(labels) else f"class {i}", float(score[i]), float(share[i])) for i in chosen
    )


def class_name(names: Sequence[str], index: int) -> str:
    """The first of a class's names; its number if it has none."""
    return (names[index].split(",")[0] if index < len(names) else "") or f"class {index}"
