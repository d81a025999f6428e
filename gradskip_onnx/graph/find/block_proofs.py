"""Proves what is claimed of each block: its attention, its context and its residual adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradskip_onnx.graph.index import Index
from gradskip_onnx.graph.prove.block_values import in_groups, sample_rows
from gradskip_onnx.graph.prove.chosen_rows import with_rows
from gradskip_onnx.graph.prove.dry_run import DryRun
from gradskip_onnx.graph.prove.partial_model import PartialModel
from gradskip_onnx.graph.prove.probes import open_cut_model
from gradskip_onnx.graph.prove.proofs import prove_attention, prove_stream, rows_suffice
from gradskip_onnx.types import Array, Proof

from .blocks import BlockMatch


def prove_blocks(
    model: PartialModel, found: Sequence[BlockMatch], lookup: Index, values: Mapping[str, Array], dry_run: DryRun
) -> list[Proof]:
    """Prove the claims of each block on the values its tensors have.

    `values` holds the input of each block, and what each of its residual adds gives: the graph is cut there, so that
    the parts between the adds are computed alone.
    """
    proofs: list[Proof] = []
    cuts = list(dict.fromkeys(name for entry in found for name in (entry.skip.skip, *_outs(entry))))
    looks = [_Look.of(entry, lookup, dry_run) for entry in found]
    for group in in_groups(len(found), lambda n: looks[n].bytes_in(dry_run)):
        rows = {name: numbers for n in group for name, numbers in looks[n].rows.items()}
        chosen, names = with_rows(model, rows, dry_run.shapes, cuts)
        outputs = open_cut_model(chosen, cuts, list(names.values()), values).run(list(names.values()), {})
        here = {**values, **{name: outputs[read_as] for name, read_as in names.items()}}
        for n in group:
            proofs += prove_attention(found[n].match, lookup, here)
            proofs += prove_stream([found[n].skip, *found[n].chain], here)
    return proofs


@dataclass(frozen=True, slots=True, eq=False)
class _Look:
    """The tensors that the proofs of a block read, and the rows of each (None: all)."""

    rows: Mapping[str, Array | None]

    @classmethod
    def of(cls, entry: BlockMatch, lookup: Index, dry_run: DryRun) -> _Look:
        match, shapes = entry.match, dry_run.shapes
        numbers = sample_rows(shapes[match.attention]) if rows_suffice(match, lookup, shapes) else None
        rows: dict[str, Array | None] = {match.value: None}
        rows |= dict.fromkeys((match.attention, match.operand, match.context), numbers)
        for add in (entry.skip, *entry.chain):
            names = (add.operand, add.branch, add.out)
            by_token = all(shapes[name][-2:-1] == shapes[match.attention][-2:-1] for name in names)
            rows |= dict.fromkeys(names, numbers if by_token else None)
        return cls(rows)

    def bytes_in(self, dry_run: DryRun) -> int:
        """What the tensors take, with these rows alone."""
        shares = {
            name: 1 if numbers is None else len(numbers) / dry_run.shapes[name][-2]
            for name, numbers in self.rows.items()
        }
        return round(sum(share * dry_run.bytes_of(name) for name, share in shares.items()))


def _outs(entry: BlockMatch) -> list[str]:
    return [add.out for add in (entry.skip, *entry.chain)]
