"""Methods that read value times gradient at the pixels or at the tokens, as operators."""

from __future__ import annotations

from dataclasses import replace

from gradskip_onnx.autodiff.scores.seeds import one_hot
from gradskip_onnx.autodiff.sym import Sym
from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.methods.gradients.attnlrp import AttnLrpOptions
from gradskip_onnx.methods.gradients.pe_lrp import PeLrpOptions
from gradskip_onnx.methods.gradients.pixel_gradients import InputGradientOptions
from gradskip_onnx.methods.gradients.value_times_gradient import entrance
from gradskip_onnx.types import Block, Position, Size

from .grids import cell_matrices, grid_of, no_zero, separable
from .table import propagation
from .traced import Traced


@propagation("input-x-gradient")
def input_x_gradient(traced: Traced, options: InputGradientOptions) -> Sym:
    """sum over the channels of x * dy/dx, or of its absolute value, (B, H, W)."""
    product = traced.image() * traced.image_gradient()
    return (product.apply("Abs") if options.absolute else product).sum([1], keepdims=False)


@propagation("attnlrp")
def attnlrp(traced: Traced, options: AttnLrpOptions) -> Sym:
    """sum over the channels of value * gradient, (B, H, W) or on the grid of the first block."""
    return _at_pixels(traced) if options.read == "pixels" else _on_grid(traced, _at_tokens(traced).sum([2]))


@propagation("pe-lrp")
def pe_lrp(traced: Traced, options: PeLrpOptions) -> Sym:
    """Relevance of the pixels plus that of the positional embedding, over the logit of the class."""
    position = traced.architecture.position
    if options.part == "position" and not position:
        raise UnsupportedModelError(
            "no-position", "pe-lrp option part: the model adds no positional embedding to show; use part=image"
        )
    y = no_zero(_logit(traced))
    if options.read == "tokens":
        relevance = _at_tokens(traced)
        if options.part != "both" and position:
            of_position = _of_position(traced, position)
            relevance = of_position if options.part == "position" else relevance - of_position
        norms = (relevance * relevance).sum([2]).apply("Sqrt")
        return _on_grid(traced, norms) / y.apply("Abs")
    parts = [] if options.part == "position" else [_at_pixels(traced)]
    if options.part != "image" and position:
        of_patch = _on_grid(traced, _of_position(traced, position).sum([2]))
        parts.append(over_pixels(of_patch, traced.architecture.input_dims.size))
    total = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    return (total / y).apply("Max", 0)


def _logit(traced: Traced) -> Sym:
    """The logit of the class, or its mean over the explained pixels, (B, 1, 1)."""
    logits, shares = traced.logits(), traced.pixel_shares()
    of_class = logits * one_hot(traced.chosen(), logits)
    if shares is None:
        return of_class.sum([1]).unsqueeze(2)
    return (of_class.sum([1], keepdims=False) * shares).sum([1, 2])


def _at_pixels(traced: Traced) -> Sym:
    """sum over the channels of x * g, (B, H, W)."""
    return (traced.image() * traced.image_gradient()).sum([1], keepdims=False)


def _entrance(traced: Traced) -> Block:
    """The first block, read behind the positional embedding where there is one."""
    first, position = entrance(traced.architecture), traced.architecture.position
    return replace(first, tokens_layout=position.layout) if position else first


def _at_tokens(traced: Traced) -> Sym:
    """t * g behind the positional embedding, (B, n, d)."""
    first = _entrance(traced)
    return traced.tokens(first, "tokens_in") * traced.gradient(first, "tokens_in")


def _of_position(traced: Traced, position: Position) -> Sym:
    """P * g at the patches, (B, n, d)."""
    after = _entrance(traced)
    before = replace(after, tokens_in=position.before)
    added = traced.tokens(after, "tokens_in") - traced.tokens(before, "tokens_in")
    return added * traced.gradient(after, "tokens_in")


def _on_grid(traced: Traced, values: Sym) -> Sym:
    """(B, n, 1) -> (B, rows, columns) of the first block."""
    return values.reshape((values.dims[0], *traced.architecture.grid))


def over_pixels(values: Sym, size: Size) -> Sym:
    """(B, rows, columns) -> (B, H, W): the value of a patch times the patches per pixel, at each of its pixels."""
    rows, columns = grid_of(values)
    share = values * (rows * columns / (size[0] * size[1]))
    return separable(share, *cell_matrices(values.emit, size, (rows, columns)))
