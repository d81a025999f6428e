"""The frozen objects that flow through the pipeline, in the order in which they are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
CHANNELS = (3, 1, 4)  # numbers of channels of an image
ImageLayout = Literal["bchw", "bhwc"]  # axes of the model's input: b image, c channel, h row, w column
TaskName = Literal["classification", "segmentation"]  # rows of tasks.TASKS
Blocks = tuple[int, ...]  # indices of blocks, in rising order

EMPTY: Mapping[str, Any] = MappingProxyType({})
AUTOMATIC = -1  # a target of -1 is the predicted class; a region of -1, the pixels predicted as that class


class Grid(NamedTuple):
    """Rows and columns of the patches of an image; patches are counted row by row."""

    rows: int
    columns: int

    @property
    def patches(self) -> int:
        """How many patches there are."""
        return self.rows * self.columns

    def reduced(self, side: int) -> Grid:
        """The grid of squares of `side` x `side` patches; patches left over at the edges belong to none."""
        return Grid(self.rows // side, self.columns // side)

    def covers(self, other: Grid) -> bool:
        """Whether this grid has at least as many rows and as many columns as `other`."""
        return self.rows >= other.rows and self.columns >= other.columns

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}"


class ImageDims(NamedTuple):
    """Channels and pixels of the model's input image; the order of its axes is an `ImageLayout`."""

    channels: int
    height: int
    width: int

    @property
    def size(self) -> Size:
        return self.height, self.width


def image_layout(sizes: Sequence[int | None]) -> ImageLayout:
    """The layout of an image input from the sizes of its last three axes: the usual one, unless only the last fits."""
    return "bhwc" if sizes[0] not in CHANNELS and sizes[2] in CHANNELS else "bchw"


def read_only(array: Array) -> Array:
    """A view of `array` that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A loaded model file; large weights stay in files of `folder` until they are read."""

    name: str
    sha256: str
    opset: Mapping[str, int]
    model: onnx.ModelProto
    folder: Path | None = None
    before_upgrade: onnx.ModelProto | None = None  # the file as it is on disk, if its opset had to be converted
    others: tuple[Path, ...] = ()  # weight files beside the model


@dataclass(frozen=True, slots=True)
class TensorFact:
    """Shape and element type of one tensor, measured in a dry run."""

    dims: Dims
    dtype: np.dtype[Any]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A near miss: a node that resembles `pattern` but fails a check; `code` is a stable word for `reason`."""

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
    """One transformer block: names of its tensors in the model, and layouts that say what their axes mean.

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
    output_layout: str = "bnd"  # of tokens_out: a model may hold tokens as a list inside a block and as a grid after it
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
    """The vision transformer found in a graph; `proofs` holds a measurement for each claim."""

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
    assumptions: tuple[str, ...] = ()  # what the file does not say and was taken for granted, or says wrongly

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
    """Tensors and gradients that a method reads, by block index; a plan exposes these and nothing else."""

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
    unsigned_input_gradients: bool = False  # at the pixels, with the size of each embedding channel's relevance
    position: bool = False  # tokens before and after the positional embedding, if there is one; gradients after it
    # At each attention, of the score that the head gives to that block's "tokens", or to their "mean" in place of each.
    readout_gradients: Literal["", "tokens", "mean"] = ""
    attention_relevance: str = ""  # rule set for the relevance of the logit at each attention; empty: none


@dataclass(frozen=True, slots=True)
class Maker:
    """A small model with one output, which makes a large tensor from small outputs of a plan."""

    model: str  # serialised, in base64: plans are kept as text
    inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Inputs and outputs of an instrumented model; mappings go from a tensor of the model to an output.

    An output with a maker is none of the model: it is made from others when a method asks for it.
    """

    logits: str
    values: Mapping[str, str]
    gradients: Mapping[str, str]
    readouts: Mapping[str, str] = field(default_factory=lambda: EMPTY)  # gradients of the blocks' own scores
    relevances: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    unsigned: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    target_input: str | None = None  # (B,) int64, negative: the predicted class
    region_input: str | None = None  # (B, h, w) float32 pixel weights, negative: the pixels predicted as the class
    target_output: str | None = None  # (B,) int64, the class whose score was differentiated
    makers: Mapping[str, Maker] = field(default_factory=lambda: EMPTY)  # large output -> how it is made
    large: bool = False  # whether there are large tensors that are not held: a pass is made for little memory


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Instrumented(Plan):
    """A plan and its model: a copy of the original whose outputs are what a method needs."""

    model: onnx.ModelProto
    folder: Path | None


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """One pass of one image. Tokens are (N, d), attention is (heads, N, keys) or (heads, windows, q, k).

    A gradient has the axes of its tensor; that of the image is (channels, height, width). A mapping may make a large
    array each time it is looked up: keep no more of them than one block needs.
    """

    input: Array  # (channels, height, width), as fed to the model
    logits: Array  # (classes,) or (classes, h, w)
    target: int
    values: Mapping[str, Array]
    gradients: Mapping[str, Array]
    readouts: Mapping[str, Array] = field(default_factory=lambda: EMPTY)  # attention -> its `readout_gradients`
    relevances: Mapping[str, Array] = field(default_factory=lambda: EMPTY)  # attention -> its `attention_relevance`
    unsigned: Mapping[str, Array] = field(default_factory=lambda: EMPTY)  # image -> its `unsigned_input_gradients`


@dataclass(frozen=True, slots=True, eq=False)
class BlockFacts:
    """How relevance passed through one block; reported so that a map can be checked."""

    index: int
    head_weights: tuple[float, ...]
    flow: tuple[float, ...]
    gini: tuple[float, ...]
    gate: float  # share of the branch; the skip path gets the rest


@dataclass(frozen=True, slots=True, eq=False)
class Relevance:
    """Scores of one image: one per patch, or one per pixel for methods that attribute to pixels."""

    scores: Array  # (rows, columns)
    method: str = ""  # who made it and how: filled in by `MethodChoice.run`, so that a method need not know its name
    options: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    checks: Mapping[str, float] = field(default_factory=lambda: EMPTY)
    blocks: tuple[BlockFacts, ...] = ()
    notes: tuple[str, ...] = ()
