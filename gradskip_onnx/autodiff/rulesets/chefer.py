"""The relevance rules of Chefer, Gur and Wolf (CVPR 2021), "Transformer Interpretability Beyond Attention
Visualization": layers share by positive contributions, products by halves, sums by the totals of their branches.
"""

from __future__ import annotations

from functools import reduce

from gradskip_onnx.autodiff.emit import Sym
from gradskip_onnx.autodiff.rules.table import Gradient, Node, Rule, vjp

from .gates import PRODUCTS, own_signals
from .linear import Linear
from .relevance import RELEVANCE, STABILISER, over, to_signals

Out = tuple[Gradient, ...]

HALF = 2  # bytes
SMALLEST_HALF = 6.2e-5  # stabiliser in half precision, where STABILISER would be 0: about the smallest normal number

CHEFER: dict[str, Rule] = dict(RELEVANCE)


@vjp(*PRODUCTS, table=CHEFER)
def product(n: Node, r: Sym) -> Out:
    if n.varies(0) and n.varies(1):
        return of_activations(n, r)
    at = 0 if n.varies(0) else 1
    relevance = of_layer(Linear(n, at), r)
    return tuple(relevance if index == at else None for index in range(len(n.x)))


def of_layer(f: Linear, r: Sym) -> Sym:
    """Positive contributions only: S = R / (x+ W+ + x- W-), R_x = x+ (S W+) + x- (S W-); the bias gets nothing.

    An output without positive contributions needs no guard: S is large there, but it is multiplied by 0.
    """
    plus = f.x.apply("Relu"), f.weight.apply("Relu")
    minus = f.x - plus[0], f.weight - plus[1]
    smallest = STABILISER if r.dtype.itemsize > HALF else SMALLEST_HALF
    s = r / (f.apply(*plus) + f.apply(*minus) + smallest)
    return plus[0] * f.back(s, plus[1]) + minus[0] * f.back(s, minus[1])


def of_activations(n: Node, r: Sym) -> Out:
    """y = a b: S = R / y, R_a = a (S b^T) / 2, R_b = b (a^T S) / 2."""
    f = Linear(n, 0), Linear(n, 1)
    s = over(r, f[0].product)
    shares = [0.5 * (factor.x * factor.back(s, factor.weight)) for factor in f]
    return (*shares, *(None for _ in range(len(n.x) - 2)))


@vjp("Add", "Sub", "Sum", table=CHEFER)
def add(n: Node, r: Sym) -> Out:
    """Shares r_i = x_i R / y, each scaled so that its sum over an image is sum R times |sum r_i| / sum_j |sum r_j|."""
    at = own_signals(n)
    if len(at) == 1:
        return to_signals(n, [r])
    s = over(r, n.y)
    terms = [-n.x[i] if n.op == "Sub" and i == 1 else n.x[i] for i in at]
    shares = [term * s for term in terms]
    sums = [per_image(n, part) for part in shares]
    sizes = [part.apply("Abs") for part in sums]
    whole, total = reduce(lambda a, b: a + b, sizes), per_image(n, r)
    return to_signals(
        n,
        [
            part * over(over(size, whole) * total, sum_of)
            for part, size, sum_of in zip(shares, sizes, sums, strict=True)
        ],
    )


def per_image(n: Node, x: Sym) -> Sym:
    """The sum over all axes but that of the images."""
    batch = next(n.emit.sym(tensor.name).dims[0] for tensor in n.emit.graph.inputs if tensor.name in n.emit.facts)
    if batch == 1:
        return x.sum(range(x.rank))
    images = next((axis for axis, size in enumerate(x.dims) if size == batch), None)
    if images is None:
        raise n.missing("a sum in which no axis counts the images")
    return x.sum([axis for axis in range(x.rank) if axis != images])
