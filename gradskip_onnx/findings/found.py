"""What the findings of an audit are: numbers with intervals by class, clusters of maps, and drift."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gradskip_onnx.errors import unknown_name
from gradskip_onnx.metrics.statistics import Interval
from gradskip_onnx.types import Array

Better = Literal["higher", "lower", "neither"]


@dataclass(frozen=True, slots=True)
class Flag:
    """Something a reader should look at; `index` is the class, None for all images together."""

    index: int | None
    why: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One number about an audit, overall and by class; None where no image has a value."""

    name: str
    definition: str
    unit: str
    better: Better
    overall: Interval | None
    classes: Mapping[int, Interval]
    examples: tuple[int, ...] = ()  # positions of images, the most striking first
    flagged: tuple[Flag, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """Images whose maps are alike, among those of one class or of all (`index` None)."""

    index: int | None
    size: int
    share: float  # of the images that were clustered
    centre: Array  # (rows, columns): the mean map, its positive part adding up to 1
    members: tuple[int, ...]  # positions, the most typical first
    agreement: float  # mean correlation of two maps of the cluster
    separation: float  # mean silhouette of its members, -1 to 1
    minority: bool  # a strategy of few images that stands apart from the others
    why: str


@dataclass(frozen=True, slots=True)
class Drift:
    """How much a finding has changed since the baseline: now minus then."""

    finding: str
    paired: bool  # whether both audits saw the same images, which are then compared one by one
    overall: Interval | None
    classes: Mapping[int, Interval]


@dataclass(frozen=True, slots=True)
class Baseline:
    """The earlier audit that drift is measured from."""

    model: str  # the name of its file
    model_sha256: str
    list_sha256: str  # of the names and labels of its images
    differs: tuple[str, ...]  # what it was asked in another way: method, options, check


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """All findings of an audit of so many images."""

    images: int
    findings: tuple[Finding, ...]
    clusters: tuple[Cluster, ...] = ()
    drift: tuple[Drift, ...] = ()
    baseline: Baseline | None = None

    def named(self, name: str) -> Finding:
        """The finding of a name; raises InputError for an unknown one."""
        by_name = {finding.name: finding for finding in self.findings}
        if name not in by_name:
            raise unknown_name("finding", name, by_name)
        return by_name[name]
