"""The table of operators: the kinds and the cost of each. All sets of operators elsewhere come from `of_kind`.

To add an operator: a row here, a gradient rule in `autodiff/rules/vjps*.py`, a row in `tests/autodiff/vjp_cases*.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Flag, auto
from types import MappingProxyType

MICROSOFT = "com.microsoft."  # prefix of the operators of that domain; those of ONNX have none


class Kind(Flag):
    """What an operator does; an operator may have several kinds."""

    UNARY = auto()  # elementwise function of one input
    BROADCASTS = auto()  # elementwise function of several inputs, which are broadcast
    COMPARES = auto()  # output is boolean
    STEPS = auto()  # piecewise constant: gradient 0
    GATE = auto()  # bounded function that, as a factor, opens or closes the other factor
    SELF_GATED = auto()  # x F(x) with a gate F
    PICKS = auto()  # each output value is the value of one of the inputs
    MOVES = auto()  # moves or repeats values, changes none
    RELABELS = auto()  # keeps values and their order; only type and shape may change
    MATRIX = auto()  # sums products over an axis
    CONVOLUTION = auto()  # sums products over a window
    INTEGER = auto()  # computes with integers that stand for real numbers
    ADDS = auto()  # the sum of its inputs
    SUMS = auto()  # linear in one input, with weights that follow from the operator alone, such as a mean
    REDUCES = auto()  # reduction along the axes named `axes`
    SPREAD = auto()  # standard deviation or norm that a normalisation divides by
    NORMALISES = auto()  # normalisation
    NORMALISES_ROWS = auto()  # normalisation over the axes from `axis` on; rows before them stay independent
    PROBABILITIES = auto()  # output sums to 1 along `axis`, or is the logarithm of such values
    QUANTISES = auto()  # real numbers to integers
    DEQUANTISES = auto()  # integers to the real numbers they stand for
    READS_SHAPE = auto()  # reads the shape of its input, not its values
    FUSED = auto()  # several operators in one: rewritten before a graph is read


@dataclass(frozen=True, slots=True)
class Operator:
    """One row: kinds, and the cost in operations per output value or per value of the first input.

    A function such as exp or erf counts as one operation. Operators with another cost (products, pooling, ..) have a
    rule in `metrics/flop_rules.py`.
    """

    kinds: Kind
    per_result: int | None = None  # operations per output value
    per_value: int | None = None  # operations per value of the first input


# Short names for the table below.
_K = Kind
_UNARY, _PAIR, _MOVES = Kind.UNARY, Kind.BROADCASTS, Kind.MOVES
_FREE = 0


def _row(kinds: Kind, per_result: int | None = None, *, per_value: int | None = None) -> Operator:
    return Operator(kinds, per_result, per_value)


OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {
        # --- arithmetic ---
        "Add": _row(_PAIR | _K.ADDS, 1),
        "Sum": _row(_PAIR | _K.ADDS),
        "Sub": _row(_PAIR, 1),
        "Mul": _row(_PAIR, 1),
        "Div": _row(_PAIR, 1),
        "Pow": _row(_PAIR, 1),
        "Mod": _row(_PAIR, 1),
        "Mean": _row(_PAIR),
        "Max": _row(_PAIR | _K.PICKS, 1),
        "Min": _row(_PAIR | _K.PICKS, 1),
        "Where": _row(_PAIR | _K.PICKS, 1),
        "Clip": _row(_K.PICKS, 1),
        # --- functions of one variable ---
        "Neg": _row(_UNARY, 1),
        "Abs": _row(_UNARY, 1),
        "Exp": _row(_UNARY, 1),
        "Log": _row(_UNARY, 1),
        "Sqrt": _row(_UNARY | _K.SPREAD, 1),
        "Reciprocal": _row(_UNARY, 1),
        "Sin": _row(_UNARY, 1),
        "Cos": _row(_UNARY, 1),
        "Tan": _row(_UNARY, 1),
        "Asin": _row(_UNARY, 1),
        "Acos": _row(_UNARY, 1),
        "Atan": _row(_UNARY, 1),
        "Sinh": _row(_UNARY, 1),
        "Cosh": _row(_UNARY, 1),
        "Asinh": _row(_UNARY, 1),
        "Acosh": _row(_UNARY, 1),
        "Atanh": _row(_UNARY, 1),
        "Sign": _row(_UNARY | _K.STEPS, 1),
        "Floor": _row(_UNARY | _K.STEPS, 1),
        "Ceil": _row(_UNARY | _K.STEPS, 1),
        "Round": _row(_UNARY | _K.STEPS, 1),
        # --- activations ---
        "Erf": _row(_UNARY | _K.GATE, 1),
        "Tanh": _row(_UNARY | _K.GATE, 1),
        "Sigmoid": _row(_UNARY | _K.GATE, 4),
        "HardSigmoid": _row(_UNARY | _K.GATE, 4),
        "Gelu": _row(_UNARY | _K.SELF_GATED, 5),
        "Swish": _row(_UNARY | _K.SELF_GATED, 5),
        "HardSwish": _row(_UNARY | _K.SELF_GATED, 4),
        "Mish": _row(_UNARY | _K.SELF_GATED, 5),
        "Softsign": _row(_UNARY | _K.SELF_GATED, 3),  # |x|, + 1, x / ..
        "Relu": _row(_UNARY, 1),
        "ThresholdedRelu": _row(_UNARY, 1),
        "LeakyRelu": _row(_UNARY, 2),
        "PRelu": _row(_PAIR, 2),
        "Elu": _row(_UNARY, 2),  # expm1 x, times alpha
        "Selu": _row(_UNARY, 2),
        "Celu": _row(_UNARY, 3),  # as Elu, and x / alpha
        "Softplus": _row(_UNARY, 4),
        "Softmax": _row(_K.PROBABILITIES, 5),
        "LogSoftmax": _row(_K.PROBABILITIES, 5),
        "Hardmax": _row(_K.STEPS, per_value=1),
        # --- truth values ---
        "Equal": _row(_PAIR | _K.COMPARES, 1),
        "Greater": _row(_PAIR | _K.COMPARES, 1),
        "GreaterOrEqual": _row(_PAIR | _K.COMPARES, 1),
        "Less": _row(_PAIR | _K.COMPARES, 1),
        "LessOrEqual": _row(_PAIR | _K.COMPARES, 1),
        "And": _row(_PAIR | _K.COMPARES, 1),
        "Or": _row(_PAIR | _K.COMPARES, 1),
        "Xor": _row(_PAIR | _K.COMPARES, 1),
        "Not": _row(_UNARY | _K.COMPARES, 1),
        "IsNaN": _row(_UNARY | _K.COMPARES, 1),
        "IsInf": _row(_UNARY | _K.COMPARES, 1),
        # --- products ---
        "MatMul": _row(_K.MATRIX),
        "Gemm": _row(_K.MATRIX),
        "Einsum": _row(_K.MATRIX),
        "MatMulInteger": _row(_K.MATRIX | _K.INTEGER),
        "Conv": _row(_K.CONVOLUTION),
        "ConvTranspose": _row(_K.CONVOLUTION),
        "ConvInteger": _row(_K.CONVOLUTION | _K.INTEGER),
        # --- normalisations ---
        "LayerNormalization": _row(_K.NORMALISES | _K.NORMALISES_ROWS, 7),
        "RMSNormalization": _row(_K.NORMALISES | _K.NORMALISES_ROWS, 4),
        "SimplifiedLayerNormalization": _row(_K.NORMALISES | _K.NORMALISES_ROWS | _K.FUSED, 4),
        "BatchNormalization": _row(_K.NORMALISES, 2),
        "InstanceNormalization": _row(_K.NORMALISES, 7),
        "GroupNormalization": _row(_K.NORMALISES, 7),
        "MeanVarianceNormalization": _row(_K.NORMALISES, 5),  # as the others, without scale and bias
        "LpNormalization": _row(_K.NORMALISES, per_value=2),
        # --- reductions, pooling, resampling ---
        "ReduceSum": _row(_K.REDUCES | _K.SUMS, per_value=1),
        "ReduceMean": _row(_K.REDUCES | _K.SUMS, per_value=1),
        "ReduceMax": _row(_K.REDUCES, per_value=1),
        "ReduceMin": _row(_K.REDUCES, per_value=1),
        "ReduceProd": _row(_K.REDUCES, per_value=1),
        "ReduceL1": _row(_K.REDUCES, per_value=2),
        "ReduceL2": _row(_K.REDUCES | _K.SPREAD, per_value=2),
        "ReduceSumSquare": _row(_K.REDUCES, per_value=2),
        "ReduceLogSum": _row(_K.REDUCES, per_value=1),
        "ReduceLogSumExp": _row(_K.REDUCES, per_value=3),
        "ArgMax": _row(_K.STEPS, per_value=1),
        "ArgMin": _row(_K.STEPS, per_value=1),
        "TopK": _row(_K(0), per_value=1),
        "CumSum": _row(_K.SUMS, per_value=1),
        "GlobalAveragePool": _row(_K.SUMS, per_value=1),
        "GlobalMaxPool": _row(_K(0), per_value=1),
        "AveragePool": _row(_K.SUMS),
        "MaxPool": _row(_K(0)),
        "Resize": _row(_K.SUMS),
        # --- moves, shapes and constants: nothing is computed from values ---
        "Identity": _row(_UNARY | _MOVES | _K.RELABELS, _FREE),
        "Cast": _row(_UNARY | _MOVES | _K.RELABELS, _FREE),
        "CastLike": _row(_MOVES | _K.RELABELS, _FREE),
        "Dropout": _row(_MOVES | _K.RELABELS, _FREE),
        "Reshape": _row(_MOVES | _K.RELABELS, _FREE),
        "Flatten": _row(_MOVES | _K.RELABELS, _FREE),
        "Squeeze": _row(_MOVES | _K.RELABELS, _FREE),
        "Unsqueeze": _row(_MOVES | _K.RELABELS, _FREE),
        "Transpose": _row(_MOVES, _FREE),
        "DepthToSpace": _row(_MOVES, _FREE),
        "SpaceToDepth": _row(_MOVES, _FREE),
        "Expand": _row(_MOVES, _FREE),
        "Tile": _row(_MOVES, _FREE),
        "Concat": _row(_MOVES, _FREE),
        "Split": _row(_MOVES, _FREE),
        "Slice": _row(_MOVES, _FREE),
        "Pad": _row(_MOVES, _FREE),
        "Trilu": _row(_MOVES, _FREE),
        "Gather": _row(_MOVES, _FREE),
        "GatherElements": _row(_MOVES, _FREE),
        "GatherND": _row(_MOVES, _FREE),
        "ScatterElements": _row(_K(0)),  # moves or adds, depending on an attribute
        "ScatterND": _row(_K(0)),
        "Shape": _row(_K.READS_SHAPE, _FREE),
        "Size": _row(_K.READS_SHAPE, _FREE),
        "Constant": _row(_K(0), _FREE),
        "ConstantOfShape": _row(_K(0), _FREE),
        "EyeLike": _row(_K(0), _FREE),
        "NonZero": _row(_K(0), _FREE),
        "OneHot": _row(_K(0), _FREE),
        "Range": _row(_K(0), _FREE),
        # --- quantisation ---
        "QuantizeLinear": _row(_K.QUANTISES, 2),
        "DynamicQuantizeLinear": _row(_K.QUANTISES, per_value=3),
        "DequantizeLinear": _row(_K.DEQUANTISES, 2),
        # --- fused: rewritten by graph/rewrite/lowerings*.py ---
        "Attention": _row(_K.FUSED),
        "QLinearConv": _row(_K.FUSED),
        "QLinearMatMul": _row(_K.FUSED),
        **{
            MICROSOFT + name: _row(_K.FUSED, cost)
            for name, cost in {
                "Gelu": 5,
                "BiasGelu": 6,
                "FastGelu": 8,
                "QuickGelu": 5,
                "BiasSoftmax": 5,
                "SkipLayerNormalization": 8,
                "SkipSimplifiedLayerNormalization": 5,
                "QuantizeLinear": 2,
                "DequantizeLinear": 2,
            }.items()
        },
        **{
            MICROSOFT + name: _row(_K.FUSED)
            for name in (
                *("FusedMatMul", "TransposeMatMul", "FusedGemm", "FusedConv", "GemmFastGelu"),
                *("Attention", "MultiHeadAttention", "QAttention"),
                *("QGemm", "MatMulNBits", "MatMulIntegerToFloat", "DynamicQuantizeMatMul"),
                *("QLinearAdd", "QLinearMul", "QLinearConcat", "QLinearSoftmax", "QLinearSigmoid", "QLinearLeakyRelu"),
                *("QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearReduceMean"),
            )
        },
    }
)


def of_kind(kinds: Kind) -> frozenset[str]:
    """The operators of any of these kinds."""
    return frozenset(name for name, operator in OPERATORS.items() if operator.kinds & kinds)
