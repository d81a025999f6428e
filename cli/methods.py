"""gradskip-onnx methods: lists methods with cost, inputs and reference, or one method with its options."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from .options import json_option

if TYPE_CHECKING:
    from gradskip_onnx.methods import Cost, Method
    from gradskip_onnx.types import Architecture, Blocks

FORMAT = 1

EXAMPLES = """\b
Examples:
  gradskip-onnx methods                               the table
  gradskip-onnx methods rise                          one method and its options
  gradskip-onnx methods --json | python -m json.tool
  gradskip-onnx explain model.onnx photo.jpg --method rise -O masks=1000
"""

# The fields of Needs in words.
WORDS = {
    "attention": "attention",
    "normed": "normed tokens",
    "tokens_in": "tokens",
    "tokens_out": "tokens",
    "branch": "attention branch",
    "position": "tokens at the positional embedding",
    "input_gradients": "gradient at the pixels",
    "unsigned_input_gradients": "gradient at the pixels, whichever sign the channels have",
    "readout_gradients": "gradient at each attention of its block's own score",
    "attention_relevance": "relevance of each attention",
}
COLUMNS = 80  # of a terminal
GAP = 2  # between columns
DEPTH = 12  # blocks of the example transformer for which the table lists what a method reads


@click.command(epilog=EXAMPLES)
@click.argument("name", required=False)
@json_option
def methods(name: str | None, as_json: bool) -> None:
    """List the methods with their cost in passes, or show the options of the method NAME.

    F is a forward pass, B a backward pass on top of it.
    """
    from gradskip_onnx.methods import every_method, find_method

    from .console import Terminal

    terminal = Terminal(as_json=as_json)
    if name is not None:
        _one(terminal, find_method(name))
        return
    rows = every_method()
    terminal.document({"format": FORMAT, "methods": [document(row) for row in rows]}, single=True)
    width = max(len(row.name) for row in rows) + GAP
    costs = [passes(row.cost(row.options())) for row in rows]
    indent = width + max(map(len, costs)) + GAP
    terminal.print(f"{'method':<{width}}{'passes':<{indent - width}}what it is", style="dim")
    for row, cost in zip(rows, costs, strict=True):
        for line in hanging(f"{row.name:<{width}}{cost:<{indent - width}}", row.summary):
            terminal.print(line)
    terminal.print("")
    terminal.print("gradskip-onnx methods NAME: what a method reads, where it is from, its options")


def hanging(label: str, text: str) -> list[str]:
    """A label and a text beside it as lines of at most COLUMNS characters; a longer word is not cut."""
    space = " " * len(label)
    return wrap(text, COLUMNS, initial_indent=label, subsequent_indent=space, break_long_words=False,
                break_on_hyphens=False)  # fmt: skip


def _one(terminal: Any, row: Method) -> None:
    facts = document(row)
    terminal.document({"format": FORMAT, **facts}, single=True)
    for label, text in (
        ("method", f"{row.name}: {row.summary}"),
        ("passes", " ".join(filter(None, (facts["passes"], f"({facts['note']})" if facts["note"] else "")))),
        ("reads", listed(row, row.options())),
        ("rules", "" if facts["rules"] == "gradient" else f"{facts['rules']}, in place of the gradient"),
        ("from", row.reference),
        ("package", facts["package"]),
    ):
        for line in hanging(f"{label:<8}", text) if text else ():
            terminal.print(line)
    if facts["options"]:
        terminal.print("")
        terminal.print("options, as -O NAME=VALUE", style="bold")
    for one in facts["options"]:
        values = allowed(one)
        for line in hanging("  ", f"{one['name']}={one['default']}" + (f"   allowed: {values}" if values else "")):
            terminal.print(line)
        for line in hanging("      ", one["help"]):
            terminal.print(line)


def document(row: Method) -> dict[str, Any]:
    """A method with its default options, as a document."""
    from dataclasses import fields

    from gradskip_onnx.methods import MethodChoice

    chosen = row.options()
    cost = row.cost(chosen)
    return {
        "name": row.name,
        "summary": row.summary,
        "reference": row.reference,
        "passes": passes(cost),
        "forwards": cost.forwards,
        "backwards": cost.backwards,
        "note": cost.note,
        "needs": reads(row, chosen),
        "rules": row.rules(chosen).name,
        "package": MethodChoice(row, chosen).package,
        "options": [
            {"name": field.name, "default": field.default, "type": type(field.default).__name__, **field.metadata}
            for field in fields(row.options)
        ],
    }


def passes(cost: Cost) -> str:
    """The passes of a map as text, such as "1 F + 1 B"."""
    return f"{cost.forwards} F" + (f" + {cost.backwards} B" if cost.backwards else "")


def reads(row: Method, options: Any) -> list[str]:
    """What a method reads of the first pass through the example transformer, in words, without repetitions."""
    from dataclasses import fields

    from gradskip_onnx.imports.plugins import PluginError
    from gradskip_onnx.methods import MethodChoice

    try:
        needs = MethodChoice(row, options).request(plain_transformer(DEPTH), "logit").needs
    except PluginError:  # a package's method need not know the example
        return ["what it reads cannot be told"]
    found: dict[str, None] = {}
    for field in fields(needs):
        if need := getattr(needs, field.name):
            tensor = field.name.removesuffix("_gradients")
            words = WORDS[field.name] if field.name in WORDS else f"gradient at the {WORDS[tensor]}"
            found[words + (f" ({block_range(need)})" if isinstance(need, tuple) else "")] = None
    return list(found)


def block_range(indices: Blocks) -> str:
    """Consecutive blocks in words, counted from 1."""
    named = {tuple(range(DEPTH)): "all blocks", (0,): "first block", (DEPTH - 1,): "last block"}
    return named.get(indices, f"blocks {indices[0] + 1} to {indices[-1] + 1} of {DEPTH}")


def plain_transformer(depth: int) -> Architecture:
    """The example transformer, without a file: one stage, a class token that the head reads, 14 x 14 patches."""
    from gradskip_onnx.types import Architecture, Block, Grid, ImageDims

    blocks = tuple(
        Block(
            at, 0, f"in{at}", f"out{at}", f"attention{at}", f"branch{at}", f"normed{at}", 12, Grid(14, 14), special=(0,)
        )
        for at in range(depth)
    )
    return Architecture(
        "classification", "image", ImageDims(3, 224, 224), "bchw", "logits", 1000, blocks, patches_read=False
    )


def listed(row: Method, options: Any) -> str:
    return ", ".join(reads(row, options)) or "scores"


def allowed(option: dict[str, Any]) -> str:
    """The allowed values of an option as text, such as "0 .. 1"."""
    if "choices" in option:
        return " | ".join(option["choices"])
    if option["type"] == "bool":
        return "true | false"
    low, high = option.get("low"), option.get("high")
    return f"{'' if low is None else low} .. {'' if high is None else high}".strip()
