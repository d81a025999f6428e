"""Probes: change one pixel or one token of a model and measure what changes with it.

The graph is cut at every block input, so that one session probes all blocks at once and each change stays in its
block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx

from gradskip_onnx.runtime.session import Session
from gradskip_onnx.types import Array, Grid, Proof, Size

from .partial_model import PartialModel

CUT = "gradskip/cut/"
DYNAMIC = "DynamicQuantizeLinear"
PERTURBATION = 3.0  # standard deviations: large enough to be measured in half precision
STILL = 1e-4  # a token that changes by less than this share of the largest change does not change: rounding
Cell = tuple[int, int]  # row and column: of a pixel, or of a token in the grid


@dataclass(frozen=True, slots=True, eq=False)
class CutModel:
    """A model with inputs at its cuts, and the values these tensors have without a change."""

    session: Session
    feeds: Mapping[str, Array]

    def run(self, outputs: Sequence[str], changed: Mapping[str, Array]) -> dict[str, Array]:
        """Run the model with some of its feeds replaced."""
        return self.session.run(outputs, dict(self.feeds) | dict(changed))


def open_cut_model(
    model: PartialModel, cuts: Sequence[str], outputs: Sequence[str], values: Mapping[str, Array]
) -> CutModel:
    """Open a model in which the tensors in `cuts` are inputs; unless replaced they are fed their `values`."""
    fed = {CUT + name: values[name] for name in cuts}
    session = _with_fixed_scales(model, values).open(outputs, {name: CUT + name for name in cuts}, fed)
    read = {entry.name for entry in session.handle.get_inputs()}  # shape arithmetic may still read the image
    feeds = fed | {name: values[name] for name in model.inputs}
    return CutModel(session, {name: value for name, value in feeds.items() if name in read})


def _with_fixed_scales(model: PartialModel, values: Mapping[str, Array]) -> PartialModel:
    """Fix dynamic quantisation to the scales in `values`; otherwise changing one token would round all others anew."""
    nodes: list[onnx.NodeProto] = []
    grids: dict[str, onnx.TensorProto] = {}
    for node in model.nodes:
        if node.op_type == DYNAMIC:
            rounded, *grid = node.output
            node = onnx.helper.make_node("QuantizeLinear", [*node.input, *grid], [rounded], name=node.name)
            grids |= {name: onnx.numpy_helper.from_array(values[name], name) for name in grid}
        nodes.append(node)
    return replace(model, nodes=nodes, stored={**model.stored, **grids})


@dataclass(frozen=True, slots=True)
class TokenGrid:
    """The grid of the patch tokens, and the positions of special tokens, which stand for no place in the image."""

    grid: Grid
    special: tuple[int, ...]
    proofs: tuple[Proof, ...]


def find_token_grid(respond: Callable[[Sequence[Cell | None]], Array], size: Size, where: str) -> TokenGrid | None:
    """Find the grid of the tokens by probes; None if they do not lie on one.

    `respond` takes P cells of a picture of `size` (None: all of it), changes one at a time and returns how far each
    of the N tokens moves, (P, N).
    """
    height, width = size
    everywhere, *corners = respond([None, (0, 0), (0, width - 1), (height - 1, 0), (height - 1, width - 1)])
    moved = everywhere > STILL * everywhere.max()
    patches = np.flatnonzero(moved)
    if not len(patches):
        return None
    nearest = [int(np.argmax(corner[patches])) for corner in corners]
    columns = nearest[1] - nearest[0] + 1
    if columns < 1 or len(patches) % columns:
        return None
    rows = len(patches) // columns
    expected = [0, columns - 1, (rows - 1) * columns, rows * columns - 1]
    wrong = sum(a != b for a, b in zip(nearest, expected, strict=True))
    cells = [(rows // 2, columns // 2), (rows // 3, columns - 1 - columns // 4), (rows - 1 - rows // 4, columns // 3)]
    starts = [(-(-r * height // rows), -(-c * width // columns)) for r, c in cells]
    hits = [divmod(int(np.argmax(move[patches])), columns) for move in respond(starts)]
    away = max(max(abs(r - a), abs(c - b)) for (r, c), (a, b) in zip(cells, hits, strict=True))
    still = float(everywhere[~moved].max(initial=0.0) / everywhere[moved].min())
    proofs = (
        Proof("special tokens do not follow the picture", where, still, STILL),
        Proof("corners of the picture move the corner tokens", where, float(wrong), 0.0),
        # with overlapping patches a neighbour may move most
        Proof("tokens lie row by row", where, float(away), 1.0),
    )
    return TokenGrid(Grid(rows, columns), tuple(int(i) for i in np.flatnonzero(~moved)), proofs)


def perturb(value: Array, rng: np.random.Generator) -> Array:
    """An array like `value`, changed enough to be measured: noise is added to floats, integers are inverted."""
    if value.dtype.kind in "iu":
        return (255 - value).astype(value.dtype)
    spread = float(np.std(value.astype(np.float64))) or 1.0
    return (value + PERTURBATION * spread * rng.standard_normal(value.shape)).astype(value.dtype)


def locality(base: Array, moved: Array, query: tuple[int, ...], key: tuple[int, ...]) -> float:
    """Change of the scores (heads, [windows,] N, M) outside the query's row and the key's column, over that inside."""
    change = np.abs(moved.astype(np.float64) - base).max(axis=0)
    column = (*key[:-1], slice(None), key[-1])
    row_moved = change[query].max()
    change[query] = 0
    column_moved = change[column].max()
    change[column] = 0
    inside = min(row_moved, column_moved) if change.shape[-2] > 1 else row_moved
    return float(change.max() / inside) if inside > 0 else float("inf")
