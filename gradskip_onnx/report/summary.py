"""The verdict of a report, and the few sentences and numbers that a manager reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gradskip_onnx.findings.found import Finding
from gradskip_onnx.findings.words import (
    Tile,
    Verdict,
    base_of,
    count_text,
    joined,
    tiles_of,
    title_of,
    value_text,
    verdict_of,
    with_interval,
)

from .content import Content, column

TILES = ("accuracy", "check-passed", "inside", "abstained")
REGION = "region"  # how the names of findings about regions begin


@dataclass(frozen=True, slots=True)
class Raised:
    """A flag: its finding, the value that raised it, and that of all images."""

    finding: Finding
    title: str
    value: str
    overall: str
    why: str


@dataclass(frozen=True, slots=True)
class StandsOut:
    """A class, or all images (`index` None), with the flags that were raised for it."""

    index: int | None
    where: str
    flags: tuple[Raised, ...]


def verdict(content: Content) -> Verdict:
    """Passed, failed, or not judged."""
    flags = sum(len(one.flags) for one in stand_outs(content))
    minorities = sum(cluster.minority for cluster in content.findings.clusters)
    seen = [count_text(flags, "flag")] if flags else []
    seen += [count_text(minorities, "minority pattern")] if minorities else []
    beside = f"The findings raise {joined(seen)}." if seen else "The findings raise no flag."
    return verdict_of(content.violations, content.findings, content.place_of, beside)


def sentences(content: Content) -> list[str]:
    """Three to five sentences with figures and their intervals."""
    return [text for write in (_asked, _right, _believed, _looked, _stands_out) if (text := write(content))]


def _asked(content: Content) -> str:
    facts, images = content.facts, content.findings.images
    failed = sum(error is not None for error in content.audit.table["error"].to_pylist())
    rest = f"; {count_text(failed, 'image')} could not be explained" if failed else ""
    what = f"{facts['model']['file']} was asked about {count_text(images, 'image')} of {content.data}"
    return f"{what}, and {facts['method']} explained each answer{rest}."


def _right(content: Content) -> str:
    found = content.findings.named("accuracy")
    if found is None or found.overall is None:
        return "The images have no labels, so nothing is said about right and wrong answers."
    return f"It names the labelled class in {with_interval(found)} of {count_text(found.overall.count, 'image')}."


def _believed(content: Content) -> str:
    passed, abstained = content.findings.named("check-passed"), content.findings.named("abstained")
    if passed is None or passed.overall is None:
        return ""
    rest = ""
    if abstained is not None and abstained.overall is not None:
        rest = f" {value_text(abstained.overall.value, abstained.unit)} of the maps are marked as not to be believed."
    return f"{with_interval(passed)} of the maps pass the check: without what they mark, the answer weakens more.{rest}"


def _looked(content: Content) -> str:
    inside, border = content.findings.named("inside"), content.findings.named("border")
    if inside is not None and inside.overall is not None:
        area = column(content.audit, "inside_area")
        chance = float(area[area == area].mean())
        return (
            f"{with_interval(inside)} of the relevance lies on the known objects, which cover "
            f"{value_text(chance, inside.unit)} of the images."
        )
    if border is None or border.overall is None:
        return ""
    return f"{with_interval(border)} of the relevance lies on the border, which is 36 % of an image."


def _stands_out(content: Content) -> str:
    found = stand_outs(content)
    if not found:
        return "No class and no region stands out."
    first, flag = found[0], found[0].flags[0]
    more = sum(len(one.flags) for one in found) - 1
    rest = f" {count_text(more, 'further flag')} below." if more else ""
    against = "" if first.index is None else f", against {flag.overall} over all images"
    return f"Most striking for {first.where}: {flag.title[0].lower()}{flag.title[1:]} is {flag.value}{against}.{rest}"


def tiles(content: Content) -> Iterator[Tile]:
    """The numbers to be seen first, those that this audit has."""
    yield from tiles_of(content.findings, TILES)


def stand_outs(content: Content) -> list[StandsOut]:
    """What has flags: first all images, then the classes with the most; flags of named regions stand before others."""
    raised: dict[int | None, list[Raised]] = {}
    said = {(finding.name, flag.index) for finding in content.findings.findings for flag in finding.flagged}
    for finding in sorted(content.findings.findings, key=lambda finding: not finding.name.startswith(REGION)):
        for flag in finding.flagged:
            if base_of(finding.name) != finding.name and (base_of(finding.name), flag.index) in said:
                continue  # the same, less a constant
            found = finding.overall if flag.index is None else finding.classes.get(flag.index)
            value, overall = (value_text(one.value if one else None, finding.unit) for one in (found, finding.overall))
            flags = raised.setdefault(flag.index, [])
            if flags and flags[-1].finding is finding:  # flagged for two reasons
                flags[-1] = replace(flags[-1], why=f"{flags[-1].why}; {flag.why}")
            else:
                flags.append(Raised(finding, title_of(finding.name), value, overall, flag.why))
    order = sorted(raised, key=lambda index: (index is not None, -_weight(raised[index])))
    return [StandsOut(index, content.place_of(index), tuple(raised[index])) for index in order]


def _weight(flags: list[Raised]) -> int:
    """Regions that the user named weigh most."""
    return len(flags) + 10 * sum(flag.finding.name.startswith(REGION) for flag in flags)
