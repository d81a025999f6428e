"""Reverse-mode differentiation from ONNX graph to ONNX graph."""

from gradskip_onnx.autodiff.emit import Emit, Sym
from gradskip_onnx.autodiff.engine import backward
from gradskip_onnx.autodiff.rules import Node, Rule, vjp
from gradskip_onnx.autodiff.rulesets import GRADIENT, RULESETS
from gradskip_onnx.autodiff.seeds import SEEDS

__all__ = ["GRADIENT", "RULESETS", "SEEDS", "Emit", "Node", "Rule", "Sym", "backward", "vjp"]
