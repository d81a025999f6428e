"""Findings in words, for pages and model cards: their titles, numbers with intervals, rules that are not kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from gradskip_onnx.metrics.statistics import Interval

from .found import Finding, Findings
from .violations import Violation

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
        "flips": "Other answers",
        "spearman": "Rank correlation of the maps",
        "iou": "Overlap of the outlined areas",
        "ndcg": "Ranking of what is relevant",
        "spearman-tail": "Rank correlation, worst twentieth",
        "iou-tail": "Overlap, worst twentieth",
        "ndcg-tail": "Ranking, worst twentieth",
        "accuracy-change": "Change of right answers",
        "probability-change": "Change of probability",
    }
)
PREFIXES = {"region:": "Relevance in “{}”", "region-above-chance:": "Relevance in “{}”, above chance"}


Tone = Literal["good", "bad", "open"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a policy holds; `open` where there was none."""

    tone: Tone
    title: str
    text: str
    broken: tuple[str, ...] = ()  # what the policy does not allow, in words


@dataclass(frozen=True, slots=True)
class Tile:
    """A number to be seen first."""

    title: str
    value: str
    interval: str
    note: str


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


def broken_rule(one: Violation, findings: Findings, place: str) -> str:
    """A threshold that is not kept, in plain words, `place` being its class; other rules as the policy says them."""
    section, key = one.rule.partition(".")[0], one.rule.rpartition(".")[2]
    bound = {"min": "at least {} is asked for", "max": "at most {} is allowed"}.get(key)
    unit = next((finding.unit for finding in findings.findings if finding.name == one.finding), None)
    if bound is None or unit is None or section not in ("findings", "drift") or one.value is None:
        return one.text
    low, high = (one.value if end is None else end for end in (one.low, one.high))
    shown = f"{value_text(one.value, unit)} ({interval_text(Interval(one.value, low, high, 0), unit)})"
    change = "changed by " if section == "drift" else ""
    allowed = bound.format(value_text(one.threshold, unit))
    kept = one.value >= one.threshold if key == "min" else one.value <= one.threshold
    whole = ", for the whole interval" if kept else ""  # the value itself keeps to it
    return f"{title_of(one.finding)}, {place}: {change}{shown}; {allowed}{whole}"


def verdict_of(
    violations: Sequence[Violation] | None, findings: Findings, name_of: Callable[[int | None], str], beside: str
) -> Verdict:
    """Passed, failed, or not judged; `name_of` names a class or all images, `beside` says what else was found."""
    if violations is None:
        return Verdict("open", "Not judged", f"No policy was given, so nothing can pass or fail. {beside}")
    if not violations:
        return Verdict("good", "Passes", f"Every rule of the policy holds. {beside}")
    broken = tuple(broken_rule(one, findings, name_of(one.index)) for one in violations)
    rules = "A rule of the policy is" if len(broken) == 1 else f"{len(broken)} rules of the policy are"
    return Verdict("bad", "Fails", f"{rules} broken. {beside}", broken)


def tiles_of(findings: Findings, names: Iterable[str]) -> Iterator[Tile]:
    """The numbers to be seen first, those of the findings that have a value."""
    for found in (findings.named(name) for name in names):
        if (overall := found.overall) is not None:
            interval, value = interval_text(overall, found.unit), value_text(overall.value, found.unit)
            yield Tile(title_of(found.name), value, interval, count_text(overall.count, "image"))
