"""Proves what is claimed of each block: its attention, its context and its residual adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gradskip_onnx.graph.index import Index
from gradskip_onnx.graph.prove.block_values import in_groups, sample_rows, with_rows
from gradskip_onnx.graph.prove.dry_run import DryRun
from gradskip_onnx.graph.prove.partial_model import PartialModel
from gradskip_onnx.graph.prove.probes import open_cut_model
from gradskip_onnx.graph.prove.proofs import prove_attention, prove_stream, rows_suffice
from gradskip_onnx.types import Array, Proof

from .blocks import BlockMatch


def prove_blocks(
    model: PartialModel, found: Sequence[BlockMatch], lookup: Index, values: Mapping[str, Array], dry_run: DryRun
) -> list[Proof]:
    """Prove the claims of each block on the values its tensors have; `values` holds the inputs of all blocks."""
    proofs: list[Proof] = []
    cuts = [entry.skip.skip for entry in found]
    attentions = [entry.match.attention for entry in found]
    rows = {
        entry.match.attention: sample_rows(dry_run.shapes[entry.match.attention])
        for entry in found
        if rows_suffice(entry.match, lookup)
    }
    wanted = [[name for name in _claimed(entry) if name not in values] for entry in found]
    for group in in_groups(len(found), lambda n: sum(map(dry_run.bytes_of, wanted[n]))):
        chosen, names = with_rows(model, {attentions[n]: rows.get(attentions[n]) for n in group})
        shown = {name: names.get(name, name) for n in group for name in wanted[n]}
        outputs = open_cut_model(chosen, cuts, list(shown.values()), values).run(list(shown.values()), {})
        here = {**values, **{name: outputs[read_as] for name, read_as in shown.items()}}
        for n in group:
            proofs += prove_attention(found[n].match, lookup, here, rows.get(attentions[n]))
            proofs += prove_stream([found[n].skip, *found[n].chain], here)
    return proofs


def _claimed(entry: BlockMatch) -> list[str]:
    """The tensors whose values the proofs of a block read."""
    match = entry.match
    names = [match.attention, match.operand, match.value, match.context]
    names += [name for add in (entry.skip, *entry.chain) for name in (add.operand, add.branch, add.out)]
    return list(dict.fromkeys(names))
