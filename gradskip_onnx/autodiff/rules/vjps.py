"""THE TABLE, elementwise and linear operators: one short rule each, written like its formula."""

from __future__ import annotations

import math
from functools import reduce

from gradskip_onnx.autodiff import dims as shapes
from gradskip_onnx.autodiff.emit import Sym
from gradskip_onnx.types import Dims

from .table import Gradient, Node, vjp

Out = tuple[Gradient, ...]

ZERO = "zero gradient (piecewise constant)"

# --- arithmetic -----------------------------------------------------------------------------------------------------


@vjp("Identity")
def identity(_: Node, g: Sym) -> Out:
    return (g,)


@vjp("Add")
def add(_: Node, g: Sym) -> Out:
    return g, g


@vjp("Sub")
def sub(_: Node, g: Sym) -> Out:
    return g, -g


@vjp("Mul")
def mul(n: Node, g: Sym) -> Out:
    return _by_factor(n, g, 1), _by_factor(n, g, 0)


def _by_factor(n: Node, g: Sym, index: int) -> Sym:
    """g times an input; a stored number joins the product that made g."""
    number = n.number(index)
    return g * n.x[index] if number is None else g.scaled(number)


@vjp("Div")
def div(n: Node, g: Sym) -> Out:
    number = n.number(1)
    return g / n.x[1] if number is None else g.scaled(1 / number), -(g * n.y / n.x[1])


@vjp("Neg")
def neg(_: Node, g: Sym) -> Out:
    return (-g,)


@vjp("Sum")
def sum_of(n: Node, g: Sym) -> Out:
    return tuple(g for _ in n.x.names)


@vjp("Mean")
def mean_of(n: Node, g: Sym) -> Out:
    return tuple(g * (1 / len(n.x)) for _ in n.x.names)


@vjp("Pow")
def power(n: Node, g: Sym) -> Out:
    """dx = g p x^(p-1), 0 where p = 0; dp = g y log x, 0 where x = 0."""
    x, p = n.x[0], n.x[1]
    exponent = p.cast(g.dtype)
    constant = n.value(1)
    if constant is not None and constant.size == 1 and constant.item() == 2:
        base = 2 * (g * x)
    else:
        base = exponent.equals(0).where(n.emit.const(0, g.dtype), g * exponent * x.apply("Pow", exponent - 1))
    return base, x.equals(0).where(n.emit.const(0, g.dtype), g * n.y * x.apply("Log"))


@vjp("Sqrt")
def sqrt(n: Node, g: Sym) -> Out:
    return (0.5 * (g / n.y),)


@vjp("Reciprocal")
def reciprocal(n: Node, g: Sym) -> Out:
    return (-(g * n.y * n.y),)


@vjp("Exp")
def exp(n: Node, g: Sym) -> Out:
    return (g * n.y,)


@vjp("Log")
def log(n: Node, g: Sym) -> Out:
    return (g / n.x[0],)


@vjp("Abs")
def absolute(n: Node, g: Sym) -> Out:
    return (g * n.x[0].apply("Sign"),)


@vjp("Sign", "Floor", "Ceil", "Round", "Hardmax", note=ZERO)
def stop(n: Node, _: Sym) -> Out:
    return tuple(None for _ in n.x.names)


@vjp("Max", "Min", note="ties share the gradient equally")
def extreme(n: Node, g: Sym) -> Out:
    hits = [x.equals(n.y).cast(g.dtype) for x in n.x]
    share = g / reduce(lambda a, b: a + b, hits)
    return tuple(share * hit for hit in hits)


@vjp("Clip")
def clip(n: Node, g: Sym) -> Out:
    x, low, high = n.x[0], n.x.get(1), n.x.get(2)
    below = None if low is None else x < low
    above = None if high is None else x > high
    inside = g
    for outside in (below, above):
        inside = inside if outside is None else outside.where(n.emit.const(0, g.dtype), inside)
    bounds = [None if outside is None else outside.where(g, 0) for outside in (below, above)]
    return inside, *bounds[: len(n.x) - 1]


@vjp("Where")
def where(n: Node, g: Sym) -> Out:
    return None, n.x[0].where(g, 0), n.x[0].where(n.emit.const(0, g.dtype), g)


@vjp("Cast")
def cast(n: Node, g: Sym) -> Out:
    return (g.cast(n.x[0].real),)


@vjp("CastLike")
def cast_like(n: Node, g: Sym) -> Out:
    return n.first(g.cast(n.x[0].real))


@vjp("Dropout", note="inference only: the identity")
def dropout(n: Node, g: Sym, *mask: Sym | None) -> Out:
    training = n.value(2)
    if n.x.has(2) and (training is None or bool(training.item())):
        raise n.missing("training mode")
    return n.first(n.only_first(g, mask))


# --- functions of one variable --------------------------------------------------------------------------------------


@vjp("Sin")
def sin(n: Node, g: Sym) -> Out:
    return (g * n.x[0].apply("Cos"),)


@vjp("Cos")
def cos(n: Node, g: Sym) -> Out:
    return (-(g * n.x[0].apply("Sin")),)


@vjp("Tan")
def tan(n: Node, g: Sym) -> Out:
    return (g * (1 + n.y * n.y),)


@vjp("Asin")
def asin(n: Node, g: Sym) -> Out:
    return (g / (1 - n.x[0] * n.x[0]).apply("Sqrt"),)


@vjp("Acos")
def acos(n: Node, g: Sym) -> Out:
    return (-(g / (1 - n.x[0] * n.x[0]).apply("Sqrt")),)


@vjp("Atan")
def atan(n: Node, g: Sym) -> Out:
    return (g / (1 + n.x[0] * n.x[0]),)


@vjp("Sinh")
def sinh(n: Node, g: Sym) -> Out:
    return (g * 0.5 * (n.x[0].apply("Exp") + (-n.x[0]).apply("Exp")),)


@vjp("Cosh")
def cosh(n: Node, g: Sym) -> Out:
    return (g * 0.5 * (n.x[0].apply("Exp") - (-n.x[0]).apply("Exp")),)


@vjp("Asinh")
def asinh(n: Node, g: Sym) -> Out:
    return (g / (n.x[0] * n.x[0] + 1).apply("Sqrt"),)


@vjp("Acosh")
def acosh(n: Node, g: Sym) -> Out:
    return (g / (n.x[0] * n.x[0] - 1).apply("Sqrt"),)


@vjp("Atanh")
def atanh(n: Node, g: Sym) -> Out:
    return (g / (1 - n.x[0] * n.x[0]),)


@vjp("Erf")
def erf(n: Node, g: Sym) -> Out:
    return (g * (2 / math.sqrt(math.pi)) * (-(n.x[0] * n.x[0])).apply("Exp"),)


# --- activations ----------------------------------------------------------------------------------------------------


@vjp("Relu")
def relu(n: Node, g: Sym) -> Out:
    """1 where y > 0: y, so that x need not be kept and may be fused away; a product is twice as quick as Where."""
    return ((n.y > 0).cast(g.dtype) * g,)


@vjp("LeakyRelu")
def leaky_relu(n: Node, g: Sym) -> Out:
    return ((n.x[0] > 0).where(g, g * n.attrs.get("alpha", 0.01)),)


@vjp("PRelu")
def p_relu(n: Node, g: Sym) -> Out:
    x, slope = n.x
    return (x > 0).where(g, g * slope), (x > 0).where(n.emit.const(0, g.dtype), g * x)


@vjp("ThresholdedRelu")
def thresholded_relu(n: Node, g: Sym) -> Out:
    return ((n.x[0] > n.attrs.get("alpha", 1.0)).where(g, 0),)


@vjp("Elu")
def elu(n: Node, g: Sym) -> Out:
    """Below zero y = a (e^x - 1), so y' = y + a."""
    return ((n.x[0] > 0).where(g, g * (n.y + n.attrs.get("alpha", 1.0))),)


@vjp("Selu")
def selu(n: Node, g: Sym) -> Out:
    alpha = n.attrs.get("alpha", 1.67326319217681884765625)
    gamma = n.attrs.get("gamma", 1.05070102214813232421875)
    return ((n.x[0] > 0).where(g * gamma, g * (n.y + alpha * gamma)),)


@vjp("Celu")
def celu(n: Node, g: Sym) -> Out:
    return ((n.x[0] > 0).where(g, g * (n.y * (1 / n.attrs.get("alpha", 1.0)) + 1)),)


@vjp("Sigmoid")
def sigmoid(n: Node, g: Sym) -> Out:
    return (g * n.y * (1 - n.y),)


@vjp("HardSigmoid")
def hard_sigmoid(n: Node, g: Sym) -> Out:
    slope = g * n.attrs.get("alpha", 0.2)
    return ((n.y > 0).where((n.y < 1).where(slope, 0), 0),)


@vjp("HardSwish")
def hard_swish(n: Node, g: Sym) -> Out:
    """y = x clip(x/6 + 1/2, 0, 1): y' = 0 for x <= -3, 1 for x >= 3, x/3 + 1/2 between."""
    x = n.x[0]
    return ((x > -3).where((x < 3).where(g * (x * (1 / 3) + 0.5), g), 0),)


@vjp("Tanh")
def tanh(n: Node, g: Sym) -> Out:
    return (g * (1 - n.y * n.y),)


@vjp("Softplus")
def softplus(n: Node, g: Sym) -> Out:
    return (g * n.x[0].apply("Sigmoid"),)


@vjp("Softsign")
def softsign(n: Node, g: Sym) -> Out:
    bound = 1 + n.x[0].apply("Abs")
    return (g / (bound * bound),)


@vjp("Mish")
def mish(n: Node, g: Sym) -> Out:
    """y = x t with t = tanh(softplus x): y' = t + x (1 - t^2) sigmoid x."""
    x = n.x[0]
    t = x.apply("Softplus").apply("Tanh")
    return (g * (t + x * (1 - t * t) * x.apply("Sigmoid")),)


@vjp("Swish")
def swish(n: Node, g: Sym) -> Out:
    """y = x s with s = sigmoid(a x): y' = s + a y (1 - s)."""
    alpha = n.attrs.get("alpha", 1.0)
    s = (n.x[0] * alpha).apply("Sigmoid")
    return (g * (s + alpha * (n.y * (1 - s))),)


@vjp("Gelu")
def gelu(n: Node, g: Sym) -> Out:
    x = n.x[0]
    if n.attrs.get("approximate", "none") == "tanh":
        # y = x (1 + t) / 2, t = tanh(c (x + k x^3)), so y' = (1 + t) / 2 + x (1 - t^2) c (1 + 3 k x^2) / 2
        c, k = math.sqrt(2 / math.pi), 0.044715
        square = x * x
        t = (c * (x * (1 + k * square))).apply("Tanh")
        return (g * (0.5 * (1 + t) + (0.5 * c) * (x * (1 - t * t) * (1 + (3 * k) * square))),)
    # y = x (1 + erf u) / 2 with u = x / sqrt 2: y' = (1 + erf u + 2 / sqrt(pi) u / exp(u^2)) / 2
    u = x * math.sqrt(0.5)
    slope = u.apply("Erf") + (2 / math.sqrt(math.pi)) * (u / (u * u).apply("Exp"))
    return (g.scaled(0.5) * (slope + 1),)


@vjp("Softmax")
def softmax(n: Node, g: Sym) -> Out:
    return (n.y * (g - (g * n.y).sum([n.attrs.get("axis", -1)])),)


@vjp("LogSoftmax")
def log_softmax(n: Node, g: Sym) -> Out:
    return (g - n.y.apply("Exp") * g.sum([n.attrs.get("axis", -1)]),)


# --- products -------------------------------------------------------------------------------------------------------


@vjp("MatMul")
def matmul(n: Node, g: Sym) -> Out:
    a, b = n.x
    if b.rank == 2 and a.rank >= 2:
        return by_matrix(a, b, g)
    if b.rank == 1:
        b, g = b.unsqueeze(1), g.unsqueeze(-1)
    if a.rank == 1:
        a, g = a.unsqueeze(0), g.unsqueeze(-2)
    grad_a, grad_b = g @ b.mT, a.mT @ g
    if n.x[0].rank == 1:
        grad_a = grad_a.squeeze(-2)
    if n.x[1].rank == 1:
        grad_b = grad_b.squeeze(-1)
    return grad_a, grad_b


def by_matrix(a: Sym, b: Sym, g: Sym) -> tuple[Sym, Sym]:
    """Gradients of rows (.., k) times one matrix (k, m), by Gemm: it reads the weight transposed without a copy."""
    rows = shapes.volume(a.dims[:-1])
    flat_a, flat_g = a.reshape((rows, a.dims[-1])), g.reshape((rows, g.dims[-1]))
    grad_a = a.emit.op("Gemm", flat_g, b, dims=flat_a.dims, transB=1).reshape_like(a)
    return grad_a, a.emit.op("Gemm", flat_a, flat_g, dims=b.dims, transA=1)


@vjp("Gemm")
def gemm(n: Node, g: Sym) -> Out:
    return by_gemm(n, n.x[0], n.x[1], g)[: len(n.x)]


def by_gemm(n: Node, a: Sym, b: Sym, g: Sym) -> tuple[Sym, Sym, Sym]:
    """Gradients of Y = alpha A' B' + beta C; A' and B' are A and B, transposed if the attributes of the node say so."""
    alpha, beta = n.attrs.get("alpha", 1.0), n.attrs.get("beta", 1.0)
    ta, tb = n.attrs.get("transA", 0), n.attrs.get("transB", 0)
    op = n.emit.op
    if ta:
        grad_a = op("Gemm", b, g, dims=a.dims, alpha=alpha, transA=tb, transB=1)
    else:
        grad_a = op("Gemm", g, b, dims=a.dims, alpha=alpha, transB=1 - tb)
    if tb:
        grad_b = op("Gemm", g, a, dims=b.dims, alpha=alpha, transA=1, transB=ta)
    else:
        grad_b = op("Gemm", a, g, dims=b.dims, alpha=alpha, transA=1 - ta)
    return grad_a, grad_b, g if beta == 1 else g * beta


@vjp("Einsum", note="no repeated index within one operand")
def einsum(n: Node, g: Sym) -> Out:
    """The gradient of operand i is the einsum of g and all other operands; it is constant along indices of i alone."""
    terms, result = _equation(n)
    if any(len(set(term.replace(".", ""))) < len(term.replace(".", "")) for term in (*terms, result)):
        raise n.missing(f"a repeated index in {n.attrs['equation']!r}")
    operands = list(n.x)
    gradients = []
    for i, (term, operand) in enumerate(zip(terms, operands, strict=True)):
        others = [(t, x) for j, (t, x) in enumerate(zip(terms, operands, strict=True)) if j != i]
        available = set(result).union(*(t for t, _ in others))
        kept = "".join(letter for letter in term if letter in available)
        equation = ",".join([result, *(t for t, _ in others)]) + "->" + kept
        gradients.append(_einsum(equation, [g, *(x for _, x in others)], kept, term, operand))
    return tuple(gradients)


def _equation(n: Node) -> tuple[list[str], str]:
    """The indices of each operand and of the result, which may be implicit in the equation."""
    left, arrow, right = n.attrs["equation"].replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow:
        letters = left.replace(",", "").replace(".", "")
        right = "..." * ("..." in left) + "".join(sorted(x for x in set(letters) if letters.count(x) == 1))
    return terms, right


def _einsum(equation: str, operands: list[Sym], kept: str, term: str, like: Sym) -> Sym:
    """Evaluate `equation`, then insert the indices of `term` that are not in `kept` as axes of size one."""
    sizes: dict[str, Dims] = {}  # per letter; a tuple, since the ellipsis "." stands for several axes
    for labels, operand in zip(equation.partition("->")[0].split(","), operands, strict=True):
        head, dots, tail = labels.partition("...")
        sizes.update((letter, (size,)) for letter, size in zip(head, operand.dims, strict=False))
        sizes.update((letter, (size,)) for letter, size in zip(reversed(tail), reversed(operand.dims), strict=False))
        if dots:
            middle = operand.dims[len(head) : operand.rank - len(tail)]
            sizes["."] = shapes.broadcast(middle, sizes.get(".", ()))
    dims = tuple(size for letter in kept.replace("...", ".") for size in sizes[letter])
    value = like.emit.op("Einsum", *operands, dims=dims, equation=equation)
    absent = [i for i, letter in enumerate(term) if letter not in kept]
    return value.unsqueeze(*absent) if absent else value
