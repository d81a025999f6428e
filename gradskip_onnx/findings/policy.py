"""Reads a policy: a TOML file that says which findings at which thresholds fail an audit or a comparison."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gradskip_onnx.errors import InputError, unknown_name
from gradskip_onnx.limits import TEXT_BYTES
from gradskip_onnx.untrusted_files import read_bounded, shortened

Bound = Literal["value", "low", "high"]
BOUNDS: tuple[Bound, ...] = ("value", "low", "high")
SECTIONS = ("findings", "drift", "clusters")
KEYS = ("min", "max", "flagged", "bound", "classes", "images")
CLUSTER_KEYS = ("minority", "of")
CLUSTERS_OF = ("any", "all", "classes")
ALL, EVERY = "all", "every"
FEWEST = 10  # images of a class below which `classes = "every"` does not judge it


@dataclass(frozen=True, slots=True)
class Threshold:
    """What one finding, or its drift, must keep to."""

    section: str
    name: str  # as in the file: findings.border
    finding: str
    lowest: float | None
    highest: float | None
    flagged: int | None  # at most so many classes singled out
    bound: Bound  # of the interval: which number is compared
    classes: str | tuple[str | int, ...]  # ALL images together, EVERY class, or these
    images: int


@dataclass(frozen=True, slots=True)
class ClusterThreshold:
    """How many minority clusters there may be, of all images, of single classes, or of either."""

    minority: int
    of: str


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy file that was understood in full."""

    sha256: str
    thresholds: tuple[Threshold, ...]
    clusters: ClusterThreshold | None = None


def read_policy(path: Path, known: Collection[str], sections: Collection[str] = SECTIONS) -> Policy:
    """The policy in a file; raises InputError for what it does not know. `known` are the names of findings."""
    data = read_bounded(path, TEXT_BYTES)
    where = f"policy {shortened(path)}"
    try:
        document = tomllib.loads(data.decode("utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{where}: not TOML ({str(error)[:120]})") from None
    for name in document:
        _known(where, "section", name, sections)
    thresholds = [
        threshold
        for section in ("findings", "drift")
        for finding, rules in _table(where, section, document.get(section, {})).items()
        for threshold in _thresholds(where, section, finding, rules, known)
    ]
    clusters = _clusters(where, document["clusters"]) if "clusters" in document else None
    if not thresholds and clusters is None:
        raise InputError(f"{where}: no thresholds in it; write a section such as [findings.border] with max = 0.5")
    return Policy(hashlib.sha256(data).hexdigest(), tuple(thresholds), clusters)


def _thresholds(where: str, section: str, finding: str, rules: Any, known: Collection[str]) -> Iterator[Threshold]:
    """The rule of a finding, or its several rules, written as [[findings.NAME]]."""
    _known(f"{where}: {section}", "finding", finding, known)
    several = isinstance(rules, list)
    for at, rule in enumerate(rules if several else [rules]):
        name = f"{section}.{finding}" + (f"[{at}]" if several else "")
        yield _threshold(f"{where}: {name}", section, name, finding, rule)


def _threshold(where: str, section: str, name: str, finding: str, rule: Any) -> Threshold:
    rule = _table(where, "", rule)
    for key in rule:
        _known(where, "key", key, KEYS)
    limits = {key: _number(where, key, rule[key]) for key in ("min", "max") if key in rule}
    flagged = _count(where, "flagged", rule["flagged"]) if "flagged" in rule else None
    if not limits and flagged is None:
        raise InputError(f"{where}: no threshold; give min, max or flagged")
    if flagged is not None and section == "drift":
        raise InputError(f"{where}: drift flags nothing; give min or max")
    bound = rule.get("bound", "value")
    _known(where, "bound", bound, BOUNDS)
    images = _count(where, "images", rule.get("images", FEWEST))
    classes = _classes(where, rule.get("classes", ALL))
    return Threshold(section, name, finding, limits.get("min"), limits.get("max"), flagged, bound, classes, images)


def _clusters(where: str, rule: Any) -> ClusterThreshold:
    rule = _table(where, "clusters", rule)
    for key in rule:
        _known(f"{where}: clusters", "key", key, CLUSTER_KEYS)
    if "minority" not in rule:
        raise InputError(f"{where}: clusters: no threshold; give minority, how many minority clusters there may be")
    of = rule.get("of", "any")
    _known(f"{where}: clusters", "word for of", of, CLUSTERS_OF)
    return ClusterThreshold(_count(f"{where}: clusters", "minority", rule["minority"]), of)


def _known(where: str, what: str, name: Any, known: Collection[str]) -> None:
    if name not in known:
        raise InputError(f"{where}: {unknown_name(what, name, known)}")


def _table(where: str, name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where}: {name or 'it'} is {value!r:.60}, a table of keys and values is expected")
    return value


def _number(where: str, key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < float("inf"):
        raise InputError(f"{where}: {key} is {value!r:.60}, a number is expected")
    return float(value)


def _count(where: str, key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InputError(f"{where}: {key} is {value!r:.60}, a whole number from 0 on is expected")
    return value


def _classes(where: str, value: Any) -> str | tuple[str | int, ...]:
    if value in (ALL, EVERY):
        return str(value)
    if isinstance(value, list) and value and all(isinstance(one, str | int) for one in value):
        return tuple(value)
    raise InputError(f'{where}: classes is {value!r:.60}; write "{ALL}", "{EVERY}", or a list of names or numbers')
