"""The table of rule sets: the true gradient, overlays of it, and one that propagates relevance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from gradskip_onnx.autodiff.rules import vjps, vjps_norm, vjps_quantised, vjps_shape, vjps_spatial  # noqa: F401  (they fill the table)
from gradskip_onnx.autodiff.rules.table import VJPS, Rule

from .attnlrp import lrp
from .chefer import CHEFER
from .conservative import ATTENTION_HELD, CONSERVATIVE, GATES_HELD, MEAN_HELD, SPREAD_HELD

GRADIENT: dict[str, Rule] = VJPS


def _conservative(gamma_conv: float, centred: float) -> dict[str, Rule]:
    """Attention, spreads and gates held; with `gamma_conv`, the gamma rule at the patch embedding."""
    if not gamma_conv:
        return CONSERVATIVE
    return lrp(attention_held=True, halves=False, gamma_linear=0.0, gamma_conv=gamma_conv, centred=bool(centred))


RULESETS: Mapping[str, Callable[..., Mapping[str, Rule]]] = MappingProxyType(
    {
        "gradient": lambda: GRADIENT,
        "conservative": lambda gamma_conv=0.0, centred=0.0: GRADIENT | _conservative(gamma_conv, centred),
        "ah+ln": lambda mean=0.0, gates=0.0: (
            GRADIENT | ATTENTION_HELD | SPREAD_HELD | (MEAN_HELD if mean else {}) | (GATES_HELD if gates else {})
        ),
        "attnlrp": lambda gamma_linear=0.0, gamma_conv=0.0: (
            GRADIENT | lrp(attention_held=False, halves=True, gamma_linear=gamma_linear, gamma_conv=gamma_conv)
        ),
        "attnlrp-vit": lambda gamma_linear=0.05, gamma_conv=0.25: (
            GRADIENT | lrp(attention_held=True, halves=False, gamma_linear=gamma_linear, gamma_conv=gamma_conv)
        ),
        "pe-lrp": lambda gamma_linear=0.05, gamma_conv=100.0: (
            GRADIENT | lrp(attention_held=True, halves=True, gamma_linear=gamma_linear, gamma_conv=gamma_conv)
        ),
        "chefer1": lambda: CHEFER,
    }
)
