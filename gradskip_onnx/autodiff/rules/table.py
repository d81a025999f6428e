"""The table of gradient rules; a rule is a function of the forward node and the gradients of its outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

from gradskip_onnx.autodiff.emit import Emit, Sym
from gradskip_onnx.autodiff.partial_gradients import Piece
from gradskip_onnx.autodiff.stored_weights import as_stored
from gradskip_onnx.errors import MissingRuleError
from gradskip_onnx.types import Array

Gradient = Sym | Piece | None
Rule = Callable[..., tuple[Gradient, ...]]

VJPS: dict[str, Rule] = {}
NOTES: dict[str, str] = {}

STANDARD_DOMAINS = ("", "ai.onnx", None)


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """The inputs of a node by position; for an optional input that may be missing use `get`."""

    emit: Emit
    names: tuple[str, ...]

    def __getitem__(self, index: int) -> Sym:
        return as_stored(self.emit.sym(self.names[index]))

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Sym]:
        return (self[index] for index in range(len(self.names)))

    def get(self, index: int) -> Sym | None:
        return self[index] if self.has(index) else None

    def has(self, index: int) -> bool:
        return index < len(self.names) and bool(self.names[index])


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A forward node as a rule reads it: inputs `x`, names of outputs `ys`, first output `y`, attributes."""

    emit: Emit
    op: str
    name: str
    attrs: Mapping[str, Any]
    x: Inputs
    ys: tuple[str, ...]
    needs_gradient: tuple[bool, ...]  # per input: whether its gradient is used
    activations: Set[str]  # tensors whose values depend on the image; the others are weights

    @property
    def y(self) -> Sym:
        return self.emit.sym(self.ys[0])

    @property
    def opset(self) -> int:
        return self.emit.opset

    def varies(self, index: int) -> bool:
        """Whether the values of an input depend on the image."""
        return self.x.has(index) and self.x.names[index] in self.activations

    def value(self, index: int) -> Array | None:
        """The value of an input that is a small constant, else None."""
        return self.emit.value(self.x.names[index]) if self.x.has(index) else None

    def number(self, index: int) -> float | None:
        """The value of an input that is one stored number other than 0, else None."""
        if any(size != 1 for size in self.emit.sym(self.x.names[index]).dims):
            return None  # an activation: looking for its value would walk back through the whole graph
        found = self.value(index)
        return float(found.item()) if found is not None and found.size == 1 and found.item() else None

    def first(self, g: Gradient) -> tuple[Gradient, ...]:
        """The gradients of all inputs if only the first has one, `g`; the others are axes, shapes or indices."""
        return (g, *(None for _ in range(len(self.x) - 1)))

    def missing(self, what: str) -> MissingRuleError:
        """The error for a use of this operator that its rule does not cover."""
        return MissingRuleError(
            f"the gradient rule for {self.op} does not cover {what} (node {self.name!r}, opset {self.opset}); "
            f"extend the rule, or replace it with @vjp({self.op!r})"
        )

    def only_first(self, g: Sym | None, others: tuple[Sym | None, ...]) -> Sym:
        """`g`, after checking that no gradient comes from a secondary output."""
        if g is None or any(other is not None for other in others):
            raise self.missing("a gradient through its secondary outputs")
        return g


def vjp(*ops: str, note: str = "", table: dict[str, Rule] | None = None) -> Callable[[Rule], Rule]:
    """Register the vector-Jacobian product of one or more operators.

    The rule is called with the node and one gradient per output (None for an output that does not reach the score) and
    returns one gradient per input (None for an input without one). The engine sums gradients over broadcast axes.
    `table` is the table to register in; the default is that of the true gradient.
    """

    def register(rule: Rule) -> Rule:
        for op in ops:
            (VJPS if table is None else table)[op] = rule
            if note and table is None:
                NOTES[op] = note
        return rule

    return register


def missing_rule(op: str, node: str, opset: int) -> MissingRuleError:
    return MissingRuleError(f"no gradient rule for {op} (node {node!r}, opset {opset}); add one with @vjp({op!r})")
