"""The tables of gradient rules: the true gradient, and variants as overlays of it."""

from __future__ import annotations

from collections.abc import Mapping
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

GRADIENT: dict[str, Rule] = VJPS

RULESETS: Mapping[str, Mapping[str, Rule]] = MappingProxyType(
    {
        "gradient": GRADIENT,
        "conservative": GRADIENT | CONSERVATIVE,
    }
)
