"""The table of methods that can be written into a graph: the name of a method and the function that writes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradskip_onnx.autodiff.sym import Sym

from .traced import Traced

# (tensors of the pass, options of the method) -> scores (B, rows, columns), float32, on the grid that the method's own
# function gives them. That function, in NumPy, is the reference.
Propagation = Callable[[Traced, Any], Sym]

INGRAPH: dict[str, Propagation] = {}


def propagation(name: str) -> Callable[[Propagation], Propagation]:
    """Add a function to the table, under the name of its method."""

    def add(function: Propagation) -> Propagation:
        if name in INGRAPH:
            raise ValueError(f"method {name!r} is written into graphs twice")
        INGRAPH[name] = function
        return function

    return add
