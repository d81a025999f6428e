"""Prints docs/operators.md from the table of rules and the table of tests: `python -m tests.autodiff.operator_docs`."""

from __future__ import annotations

from gradskip_onnx.autodiff import GRADIENT, RULESETS
from gradskip_onnx.autodiff.rules.table import NOTES

from . import vjp_cases_layout  # noqa: F401  (adds its rows to CASES)
from .quantised_chains import CHAINS
from .quantised_chains import OPSETS as CHAIN_OPSETS
from .vjp_cases import CASES

INTRODUCTION = """# Operators with a gradient rule

This page is generated: `python -m tests.autodiff.operator_docs > docs/operators.md`.

Each operator below has one row in `gradskip_onnx/operators.py` (what it is, what it costs) and one rule in
`gradskip_onnx/autodiff/rules/vjps*.py`. Every rule is compared with PyTorch's float64 autograd at the opsets listed,
with fixed shapes and with an unknown batch size, in float32 on ONNX Runtime, in float64 and, for the operators of
vision transformers, in float16 (`tests/autodiff/test_vjps.py`); and with finite differences on the operator test models
of the `onnx` package (`tests/autodiff/test_onnx_operator_models.py`). Rules for quantised tensors take rounding
straight through and are compared with a torch twin that does the same (`tests/autodiff/test_quantised_gradients.py`).

The rules emit standard ONNX operators only. At opsets 13 to 21 each emitted operator has a CUDA kernel in ONNX Runtime
(`tests/autodiff/test_cuda_kernels.py`); at opset 22 and 23 ONNX Runtime would run ConvTranspose, MaxPool, Sin, Cos and
Softplus on the CPU.

An operator that is not listed raises an error which names the operator and the node. To add a rule:

```python
from gradskip_onnx.autodiff import vjp

@vjp("Reciprocal")
def reciprocal(n, g):            # n: the forward node (inputs n.x, output n.y, attributes n.attrs); g: gradient of n.y
    return (-(g * n.y * n.y),)   # one gradient per input, None for an input without one
```
"""


def page() -> str:
    """The whole page."""
    opsets: dict[str, set[int]] = {op: set() for op in GRADIENT}
    for case in CASES:
        opsets[case.op].update(case.opsets)
    for chain in CHAINS.values():
        for op in chain.ops:
            opsets[op].update(CHAIN_OPSETS)
    rows = [f"| {op} | {', '.join(map(str, sorted(opsets[op])))} | {NOTES.get(op, '')} |" for op in sorted(GRADIENT)]
    table = [f"{len(rows)} operators:", "", "| operator | opsets tested | notes |", "|---|---|---|", *rows]
    return "\n".join([INTRODUCTION, *table, "", *rule_sets()]) + "\n"


def rule_sets() -> list[str]:
    """A line for each variant: which rules it replaces, or has at all."""
    lines = ["## Rule sets", "", "`gradient` is the table above; the others replace some of its rules:", ""]
    own = []
    for name, rules in ((name, table()) for name, table in RULESETS.items()):
        replaced = ", ".join(sorted(op for op, rule in rules.items() if GRADIENT.get(op) is not rule))
        if set(rules) != set(GRADIENT):
            moved = ", ".join(sorted(op for op, rule in rules.items() if GRADIENT.get(op) is rule))
            own += ["", f"`{name}` carries relevance in place of gradients and has no other rules than these:", ""]
            own += [f"- as for gradients, because they move values: {moved};", f"- its own: {replaced}."]
        elif replaced:
            lines.append(f"- `{name}`: {replaced}.")
    return lines + own


if __name__ == "__main__":
    print(page(), end="")
