"""Reverse-mode differentiation from ONNX graph to ONNX graph."""

from typing import TYPE_CHECKING

from gradskip_onnx.imports.lazy_names import lazy_getattr

if TYPE_CHECKING:
    from gradskip_onnx.autodiff.rules.table import Node, Rule, vjp
    from gradskip_onnx.autodiff.rulesets.table import GRADIENT, RULESETS
    from gradskip_onnx.autodiff.scores.seeds import SEEDS

    from .emit import Emit, Sym
    from .engine import backward

__all__ = ["GRADIENT", "RULESETS", "SEEDS", "Emit", "Node", "Rule", "Sym", "backward", "vjp"]

# Imported on first use: methods name scores and rule sets, and must not import a graph library for that.
_HOMES = {
    "Emit": "emit",
    "GRADIENT": "rulesets.table",
    "Node": "rules.table",
    "RULESETS": "rulesets.table",
    "Rule": "rules.table",
    "SEEDS": "scores.seeds",
    "Sym": "emit",
    "backward": "engine",
    "vjp": "rules.table",
}


__getattr__ = lazy_getattr(__name__, _HOMES)
