"""The words of a report: titles of findings, numbers with their intervals, names of images and classes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gradskip_onnx.findings.found import Finding
from gradskip_onnx.metrics.statistics import Interval

PERCENT = "\N{NO-BREAK SPACE}%"
SHARE = "share"  # how the units of shares begin; they are written in per cent

TITLES: Mapping[str, str] = MappingProxyType(
    {
        "accuracy": "Right answers",
        "errors": "Images that failed",
        "abstained": "Explanations not to be believed",
        "check-passed": "Explanations that pass the check",
        "check-gap": "Effect of erasing what is marked",
        "border": "Relevance on the border",
        "inside": "Relevance on the object",
        "inside-above-chance": "Relevance on the object, above chance",
        "pointing": "Strongest place on the object",
        "centre-row": "Height of the centre",
        "centre-column": "Side of the centre",
        "spread": "Spread around the centre",
        "concentration": "Concentration",
        "negative-share": "Relevance against the class",
        "agreement": "Agreement within a class",
        "wrong-answers": "Wrong answers look elsewhere",
    }
)
PREFIXES = {"region:": "Relevance in “{}”", "region-above-chance:": "Relevance in “{}”, above chance"}


ABOVE_CHANCE = "-above-chance"


def base_of(name: str) -> str:
    """The finding that another one states above chance; the name itself for any other."""
    return name.replace(ABOVE_CHANCE, "", 1)


def title_of(name: str) -> str:
    """The title of a finding; the name itself where no title is known."""
    for prefix, words in PREFIXES.items():
        if name.startswith(prefix):
            return words.format(name.removeprefix(prefix))
    return TITLES.get(name, name)


def value_text(value: float | None, unit: str = "") -> str:
    """A value: shares in per cent, others with three decimals."""
    if value is None:
        return "–"
    text = f"{100 * value:.1f}{PERCENT}" if unit.startswith(SHARE) else f"{value:.3f}"
    return text.replace("-", "−")


def interval_text(found: Interval | None, unit: str = "") -> str:
    """The bounds of an interval of 95 %."""
    if found is None:
        return ""
    if unit.startswith(SHARE):
        return f"{100 * found.low:.1f} to {100 * found.high:.1f}{PERCENT}".replace("-", "−")
    return f"{found.low:.3f} to {found.high:.3f}".replace("-", "−")


def with_interval(finding: Finding) -> str:
    """The overall value of a finding with its interval in parentheses."""
    found = finding.overall
    return f"{value_text(found.value if found else None, finding.unit)} ({interval_text(found, finding.unit)})"


def count_text(count: int, what: str) -> str:
    """A number of things: 1 image, 2 images."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def joined(texts: list[str]) -> str:
    """Texts in a sentence: a, b and c."""
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 2 else texts)
