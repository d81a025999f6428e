"""Which table of rules a pass is differentiated by: a name and numbers, known before any table is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradskip_onnx.errors import InputError

if TYPE_CHECKING:
    from gradskip_onnx.autodiff.rules.table import Rule


@dataclass(frozen=True, slots=True)
class Rules:
    """The choice of a table and, where it has numbers to set, of those."""

    name: str
    settings: tuple[tuple[str, float], ...] = ()

    def table(self) -> Mapping[str, Rule]:
        """The rules chosen."""
        from .table import RULESETS

        if self.name not in RULESETS:
            raise InputError(f"unknown rule set {self.name!r}; known: {', '.join(sorted(RULESETS))}")
        return RULESETS[self.name](**dict(self.settings))


TRUE_GRADIENT = Rules("gradient")
