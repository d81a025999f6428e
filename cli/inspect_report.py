"""Prints an architecture, as tables for people or as a document for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from gradskip_onnx.errors import UnsupportedModelError, printable
from gradskip_onnx.graph.architecture import Reading
from gradskip_onnx.model_file.metadata import Built
from gradskip_onnx.types import Block, Mismatch, Proof

from .console import Terminal

FORMAT = 1


def report(terminal: Terminal, model: Path, reading: Reading, built: Built | None, *, why: bool) -> None:
    """Print the architecture of a supported model; `why` adds every proof and mismatch."""
    architecture = reading.architecture
    terminal.document(document(model, reading, built), single=True)
    channels, height, width = architecture.input_dims
    terminal.print(f"model   {model.name}: {architecture.task}")
    terminal.print(f"input   {architecture.input}: {channels} channels, {height}x{width} ({architecture.input_layout})")
    terminal.print(f"logits  {architecture.logits}: {architecture.classes} classes")
    for word, text in () if built is None else built_in(built):
        terminal.print(f"{word:<8}{printable(text)}")
    for note in architecture.assumptions:
        terminal.print(f"note    {printable(note)}")
    tables = [block_table(reading), tensor_table(architecture.blocks)]
    tables.append(proof_table(architecture.proofs) if why else claim_table(architecture.proofs))
    if why and architecture.unmatched:
        tables.append(mismatch_table(architecture.unmatched))
    for drawn in tables:
        terminal.print("")
        terminal.table(drawn)
    if architecture.unmatched and not why:
        terminal.print(f"{len(architecture.unmatched)} places looked like a block and are none; --why lists them")


def built_in(built: Built) -> list[tuple[str, str]]:
    """What `build` wrote into a file, in lines of a word and a text."""
    options = ", ".join(f"{name}={value}" for name, value in built.options.items())
    view = [f"{built.top} classes"] if built.top else []
    view += [word for word in ("smoothed", "normalised") if getattr(built, word)]
    made = ", ".join([f"map on the {built.map}", *view, built.precision, f"preprocessing {built.preprocessing}"])
    inputs = ", ".join(f"{word} {name}" for word, name in built.inputs.items() if name)
    outputs = ", ".join(f"{word} {name}" for word, name in built.outputs.items())
    return [
        ("built", f"{built.method}: {options}"),
        ("", f"{made}; score: {built.score}"),
        ("", f"from {built.source}, sha256 {built.source_sha256 or 'unknown'}"),
        ("feeds", inputs),
        ("gives", outputs),
    ]


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table without frames; columns whose name starts with > are right-aligned numbers."""
    drawn = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    for name in columns:
        drawn.add_column(name.strip(">"), justify="right" if name.startswith(">") else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(printable(str(cell))) for cell in row))
    return drawn


def block_table(reading: Reading) -> Table:
    columns = (">block", ">stage", ">heads", "grid", "special", ">reduction", "attention shape", "token shape")
    rows = [
        (
            block.index,
            block.stage,
            block.heads,
            str(block.grid),
            special_tokens(block),
            block.reduction,
            f"{_shape(reading, block.attention)} {block.attention_layout}",
            f"{_shape(reading, block.tokens_in)} {block.tokens_layout}",
        )
        for block in reading.architecture.blocks
    ]
    return table(f"{len(rows)} blocks", columns, rows)


def tensor_table(blocks: Sequence[Block]) -> Table:
    rows = [(block.index, block.attention, block.tokens_in, block.tokens_out, block.branch) for block in blocks]
    return table("tensors", (">block", "attention", "input", "output", "branch"), rows)


def _shape(reading: Reading, tensor: str) -> str:
    """The shape of a tensor in the dry run; B is the batch dimension."""
    return "x".join("B" if size is None else str(size) for size in reading.facts[tensor].dims)


def special_tokens(block: Block) -> str:
    """Number and positions of the tokens that are not patches."""
    positions = ", ".join(map(str, block.special))
    return f"{len(block.special)} (at {positions})" if block.special else "none"


def claim_table(proofs: Sequence[Proof]) -> Table:
    """One row per claim, with the proof that came closest to its bound."""
    worst: dict[str, list[Proof]] = {}
    for proof in proofs:
        worst.setdefault(proof.claim, []).append(proof)
    rows = []
    for claim, group in worst.items():
        closest = max(group, key=lambda proof: proof.measured / proof.bound if proof.bound else proof.measured)
        rows.append((claim, len(group), f"{closest.measured:.2e}", f"{closest.bound:.0e}"))
    return table("proven on a probe input", ("claim", ">places", ">worst", ">bound"), rows)


def proof_table(proofs: Sequence[Proof]) -> Table:
    rows = [
        (proof.claim, proof.where, f"{proof.measured:.2e}", f"{proof.bound:.0e}", "yes" if proof.holds else "NO")
        for proof in proofs
    ]
    return table(f"{len(proofs)} proofs", ("claim", "where", ">measured", ">bound", "holds"), rows)


def mismatch_table(mismatches: Sequence[Mismatch]) -> Table:
    rows = [(entry.pattern, entry.node, entry.code, entry.reason) for entry in mismatches]
    return table(f"{len(rows)} mismatches", ("looked like", "node", "code", "reason"), rows)


def document(model: Path, reading: Reading, built: Built | None) -> dict[str, Any]:
    """The architecture as a document."""
    architecture = reading.architecture
    shapes = {
        name: reading.facts[name].dims
        for block in architecture.blocks
        for name in (block.attention, block.tokens_in, block.tokens_out, block.branch)
    }
    return asdict(architecture) | {
        "format": FORMAT,
        "model": str(model),
        "supported": True,
        "grid": architecture.grid,
        "shapes": shapes,
        "built": None if built is None else asdict(built),
        "proofs": [asdict(proof) | {"holds": proof.holds} for proof in architecture.proofs],
    }


def unsupported_document(model: Path, error: UnsupportedModelError) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "model": str(model),
        "supported": False,
        "code": error.code,
        "reason": str(error),
        "unmatched": [asdict(entry) for entry in error.mismatches],
    }
