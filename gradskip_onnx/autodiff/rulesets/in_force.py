"""Finds the rule that acts at a node: some rules of a rule set act at a few nodes and leave the others to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gradskip_onnx.autodiff.rules.table import Node, Rule

from .attnlrp import Halved
from .gamma_rule import GammaRule

# The kind of a rule -> whether such a rule acts at a node; where it does not, it is its rule `otherwise`.
ACTS: Mapping[type, Callable[[Any, Node], bool]] = {
    GammaRule: lambda rule, n: bool(rule.gamma_of(n)),
    Halved: lambda rule, n: rule.halves(n),
}


def in_force(rule: Rule, n: Node) -> Rule:
    """The rule itself, or the one that it leaves the node to."""
    acting: Any = rule
    while type(acting) in ACTS and not ACTS[type(acting)](acting, n):
        acting = acting.otherwise
    found: Rule = acting
    return found
