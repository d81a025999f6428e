"""An architecture as tables for people and as a document for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.types import Architecture, Block, Mismatch, Proof

from .console import Voice, plain

FORMAT = 1


def report(voice: Voice, model: Path, architecture: Architecture, *, why: bool) -> None:
    """Everything about a model that can be explained."""
    voice.document(document(model, architecture), single=True)
    channels, height, width = architecture.input_dims
    voice.say(f"model   {model.name}: {architecture.task}")
    voice.say(f"input   {architecture.input}: {channels} channels, {height}x{width} ({architecture.input_layout})")
    voice.say(f"logits  {architecture.logits}: {architecture.classes} classes")
    voice.say("")
    voice.table(block_table(architecture.blocks))
    voice.say("")
    voice.table(proof_table(architecture.proofs) if why else claim_table(architecture.proofs))
    if why and architecture.unmatched:
        voice.say("")
        voice.table(mismatch_table(architecture.unmatched))
    elif architecture.unmatched:
        voice.say(f"{len(architecture.unmatched)} places looked like a block and are none; --why lists them")


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table without frames; columns marked with > hold numbers."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    for name in columns:
        table.add_column(name.strip(">"), justify="right" if name.startswith(">") else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(plain(str(cell))) for cell in row))
    return table


def block_table(blocks: Sequence[Block]) -> Table:
    columns = (">block", ">stage", ">heads", "grid", "special", ">reduction", "attention", "input", "output", "branch")
    rows = [
        (
            block.index,
            block.stage,
            block.heads,
            f"{block.grid[0]}x{block.grid[1]}",
            special_tokens(block),
            block.reduction,
            f"{block.attention} {block.attention_layout}",
            f"{block.tokens_in} {block.tokens_layout}",
            block.tokens_out,
            block.branch,
        )
        for block in blocks
    ]
    return _table(f"{len(blocks)} blocks", columns, rows)


def special_tokens(block: Block) -> str:
    """How many tokens are no patch, and where they stand."""
    positions = ", ".join(map(str, block.special))
    return f"{len(block.special)} (at {positions})" if block.special else "none"


def claim_table(proofs: Sequence[Proof]) -> Table:
    """Each claim once, with the proof that came closest to its bound."""
    worst: dict[str, list[Proof]] = {}
    for proof in proofs:
        worst.setdefault(proof.claim, []).append(proof)
    rows = []
    for claim, group in worst.items():
        closest = max(group, key=lambda proof: proof.measured / proof.bound if proof.bound else proof.measured)
        rows.append((claim, len(group), f"{closest.measured:.2e}", f"{closest.bound:.0e}"))
    return _table("proven on a probe input", ("claim", ">places", ">worst", ">bound"), rows)


def proof_table(proofs: Sequence[Proof]) -> Table:
    rows = [
        (proof.claim, proof.where, f"{proof.measured:.2e}", f"{proof.bound:.0e}", "yes" if proof.holds else "NO")
        for proof in proofs
    ]
    return _table(f"{len(proofs)} proofs", ("claim", "where", ">measured", ">bound", "holds"), rows)


def mismatch_table(mismatches: Sequence[Mismatch]) -> Table:
    rows = [(entry.pattern, entry.node, entry.code, entry.reason) for entry in mismatches]
    return _table(f"{len(rows)} mismatches", ("looked like", "node", "code", "reason"), rows)


def document(model: Path, architecture: Architecture) -> dict[str, Any]:
    """The same as JSON."""
    proofs = [asdict(proof) | {"holds": proof.holds} for proof in architecture.proofs]
    return asdict(architecture) | {
        "format": FORMAT,
        "model": str(model),
        "supported": True,
        "grid": architecture.grid,
        "proofs": proofs,
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
