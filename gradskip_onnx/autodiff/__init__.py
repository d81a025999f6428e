"""Reverse-mode differentiation from ONNX graph to ONNX graph."""

from typing import TYPE_CHECKING

from gradskip_onnx.lazy import looked_up

if TYPE_CHECKING:
    from gradskip_onnx.autodiff.emit import Emit, Sym
    from gradskip_onnx.autodiff.engine import backward
    from gradskip_onnx.autodiff.rules import Node, Rule, vjp
    from gradskip_onnx.autodiff.rulesets import GRADIENT, RULESETS
    from gradskip_onnx.autodiff.seeds import SEEDS

__all__ = ["GRADIENT", "RULESETS", "SEEDS", "Emit", "Node", "Rule", "Sym", "backward", "vjp"]

# Looked up when first used: methods name scores and tables of rules, which must not cost them a graph library.
_HOMES = {
    "Emit": "emit",
    "GRADIENT": "rulesets",
    "Node": "rules",
    "RULESETS": "rulesets",
    "Rule": "rules",
    "SEEDS": "seeds",
    "Sym": "emit",
    "backward": "engine",
    "vjp": "rules",
}


__getattr__ = looked_up(__name__, _HOMES)
