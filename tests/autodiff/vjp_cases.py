"""The table of gradient tests: operator, inputs, attributes, and the same function in torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (the name everybody uses)

from .gradient_models import BATCH as B

OPSETS = (13, 17, 18, 20, 21)  # where the form of an emitted node changes, and the ends of the range


@dataclass(frozen=True)
class X:
    """A random input; `fixed` makes it a weight, which gets no gradient."""

    dims: tuple[int, ...]
    low: float = -2.0
    high: float = 2.0
    fixed: bool = False


@dataclass(frozen=True)
class I:  # noqa: E742 (an index, next to X)
    """An input of integers or flags; `fixed` stores it in the model."""

    value: Any
    fixed: bool = True
    dtype: type = np.int64


@dataclass(frozen=True)
class Case:
    op: str
    inputs: tuple[X | I | None, ...]
    oracle: Callable[..., Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    opsets: tuple[int, ...] = OPSETS
    outputs: int = 1
    dynamic: bool = True  # also with an unknown batch size


CASES: list[Case] = []


def case(op: str, inputs: Any, oracle: Any, opsets: Any = OPSETS, outputs: int = 1, dynamic: bool = True, **attrs: Any):
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    CASES.append(Case(op, inputs, oracle, attrs, tuple(opsets), outputs, dynamic))


def since(first: int) -> tuple[int, ...]:
    return tuple(sorted({first, *(opset for opset in OPSETS if opset > first)}))


def until(last: int) -> tuple[int, ...]:
    return tuple(opset for opset in OPSETS if opset <= last)


W = X((B, 3, 4))
POSITIVE = X((B, 3, 4), 0.3, 3.0)
UNIT = X((B, 3, 4), -0.9, 0.9)

# --- arithmetic, with every kind of broadcasting ---------------------------------------------------------------------

for a, b in [
    ((B, 3, 4), (B, 3, 4)),
    ((B, 3, 4), (4,)),
    ((B, 1, 4), (3, 1)),
    ((1, 4), (B, 3, 4)),
    ((), (B, 2)),
    ((B, 2), ()),
]:
    case("Add", (X(a), X(b)), torch.add)
    case("Sub", (X(a), X(b)), torch.sub)
    case("Mul", (X(a), X(b)), torch.mul)
    case("Div", (X(a), X(b, 0.5, 2.0)), torch.div)
    case("Sum", (X(a), X(b), X(a)), lambda x, y, z: x + y + z)
    full = X(np.broadcast_shapes(a, b))  # first: the reference implementation cannot stretch its first operand
    case("Mean", (full, X(a), X(b)), lambda x, y, z: (x + y + z) / 3)
    case("Max", (X(a), X(b)), torch.maximum)
    case("Min", (X(a), X(b)), torch.minimum)
case("Mul", (W, X((4,), fixed=True)), torch.mul)
case("Max", (W,), lambda x: x * 1)
case("Max", (W, X((4,)), X((3, 1))), lambda x, y, z: torch.maximum(torch.maximum(x, y), z))
case("Min", (W, X((4,)), X((3, 1))), lambda x, y, z: torch.minimum(torch.minimum(x, y), z))
case("Max", (W, W), lambda x, y: torch.maximum(x.round(), y.round()) * 0 + torch.maximum(x, y))
case("Pow", (POSITIVE, X((4,), -1.5, 2.5)), torch.pow)
case("Pow", (W, I(2.0, dtype=np.float32)), torch.pow)
case("Pow", (W, I(3.0, dtype=np.float32)), torch.pow)
case("Pow", (POSITIVE, I(-0.5, dtype=np.float32)), torch.pow)
case("Pow", (W, I(0.0, dtype=np.float32)), torch.pow)
case("Pow", (W, I(2)), torch.pow)
case("Pow", (POSITIVE, I([0, 1, 2, 3], fixed=False)), torch.pow)
case("Neg", W, torch.neg)
case("Sqrt", POSITIVE, torch.sqrt)
case("Reciprocal", POSITIVE, torch.reciprocal)
case("Exp", W, torch.exp)
case("Log", POSITIVE, torch.log)
case("Abs", W, torch.abs)
case("Erf", W, torch.erf)
for op in ("Sign", "Floor", "Ceil", "Round"):
    case(op, W, getattr(torch, op.lower()))
case("Hardmax", W, lambda x: F.one_hot(x.argmax(-1), 4).double() + 0 * x)
case("Identity", W, torch.clone)
case("Cast", W, lambda x: x.float().double(), to=1)
case("CastLike", (W, X((1,), fixed=True)), lambda x, _: x * 1, opsets=since(15))
case("Dropout", W, torch.clone)
case("Dropout", (W, I(0.3, dtype=np.float32), I(False, dtype=bool)), lambda x, *_: x * 1)
case("Where", (I([True, False, True, True], False, bool), W, X((3, 1))), torch.where)
case("Where", (I([[True], [False], [True]], True, bool), X((4,)), W), torch.where)
case("Clip", (W, X((), -1.0, -0.5), X((), 0.5, 1.0)), torch.clamp)
case("Clip", (W, I(-0.7, dtype=np.float32)), lambda x, low: torch.clamp(x, min=low))
case("Clip", (W, None, I(0.6, dtype=np.float32)), lambda x, _, high: torch.clamp(x, max=high))
case("Clip", W, torch.clone)

# --- functions of one variable ---------------------------------------------------------------------------------------

for op in ("Sin", "Cos", "Tan", "Atan", "Sinh", "Cosh", "Asinh", "Tanh", "Sigmoid"):
    case(op, UNIT, getattr(torch, op.lower()))
for op in ("Asin", "Acos", "Atanh"):
    case(op, UNIT, getattr(torch, op.lower()))
case("Acosh", X((B, 3, 4), 1.2, 3.0), torch.acosh)
case("Softplus", W, F.softplus)
case("Softsign", W, F.softsign)
case("Relu", W, F.relu)
case("LeakyRelu", W, lambda x: F.leaky_relu(x, 0.01))
case("LeakyRelu", W, lambda x: F.leaky_relu(x, 0.3), alpha=0.3)
case("PRelu", (W, X((4,), 0.1, 0.5)), lambda x, s: torch.where(x > 0, x, s * x))
case("PRelu", (X((B, 3, 2, 4)), X((3, 1, 1), 0.1, 0.5)), lambda x, s: F.prelu(x, s.reshape(3)))
case("ThresholdedRelu", W, lambda x: F.threshold(x, 1.0, 0.0))
case("ThresholdedRelu", W, lambda x: F.threshold(x, 0.4, 0.0), alpha=0.4)
case("Elu", W, F.elu)
case("Elu", W, lambda x: F.elu(x, 0.5), alpha=0.5)
case("Selu", W, F.selu)
case("Celu", W, lambda x: F.celu(x, 1.0))
case("Celu", W, lambda x: F.celu(x, 0.4), alpha=0.4)
case("HardSigmoid", X((B, 3, 4), -6, 6), F.hardsigmoid, alpha=1 / 6, beta=0.5)
case("HardSigmoid", X((B, 3, 4), -6, 6), lambda x: torch.clamp(0.2 * x + 0.5, 0, 1))
case("HardSwish", X((B, 3, 4), -6, 6), F.hardswish, opsets=since(14))
case("Mish", W, F.mish, opsets=since(18))
case("Swish", W, F.silu, opsets=(24,))
case("Swish", W, lambda x: x * torch.sigmoid(1.7 * x), opsets=(24,), alpha=1.7)
case("Gelu", W, F.gelu, opsets=since(20))
case("Gelu", W, lambda x: F.gelu(x, approximate="tanh"), opsets=since(20), approximate="tanh")
for axis in (-1, 1, 0):
    case("Softmax", X((2, 3, 4)), lambda x, axis=axis: F.softmax(x, axis), axis=axis)
    case("LogSoftmax", X((2, 3, 4)), lambda x, axis=axis: F.log_softmax(x, axis), axis=axis)
case("Softmax", W, lambda x: F.softmax(x, -1))

# --- products --------------------------------------------------------------------------------------------------------

for a, b in [
    ((2, 3), (3, 4)), ((B, 2, 3), (3, 4)), ((B, 6, 2, 3), (3, 4)), ((B, 6, 2, 3), (B, 6, 3, 4)),
    ((6, 1, 2, 3), (B, 3, 4)), ((2, 3), (B, 3, 4)), ((3,), (3, 4)), ((2, 3), (3,)), ((3,), (3,)),
    ((3,), (B, 3, 4)), ((B, 2, 3), (3,)),
]:  # fmt: skip
    case("MatMul", (X(a), X(b)), torch.matmul)
case("MatMul", (X((B, 2, 3)), X((3, 4), fixed=True)), torch.matmul)


def gemm(
    a: Any, b: Any, c: Any = 0.0, alpha: float = 1.0, beta: float = 1.0, ta: bool = False, tb: bool = False
) -> Any:
    return alpha * (a.T if ta else a) @ (b.T if tb else b) + beta * c


for ta in (0, 1):
    for tb in (0, 1):
        shapes = (X((3, B) if ta else (B, 3)), X((4, 3) if tb else (3, 4)))
        for c in (X((4,)), X((B, 1)), X(()), X((B, 4))):
            case(
                "Gemm", (*shapes, c), lambda a, b, c, ta=ta, tb=tb: gemm(a, b, c, 0.5, 2.0, ta, tb),
                alpha=0.5, beta=2.0, transA=ta, transB=tb,
            )  # fmt: skip
        case("Gemm", shapes, lambda a, b, ta=ta, tb=tb: gemm(a, b, ta=ta, tb=tb), transA=ta, transB=tb)
EQUATIONS: list[tuple[Any, ...]] = [
    ("bij,bjk->bik", (B, 2, 3), (B, 3, 4)), ("bhid,bhjd->bhij", (B, 2, 3, 4), (B, 2, 6, 4)),
    ("ij,jk", (2, 3), (3, 4)), ("...ij,...jk->...ik", (B, 6, 2, 3), (B, 1, 3, 4)), ("ij,j->", (2, 3), (3,)),
    ("bij->bji", (B, 2, 3)), ("bij->b", (B, 2, 3)), ("i,j->ij", (2,), (3,)), ("ij,ij,j->i", (2, 3), (2, 3), (3,)),
    ("ijk,l->il", (2, 3, 4), (6,)),
]  # fmt: skip
for equation, *shape in EQUATIONS:
    case("Einsum", tuple(X(dims) for dims in shape), lambda *x, eq=equation: torch.einsum(eq, *x), equation=equation)

# --- normalisations --------------------------------------------------------------------------------------------------

LN = since(17)
case("LayerNormalization", (W, X((4,)), X((4,))), lambda x, w, b: F.layer_norm(x, [4], w, b), opsets=LN)
case("LayerNormalization", (W, X((4,))), lambda x, w: F.layer_norm(x, [4], w, None, 1e-3), opsets=LN, epsilon=1e-3)
case("LayerNormalization", (W, X((3, 4)), X((3, 4))), lambda x, w, b: F.layer_norm(x, [3, 4], w, b), opsets=LN, axis=1)
case(
    "LayerNormalization",
    (W, X((4,), fixed=True), X((4,), fixed=True)),
    lambda x, w, b: F.layer_norm(x, [4], w, b),
    opsets=LN,
)
IMAGE = X((B, 4, 3, 2))
case("InstanceNormalization", (IMAGE, X((4,)), X((4,))), lambda x, w, b: F.instance_norm(x, weight=w, bias=b))
case(
    "InstanceNormalization",
    (W, X((3,)), X((3,))),
    lambda x, w, b: F.instance_norm(x, weight=w, bias=b, eps=1e-3),
    epsilon=1e-3,
)
case(
    "GroupNormalization", (IMAGE, X((2,)), X((2,))), opsets=(18, 20), num_groups=2,
    oracle=lambda x, w, b: F.group_norm(x, 2, w.repeat_interleave(2), b.repeat_interleave(2)),
)  # fmt: skip
case(
    "GroupNormalization",
    (IMAGE, X((4,)), X((4,))),
    lambda x, w, b: F.group_norm(x, 2, w, b),
    opsets=(21,),
    num_groups=2,
)


def normalised(x: Any, w: Any, b: Any, m: Any, v: Any) -> Any:
    w, b, m, v = (vector[:, None, None] for vector in (w, b, m, v))
    return (x - m) / (v + 1e-5).sqrt() * w + b


case(
    "BatchNormalization", (IMAGE, X((4,)), X((4,)), X((4,)), X((4,), 0.5, 2.0)),
    normalised,
)  # fmt: skip
case("RMSNormalization", (W, X((4,))), lambda x, w: F.rms_norm(x, [4], w, 1e-5), opsets=(23,))
case(
    "RMSNormalization", (W, X((3, 4))), lambda x, w: F.rms_norm(x, [3, 4], w, 1e-2), opsets=(23,), axis=1, epsilon=1e-2
)
case(
    "MeanVarianceNormalization", IMAGE, lambda x: (x - x.mean((0, 2, 3), True)) / x.std((0, 2, 3), False, keepdim=True)
)
for p in (1, 2):
    for axis in (-1, 1):
        case("LpNormalization", W, lambda x, p=p, axis=axis: F.normalize(x, p, axis, 0), p=p, axis=axis)

# --- reductions ------------------------------------------------------------------------------------------------------

REDUCTIONS: dict[str, tuple[X, Callable[..., Any]]] = {
    "ReduceSum": (W, lambda x, d, k: x.sum(d, k)),
    "ReduceMean": (W, lambda x, d, k: x.mean(d, k)),
    "ReduceMax": (W, lambda x, d, k: x.amax(d, k)),
    "ReduceMin": (W, lambda x, d, k: x.amin(d, k)),
    "ReduceProd": (POSITIVE, lambda x, d, k: x.log().sum(d, k).exp()),
    "ReduceL1": (W, lambda x, d, k: x.abs().sum(d, k)),
    "ReduceL2": (W, lambda x, d, k: x.pow(2).sum(d, k).sqrt()),
    "ReduceSumSquare": (W, lambda x, d, k: x.pow(2).sum(d, k)),
    "ReduceLogSum": (POSITIVE, lambda x, d, k: x.sum(d, k).log()),
    "ReduceLogSumExp": (W, lambda x, d, k: x.logsumexp(d, k)),
}
for op, (x, function) in REDUCTIONS.items():
    for axes, keep in (([-1], 1), ([1, 2], 0), ([0], 1)):
        oracle = lambda x, *_, f=function, d=axes, k=keep: f(x, d, bool(k))  # noqa: E731
        if op != "ReduceSum":
            case(op, x, oracle, opsets=until(17), axes=axes, keepdims=keep)
        case(op, (x, I(axes)), oracle, opsets=OPSETS if op == "ReduceSum" else since(18), keepdims=keep)
    case(op, x, lambda x, f=function: f(x, [0, 1, 2], True))
    case(op, x, lambda x, f=function: f(x, [0, 1, 2], False), keepdims=0)
case("ReduceSum", W, lambda x: x * 1, noop_with_empty_axes=1)
case(
    "ReduceProd",
    (I([[0.0, 2.0, 3.0], [0.0, 0.0, 5.0], [1.0, 4.0, 2.0]], False, np.float32), I([1])),
    lambda x, _: x.prod(1, True),
    opsets=since(18),
)
for exclusive in (0, 1):
    for reverse in (0, 1):

        def cumulative(x: Any, *_: Any, exclusive: int = exclusive, reverse: int = reverse) -> Any:
            x = x.flip(1) if reverse else x
            total = x.cumsum(1) - (x if exclusive else 0)
            return total.flip(1) if reverse else total

        case("CumSum", (W, I(1)), cumulative, exclusive=exclusive, reverse=reverse)
