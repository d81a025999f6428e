"""The table of gradient tests, second part: operators that move, select, convolve or resize."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (the name everybody uses)

from .gradient_models import BATCH as B
from .vjp_cases import I, W, X, case, since, until

# --- layout ----------------------------------------------------------------------------------------------------------

case("Reshape", (W, I([-1, 12])), lambda x, _: x.reshape(-1, 12))
case("Reshape", (W, I([0, 2, 6])), lambda x, _: x.reshape(-1, 2, 6))
case("Reshape", (X((B, 3, B)), I([-1, 3])), lambda x, _: x.transpose(1, 2).transpose(1, 2).reshape(-1, 3))
case("Flatten", X((B, 3, 2, 2)), lambda x: x.flatten(1))
case("Flatten", X((2, 3, 4)), lambda x: x.reshape(6, 4), axis=2)
case("Squeeze", (X((B, 1, 4, 1)), I([1])), lambda x, _: x.squeeze(1))
case("Squeeze", X((2, 1, 4, 1)), lambda x: x.squeeze())
case("Unsqueeze", (X((B, 4)), I([0, -1])), lambda x, _: x[None, ..., None])
case("Transpose", W, lambda x: x.permute(2, 1, 0))
case("Transpose", X((B, 2, 3, 4)), lambda x: x.permute(2, 0, 3, 1), perm=[2, 0, 3, 1])
case("Expand", (X((3, 1)), I([2, 3, 4])), lambda x, _: x.expand(2, 3, 4))
case("Expand", (X((B, 1, 4)), I([1, 3, 1])), lambda x, _: x.expand(B, 3, 4))
case("Tile", (W, I([1, 2, 3])), lambda x, _: x.tile(1, 2, 3))
case("Tile", (X((2, 3)), I([3, 1])), lambda x, _: x.tile(3, 1))
case("Trilu", X((B, 3, 4)), torch.triu, opsets=since(14))
case("Trilu", (X((B, 3, 4)), I(-1)), lambda x, _: torch.tril(x, -1), opsets=since(14), upper=0)


def depth_to_space(x: Any, block: int, mode: str) -> Any:
    b, c, h, w = x.shape
    if mode == "CRD":
        return F.pixel_shuffle(x, block)
    parts = x.reshape(b, block, block, c // block**2, h, w)
    return parts.permute(0, 3, 4, 1, 5, 2).reshape(b, c // block**2, h * block, w * block)


def space_to_depth(x: Any, block: int) -> Any:
    b, c, h, w = x.shape
    parts = x.reshape(b, c, h // block, block, w // block, block)
    return parts.permute(0, 3, 5, 1, 2, 4).reshape(b, c * block**2, h // block, w // block)


for mode in ("DCR", "CRD"):
    case("DepthToSpace", X((B, 8, 2, 3)), lambda x, m=mode: depth_to_space(x, 2, m), blocksize=2, mode=mode)
case("SpaceToDepth", X((B, 2, 4, 6)), lambda x: space_to_depth(x, 2), blocksize=2)

# --- joining and cutting ---------------------------------------------------------------------------------------------

case("Concat", (X((B, 2, 4)), X((B, 1, 4)), X((B, 3, 4))), lambda *x: torch.cat(x, 1), axis=1)
case("Concat", (X((2, 4)), X((3, 4), fixed=True)), lambda *x: torch.cat(x, 0), axis=-2)
case("Split", (X((B, 9)), I([2, 3, 4])), lambda x, _: torch.split(x, [2, 3, 4], 1), outputs=3, axis=1)
case("Split", X((6, 2)), lambda x: torch.split(x, 2, 0), opsets=until(17), outputs=3)
case("Split", X((B, 3, 4)), lambda x: torch.split(x, 2, -1), opsets=since(18), outputs=2, axis=-1, num_outputs=2)
BIG = np.iinfo(np.int64).max
for start, end, axes, steps in [
    ([1], [3], [1], [1]), ([-3], [-1], [-1], [1]), ([0, 1], [BIG, 3], [0, 2], [1, 1]), ([0], [BIG], [1], [2]),
    ([1], [BIG], [2], [3]), ([-1], [-BIG], [2], [-1]), ([5], [0], [2], [-2]), ([2, 1], [0, 6], [1, 2], [-1, 2]),
]:  # fmt: skip

    def cut(x: Any, *_: Any, s: Any = start, e: Any = end, axes: Any = axes, steps: Any = steps) -> Any:
        for first, last, axis, step in zip(s, e, axes, steps, strict=True):
            chosen = range(x.shape[axis])[slice(first, last if abs(last) < BIG else None, step)]
            x = x.index_select(axis, torch.tensor(list(chosen)))
        return x

    case("Slice", (X((B, 4, 7)), I(start), I(end), I(axes), I(steps)), cut)
case("Slice", (X((4, 7)), I([1, 2]), I([3, 6])), lambda x, *_: x[1:3, 2:6])


def padded(x: Any, *_: Any, pads: tuple[int, ...], mode: str = "constant") -> Any:
    """Pads in the order of torch: last axis first."""
    return F.pad(x, pads, mode="replicate" if mode == "edge" else "circular" if mode == "wrap" else mode)


FOUR = X((B, 2, 3, 4))
PADS = I([0, 0, 1, 2, 0, 0, 2, 1])
case("Pad", (FOUR, PADS), lambda *x: padded(*x, pads=(2, 1, 1, 2)))
case("Pad", (FOUR, I([0, 0, -1, 2, 0, 0, 2, -1])), lambda *x: padded(*x, pads=(2, -1, -1, 2)))
case("Pad", (FOUR, PADS, I(0.5, dtype=np.float32)), lambda *x: F.pad(x[0], (2, 1, 1, 2), value=0.5))
case("Pad", (FOUR, I([1, 2, 2, 1]), None, I([2, 3])), lambda *x: padded(*x, pads=(2, 1, 1, 2)), opsets=since(18))
for mode in ("reflect", "edge"):
    case("Pad", (FOUR, PADS), lambda *x, m=mode: padded(*x, pads=(2, 1, 1, 2), mode=m), mode=mode)
case("Pad", (FOUR, PADS), lambda *x: padded(*x, pads=(2, 1, 1, 2), mode="wrap"), opsets=since(19), mode="wrap")

# --- selecting -------------------------------------------------------------------------------------------------------

for fixed in (True, False):
    for index in (0, -1, [0], [1, 2], [2, 0, 0, -1], [[0, 1], [2, 2]]):

        def select(x: Any, index: Any) -> Any:
            flat = index.reshape(-1) % 3
            return x.index_select(1, flat).reshape(x.shape[0], *index.shape, x.shape[2])

        case("Gather", (W, I(index, fixed)), select, axis=1)
case("Gather", (X((3, 4)), I([2, 1], False, np.int32)), lambda x, i: x[i.long()])
case("Gather", (X((B, 4)), I([[2, 0], [10, 2]])), lambda x, i: x[i], opsets=since(16))  # rows of an open batch
ELEMENTS = [[[0, 1, 2, 2], [1, 0, 0, 0]]] * B
case("GatherElements", (W, I(ELEMENTS, False)), lambda x, i: x.gather(1, i), opsets=since(16), axis=1)
case("GatherND", (W, I([[0, 1], [1, 2], [0, 1]], False)), lambda x, i: x[i[:, 0], i[:, 1]], opsets=since(16))
UNIQUE = [[[0, 1, 2, 2], [1, 0, 0, 0]]] * B
for reduction in ("none", "add"):
    case(
        "ScatterElements", (W, I(UNIQUE, False), X((B, 2, 4))), opsets=since(16), axis=1, reduction=reduction,
        oracle=lambda x, i, u, r=reduction: x.scatter_add(1, i, u) if r == "add" else x.scatter(1, i, u),
    )  # fmt: skip
    case(
        "ScatterND", (W, I([[0, 1], [1, 2]], False), X((2, 4))), opsets=since(16), reduction=reduction,
        oracle=lambda x, i, u, r=reduction: x.index_put((i[:, 0], i[:, 1]), u, accumulate=r == "add"),
    )  # fmt: skip
case("ScatterElements", (W, I(UNIQUE, False), X((B, 2, 4))), lambda x, i, u: x.scatter(1, i, u), opsets=(13,), axis=1)

# --- image axes ------------------------------------------------------------------------------------------------------


def conv(x: Any, w: Any, b: Any = None, **k: Any) -> Any:
    return (F.conv1d if x.ndim == 3 else F.conv2d)(x, w, b, **k)


def kernel(*dims: int) -> X:
    return X(dims, fixed=True)


PHOTO = X((B, 4, 8, 9))
case("Conv", (PHOTO, kernel(6, 4, 3, 2)), conv)
case(
    "Conv",
    (PHOTO, kernel(6, 4, 3, 2), X((6,))),
    lambda x, w, b: conv(x, w, b, stride=2, padding=1),
    strides=[2, 2],
    pads=[1] * 4,
)
case("Conv", (PHOTO, kernel(6, 2, 3, 3)), lambda x, w: conv(x, w, stride=(3, 2), groups=2), strides=[3, 2], group=2)
case("Conv", (PHOTO, kernel(4, 1, 3, 3)), lambda x, w: conv(x, w, padding=1, groups=4), pads=[1] * 4, group=4)
case(  # one by one, with more padding on one side than the other, and with holes
    "Conv",
    (PHOTO, kernel(4, 1, 2, 3)),
    lambda x, w: conv(F.pad(x, (4, 1, 0, 1)), w, dilation=(1, 2), groups=4),
    pads=[0, 4, 1, 1], dilations=[1, 2], group=4,
)  # fmt: skip
case(  # padded by more than the kernel reaches
    "Conv", (PHOTO, kernel(4, 1, 2, 2)), lambda x, w: conv(x, w, padding=3, groups=4), pads=[3] * 4, group=4
)
case("Conv", (PHOTO, kernel(4, 1, 3, 3)), lambda x, w: conv(x, w, stride=2, groups=4), strides=[2, 2], group=4)
case("Conv", (PHOTO, kernel(8, 1, 3, 3)), lambda x, w: conv(x, w, padding=1, groups=4), pads=[1] * 4, group=4)
case("Conv", (X((B, 4, 9)), kernel(4, 1, 3)), lambda x, w: conv(x, w, groups=4), group=4)
case("Conv", (PHOTO, kernel(3, 4, 3, 3)), lambda x, w: conv(x, w, dilation=2), dilations=[2, 2])
case("Conv", (PHOTO, kernel(3, 4, 4, 4)), lambda x, w: conv(x, w, stride=4), strides=[4, 4], kernel_shape=[4, 4])
case(
    "Conv", (X((B, 4, 9)), kernel(6, 4, 3)), lambda x, w: conv(F.pad(x, (2, 1)), w, stride=2), strides=[2], pads=[2, 1]
)
case(
    "Conv",
    (PHOTO, kernel(3, 4, 3, 3)),
    lambda x, w: conv(F.pad(x, (1, 1, 0, 1)), w, stride=2),
    strides=[2, 2],
    auto_pad="SAME_UPPER",
)
case(
    "Conv",
    (PHOTO, kernel(3, 4, 3, 3)),
    lambda x, w: conv(F.pad(x, (1, 1, 1, 0)), w, stride=2),
    strides=[2, 2],
    auto_pad="SAME_LOWER",
)
case("Conv", (PHOTO, kernel(3, 4, 3, 3)), conv, auto_pad="VALID")
case("ConvTranspose", (PHOTO, kernel(4, 3, 3, 2)), F.conv_transpose2d)
case(
    "ConvTranspose", (PHOTO, kernel(4, 3, 3, 3), X((6,))), strides=[2, 3], pads=[1] * 4, group=2, output_padding=[1, 2],
    oracle=lambda x, w, b: F.conv_transpose2d(x, w, b, (2, 3), 1, (1, 2), 2),
)  # fmt: skip
case("ConvTranspose", (X((B, 4, 8)), kernel(4, 3, 3)), lambda x, w: F.conv_transpose1d(x, w, dilation=2), dilations=[2])
case("AveragePool", PHOTO, lambda x: F.avg_pool2d(x, 2), kernel_shape=[2, 2], strides=[2, 2])
for include in (0, 1):
    case(
        "AveragePool", PHOTO, lambda x, i=include: F.avg_pool2d(x, 3, 2, 1, count_include_pad=bool(i)),
        kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, count_include_pad=include,
    )  # fmt: skip
case(
    "AveragePool",
    X((B, 4, 8)),
    lambda x: F.avg_pool1d(x, 3, 2, ceil_mode=True),
    kernel_shape=[3],
    strides=[2],
    ceil_mode=1,
)
case("GlobalAveragePool", PHOTO, lambda x: x.mean((2, 3), True))
case("GlobalMaxPool", PHOTO, lambda x: x.amax((2, 3), True))
case("MaxPool", PHOTO, lambda x: F.max_pool2d(x, 2), kernel_shape=[2, 2], strides=[2, 2])
case("MaxPool", PHOTO, lambda x: F.max_pool2d(x, 3, 2, 1), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
case(
    "MaxPool", X((B, 4, 9, 7)), lambda x: F.max_pool2d(x, (2, 3), (3, 1), (1, 0), (1, 2)),
    kernel_shape=[2, 3], strides=[3, 1], pads=[1, 0, 1, 0], dilations=[1, 2],
)  # fmt: skip
case("MaxPool", X((B, 4, 8)), lambda x: F.max_pool1d(x, 3, 1), kernel_shape=[3], strides=[1])
case(
    "MaxPool", X((B, 4, 8)), lambda x: F.max_pool1d(x, 3, 2, ceil_mode=True),
    kernel_shape=[3], strides=[2], ceil_mode=1,
)  # fmt: skip


def sized(h: int, w: int) -> tuple[Any, ...]:
    return PHOTO, None, None, I([B, 4, h, w])


def scaled(h: float, w: float) -> tuple[Any, ...]:
    return PHOTO, None, I([1.0, 1.0, h, w], dtype=np.float32)


for size in ((16, 27), (3, 7), (8, 13)):
    for corners, transform in ((False, "half_pixel"), (True, "align_corners")):
        for mode, name in (("linear", "bilinear"), ("cubic", "bicubic")):
            case(
                "Resize", sized(*size), mode=mode, coordinate_transformation_mode=transform, cubic_coeff_a=-0.75,
                oracle=lambda x, *_, s=size, c=corners, m=name: F.interpolate(x, s, mode=m, align_corners=c),
            )  # fmt: skip
    case(
        "Resize", sized(*size), mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor",
        oracle=lambda x, *_, s=size: F.interpolate(x, s, mode="nearest"),
    )  # fmt: skip
    if size != (3, 7):  # shrinking, ONNX and torch weigh the pixels differently; the models of ONNX test that
        case(
            "Resize", sized(*size), mode="linear", antialias=1, opsets=since(18),
            oracle=lambda x, *_, s=size: F.interpolate(x, s, mode="bilinear", antialias=True),
        )  # fmt: skip


def interpolated(x: Any, axis: int, scale: float) -> Any:
    """Linear interpolation at (i + 1/2) / scale - 1/2, the ends held."""
    size = x.shape[axis]
    at = torch.clamp((torch.arange(int(size * scale)).double() + 0.5) / scale - 0.5, 0, size - 1)
    low = at.floor().long()
    high = torch.clamp(low + 1, max=size - 1)
    share = (at - low).reshape(-1, *(1,) * (x.ndim - 1 - axis))
    return x.index_select(axis, low) * (1 - share) + x.index_select(axis, high) * share


case("Resize", scaled(2.0, 3.0), lambda x, *_: F.interpolate(x, scale_factor=(2, 3), mode="bilinear"), mode="linear")
for factors in ((1.3, 2.3), (1.05, 2.3), (0.6, 1.0)):
    case(
        "Resize", scaled(*factors), mode="linear",
        oracle=lambda x, *_, f=factors: interpolated(interpolated(x, 2, f[0]), 3, f[1]),
    )  # fmt: skip
case(
    "Resize", (PHOTO, None, I([2.0, 1.5], dtype=np.float32)), mode="linear", axes=[2, 3], opsets=since(18),
    oracle=lambda x, *_: F.interpolate(x, scale_factor=(2, 1.5), mode="bilinear"),
)  # fmt: skip
