"""The tables of gradient rules: the true gradient, and variants as overlays of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gradskip_onnx.autodiff import (  # noqa: F401  (they fill the table)
    vjps,
    vjps_norm,
    vjps_quantised,
    vjps_shape,
    vjps_spatial,
)
from gradskip_onnx.autodiff.conservative import CONSERVATIVE
from gradskip_onnx.autodiff.rules import VJPS, Rule
from gradskip_onnx.errors import InputError

GRADIENT: dict[str, Rule] = VJPS

RULESETS: Mapping[str, Callable[..., Mapping[str, Rule]]] = MappingProxyType(
    {
        "gradient": lambda: GRADIENT,
        "conservative": lambda: GRADIENT | CONSERVATIVE,
    }
)


@dataclass(frozen=True, slots=True)
class Rules:
    """The choice of a table and, where it has numbers to set, of those."""

    name: str
    settings: tuple[tuple[str, float], ...] = ()

    def table(self) -> Mapping[str, Rule]:
        """The rules chosen."""
        if self.name not in RULESETS:
            raise InputError(f"unknown rule set {self.name!r}; known: {', '.join(sorted(RULESETS))}")
        return RULESETS[self.name](**dict(self.settings))
