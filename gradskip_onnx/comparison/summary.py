"""The verdict of a comparison, and the few sentences and numbers that a manager reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradskip_onnx.findings.found import Finding
from gradskip_onnx.findings.violations import Violation
from gradskip_onnx.findings.words import Verdict, count_text, value_text, verdict_of, with_interval
from gradskip_onnx.metrics.statistics import Interval

from .compare import Comparison

TILES = ("flips", "iou", "iou-tail", "spearman")
OVERLAP = "iou"
FEWEST = 5  # images of a class that is named


def verdict(compared: Comparison, violations: Sequence[Violation] | None) -> Verdict:
    """Whether the policy holds, and whether there is any difference at all."""

    def name_of(index: int | None) -> str:
        return "all images" if index is None else compared.first.label_of(index)

    equal = _equal(compared)
    beside = "Every answer and every map is the same." if equal else "What differs is said below, with pictures."
    return verdict_of(violations, compared.found, name_of, beside)


def sentences(compared: Comparison, names: tuple[str, str]) -> list[str]:
    """Three to five sentences with figures and their intervals."""
    count = count_text(len(compared.pairs.images), "image")
    left_out = compared.pairs.left_out
    rest = f"; {left_out:,} more could not be compared" if left_out else ""
    return [
        f"{names[0]} and {names[1]} were asked about {count}{rest}.",
        *_answers(compared, names[1]),
        *_maps(compared),
    ]


def _answers(compared: Comparison, second: str) -> Iterator[str]:
    flips, change = compared.found.named("flips"), compared.found.named("accuracy-change")
    if flips.overall is not None and flips.overall.value == 0:
        most = value_text(flips.overall.high, flips.unit)
        yield f"Both give the same class to each of them; of images like these at most {most} get another one."
    elif flips.overall is not None:
        yield f"{second} gives another class to {with_interval(flips)} of them."
    if (found := change.overall) is not None and found.value:
        value, low, high = (f"{100 * share:.1f}".replace("-", "−") for share in (found.value, found.low, found.high))
        yield f"Its share of right answers changes by {value} percentage points ({low} to {high})."


def _maps(compared: Comparison) -> Iterator[str]:
    overlap, tail = compared.found.named(OVERLAP), compared.found.named(f"{OVERLAP}-tail")
    if overlap.overall is None or tail.overall is None:
        return
    if _equal(compared):
        yield "The maps of each image are equal, number by number."
        return
    worst = value_text(tail.overall.value, tail.unit)
    yield (
        f"The areas that hold half of the relevance overlap by {with_interval(overlap)}, equal ones by 100 %. "
        f"In one image of twenty they overlap by {worst} at most."
    )
    if (least := _least_alike(overlap)) is not None:
        index, found = least
        name, value = compared.first.label_of(index), value_text(found.value, overlap.unit)
        yield f"Least alike are the maps of {name}: they overlap by {value} in {count_text(found.count, 'image')}."


def _equal(compared: Comparison) -> bool:
    """Whether all answers are the same, and all maps to the last bit."""
    return not compared.pairs.columns["flipped"].any() and bool(compared.pairs.equal_maps.all())


def _least_alike(finding: Finding) -> tuple[int, Interval] | None:
    """The class with the lowest value among those with some images; None where it would be the only one."""
    classes = {index: one for index, one in finding.classes.items() if one.count >= FEWEST}
    if len(classes) < 2:
        return None
    index = min(classes, key=lambda one: classes[one].value)
    return index, classes[index]
