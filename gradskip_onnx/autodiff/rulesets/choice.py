"""The choice of a rule set by name and settings; the rule sets themselves are imported on first use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradskip_onnx.errors import InputError

if TYPE_CHECKING:
    from gradskip_onnx.autodiff.rules.table import Rule


@dataclass(frozen=True, slots=True)
class Rules:
    """The name of a rule set and values of its settings (gammas, switches); other settings keep their defaults."""

    name: str
    settings: tuple[tuple[str, float], ...] = ()

    def table(self) -> Mapping[str, Rule]:
        """The rules by operator."""
        from .table import RULESETS

        if self.name not in RULESETS:
            raise InputError(f"unknown rule set {self.name!r}; known: {', '.join(sorted(RULESETS))}")
        return RULESETS[self.name](**dict(self.settings))


TRUE_GRADIENT = Rules("gradient")
