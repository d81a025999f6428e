"""Questions put to the model itself: move one pixel or one token and see what moves with it.

The graph is cut at every block input, so that one small session answers for all blocks at once and each answer
concerns one block alone.
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
STIR = 3.0  # standard deviations: large enough to be seen in half precision
STILL = 1e-4  # a token that moves by less than this share of the others does not move: rounding
Cell = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Bench:
    """The cut model and the values it had at the cuts."""

    session: Session
    feeds: Mapping[str, Array]

    def ask(self, outputs: Sequence[str], changed: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs when some of the feeds are replaced."""
        return self.session.run(outputs, dict(self.feeds) | dict(changed))


def open_bench(model: PartialModel, cuts: Sequence[str], outputs: Sequence[str], values: Mapping[str, Array]) -> Bench:
    """A model in which the tensors named in `cuts` are fed where they are read; at first they keep their `values`."""
    fed = {CUT + name: values[name] for name in cuts}
    session = _held(model, values).open(outputs, {name: CUT + name for name in cuts}, fed)
    read = {entry.name for entry in session.handle.get_inputs()}  # shape arithmetic may still read the picture
    feeds = fed | {name: values[name] for name in model.inputs}
    return Bench(session, {name: value for name, value in feeds.items() if name in read})


def _held(model: PartialModel, values: Mapping[str, Array]) -> PartialModel:
    """Grids found from the whole tensor keep the scale they had: moving one token would shift the rounding of all."""
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
    """Where tokens lie: their grid and the positions of those that stand for no place."""

    grid: Grid
    special: tuple[int, ...]
    proofs: tuple[Proof, ...]


def find_token_grid(respond: Callable[[Sequence[Cell | None]], Array], size: Size, where: str) -> TokenGrid | None:
    """Read the token grid off the model.

    `respond` moves one cell of a picture of `size` (None: all of it) and returns how far each token moved, (P, N).
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
        # overlapping patches may answer for a neighbour
        Proof("tokens lie row by row", where, float(away), 1.0),
    )
    return TokenGrid(Grid(rows, columns), tuple(int(i) for i in np.flatnonzero(~moved)), proofs)


def stir(value: Array, rng: np.random.Generator) -> Array:
    """Another value of the same kind, far enough from the first to be told apart."""
    if value.dtype.kind in "iu":
        return (255 - value).astype(value.dtype)
    spread = float(np.std(value.astype(np.float64))) or 1.0
    return (value + STIR * spread * rng.standard_normal(value.shape)).astype(value.dtype)


def locality(base: Array, moved: Array, query: tuple[int, ...], key: tuple[int, ...]) -> float:
    """What moved in the scores (heads, [windows,] N, M) outside a query's row and a key's column, against inside."""
    change = np.abs(moved.astype(np.float64) - base).max(axis=0)
    column = (*key[:-1], slice(None), key[-1])
    row_moved = change[query].max()
    change[query] = 0
    column_moved = change[column].max()
    change[column] = 0
    inside = min(row_moved, column_moved) if change.shape[-2] > 1 else row_moved
    return float(change.max() / inside) if inside > 0 else float("inf")
