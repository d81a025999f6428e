"""The frozen objects that flow through the pipeline, in the order in which they are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import onnx

Array = np.ndarray[Any, np.dtype[Any]]
Dims = tuple[int | None, ...]  # None: the dimension follows the batch size
Size = tuple[int, int]  # height and width in pixels, or rows and columns of tokens
ImageLayout = Literal["bchw", "bhwc"]  # axes of the model's input: b image, c channel, h row, w column
TaskName = Literal["classification", "segmentation"]  # rows of tasks.TASKS
Blocks = tuple[int, ...]  # indices of blocks, in rising order

EMPTY: Mapping[str, Any] = MappingProxyType({})
AUTOMATIC = -1  # as a target the predicted class, as a region the pixels predicted as the class


class Grid(NamedTuple):
    """Where the patches of an image lie, row by row."""

    rows: int
    columns: int

    @property
    def patches(self) -> int:
        """How many patches there are."""
        return self.rows * self.columns

    def reduced(self, side: int) -> Grid:
        """The grid of squares of `side` x `side` patches; what is left over at the edges is in none."""
        return Grid(self.rows // side, self.columns // side)

    def covers(self, other: Grid) -> bool:
        """Whether it is at least as fine as another, in both directions."""
        return self.rows >= other.rows and self.columns >= other.columns

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}"


class ImageDims(NamedTuple):
    """One image as the model takes it, whatever the order of its axes."""

    channels: int
    height: int
    width: int

    @property
    def size(self) -> Size:
        return self.height, self.width


def read_only(array: Array) -> Array:
    """A view of `array` that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A model file as it was given; large weights stay in files of `folder` until somebody needs them."""

    name: str
    sha256: str
    opset: Mapping[str, int]
    model: onnx.ModelProto
    folder: Path | None = None
    given: onnx.ModelProto | None = None  # the file before it was converted to a newer opset, if it had to be
    others: tuple[Path, ...] = ()  # weight files beside the model


@dataclass(frozen=True, slots=True)
class TensorFact:
    """Shape and element type of one tensor, seen in a dry run."""

    dims: Dims
    dtype: np.dtype[Any]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Something that looked like `pattern` and was not taken for it."""

    pattern: str
    node: str
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Proof:
    """A claim about the graph and the number measured for it on a probe input."""

    claim: str
    where: str
    measured: float
    bound: float

    @property
    def holds(self) -> bool:
        return bool(self.measured <= self.bound)


@dataclass(frozen=True, slots=True)
class Block:
    """One transformer block; the names are tensors of the model, the layouts say what their axes are.

    Layout letters: b image, w window, n token, y x rows and columns of tokens, d channel, h head, q query, k key;
    letters in parentheses share an axis, the first of them varying slowest.
    """

    index: int
    stage: int
    tokens_in: str
    tokens_out: str
    attention: str
    branch: str  # what the attention adds to the residual stream
    normed: str  # what the attention reads: tokens_in after the norm in front of it, or tokens_in itself
    heads: int
    grid: Grid
    reduction: int = 1  # each key stands for a square of this many tokens a side
    special: tuple[int, ...] = ()  # positions of tokens that are no patch (class, distillation, registers)
    tokens_layout: str = "bnd"
    output_layout: str = "bnd"  # of tokens_out: models may hold the stream as a grid here and as a list there
    attention_layout: str = "bhqk"
    # Attention inside windows: the token each query (and key) of each window stands for, -1 for padding.
    windows: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Position:
    """The addition of the positional embedding: tokens before and after it, their layout and special tokens."""

    before: str
    after: str
    layout: str
    special: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Architecture:
    """What the graph turned out to be; every claim in it has a proof."""

    task: TaskName
    input: str
    input_dims: ImageDims
    input_layout: ImageLayout
    logits: str
    classes: int
    blocks: tuple[Block, ...]
    proofs: tuple[Proof, ...] = ()
    unmatched: tuple[Mismatch, ...] = ()
    position: Position | None = None
    patches_read: bool = True  # whether the score reads patches of the last block, and not only its special tokens

    @property
    def grid(self) -> Grid:
        """The finest token grid: that of the first block."""
        return self.blocks[0].grid

    @property
    def every_block(self) -> Blocks:
        """The indices of all blocks."""
        return tuple(block.index for block in self.blocks)

    @property
    def first_block(self) -> Blocks:
        """The index of the first block alone."""
        return self.every_block[:1]

    @property
    def last_block(self) -> Blocks:
        """The index of the last block alone."""
        return self.every_block[-1:]


@dataclass(frozen=True, slots=True)
class Needs:
    """What a method wants to see of a pass, by the indices of the blocks; nobody else decides what is exposed."""

    attention: Blocks = ()
    tokens_in: Blocks = ()
    tokens_out: Blocks = ()
    branch: Blocks = ()
    normed: Blocks = ()
    attention_gradients: Blocks = ()
    tokens_in_gradients: Blocks = ()
    tokens_out_gradients: Blocks = ()
    branch_gradients: Blocks = ()
    normed_gradients: Blocks = ()
    input_gradients: bool = False  # at the pixels
    position: bool = False  # tokens before and after the positional embedding, gradients after; where there is one
    readout_gradients: bool = False  # at each attention, of the score that the head gives that block's tokens
    attention_relevance: str = ""  # of the logit, at each attention, by the table of rules of this name


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How to ask a model that shows what a method needs; maps go from model tensor to output name."""

    logits: str
    values: Mapping[str, str]
    gradients: Mapping[str, str]
    readouts: Mapping[str, str] = field(default_factory=lambda: EMPTY)  # gradients of the blocks' own scores
    relevances: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    target_input: str | None = None  # (B,) int64, negative: the predicted class
    region_input: str | None = None  # (B, h, w) float32 pixel weights, negative: the pixels predicted as the class
    target_output: str | None = None  # (B,) int64, the class whose score was differentiated


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Instrumented(Plan):
    """A plan with the model it is for: a copy of the one given, whose outputs are what a method needs."""

    model: onnx.ModelProto
    folder: Path | None


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """One image's pass, in canonical order: tokens (N, d), attention (heads, N, keys) or (heads, windows, q, k).

    Gradients lie in the order of what they belong to; that of the image is (channels, height, width).
    """

    input: Array  # (channels, height, width), as fed to the model
    logits: Array  # (classes,) or (classes, h, w)
    target: int
    values: Mapping[str, Array]
    gradients: Mapping[str, Array]
    readouts: Mapping[str, Array] = field(default_factory=lambda: EMPTY)  # attention -> gradient, `readout_gradients`
    relevances: Mapping[str, Array] = field(default_factory=lambda: EMPTY)  # attention -> its `attention_relevance`


@dataclass(frozen=True, slots=True, eq=False)
class BlockFacts:
    """What happened to the relevance at one block, for those who must check it."""

    index: int
    head_weights: tuple[float, ...]
    flow: tuple[float, ...]
    gini: tuple[float, ...]
    gate: float  # share of the branch; the skip path gets the rest


@dataclass(frozen=True, slots=True, eq=False)
class Relevance:
    """Scores of one image: one for each patch, or one for each pixel where a method reaches them."""

    scores: Array  # (rows, columns)
    method: str = ""  # who made it and how: filled in by `MethodChoice.run`, so that a method need not know its name
    options: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    checks: Mapping[str, float] = field(default_factory=lambda: EMPTY)
    blocks: tuple[BlockFacts, ...] = ()
    notes: tuple[str, ...] = ()
