"""gradskip-onnx methods: lists methods with cost, inputs and reference, or one method with its options."""

from __future__ import annotations

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
    from .inspect_report import table

    cells = [
        (row.name, passes(row.cost(chosen)), row.summary, listed(row, chosen), row.reference)
        for row in rows
        for chosen in [row.options()]
    ]
    terminal.table(table(f"{len(rows)} methods", ("method", "passes", "what it is", "reads", "reference"), cells))
    terminal.print("")
    terminal.print("gradskip-onnx methods NAME shows the options of a method")


def _one(terminal: Any, row: Method) -> None:
    from .inspect_report import table

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
        if text:
            terminal.print(f"{label:<8}{text}")
    if facts["options"]:
        cells = [(f"{one['name']}={one['default']}", allowed(one), one["help"]) for one in facts["options"]]
        terminal.print("")
        terminal.table(table("options, as -O NAME=VALUE", ("default", "allowed", "what it does"), cells))


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
