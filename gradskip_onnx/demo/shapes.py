"""The forms in scenes, as signed distance functions (negative inside) scaled to the same area."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, reduce

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Form = Callable[[Array, Array], Array]  # (x, y) -> distance; y points down, as in images

AREA = 1.5  # of every form after normalisation, so that neither size nor amount of colour tells forms apart
REACH = 1.18  # no normalised form leaves the disc of this radius (a test checks it)


def disc(cx: float, cy: float, radius: float) -> Form:
    return lambda x, y: np.hypot(x - cx, y - cy) - radius


def union(*forms: Form) -> Form:
    return lambda x, y: reduce(np.minimum, (form(x, y) for form in forms))


def common(*forms: Form) -> Form:
    return lambda x, y: reduce(np.maximum, (form(x, y) for form in forms))


def without(form: Form, hole: Form) -> Form:
    return lambda x, y: np.maximum(form(x, y), -hole(x, y))


def polygon(*corners: tuple[float, float], rounding: float = 0.06) -> Form:
    """A polygon with rounded corners: distance to the nearest edge, signed by the parity of the edges to the right."""

    def distance(x: Array, y: Array) -> Array:
        nearest = np.full(np.broadcast_shapes(x.shape, y.shape), np.inf)
        inside = np.zeros(nearest.shape, bool)
        for (ax, ay), (bx, by) in zip(corners, corners[1:] + corners[:1], strict=True):
            ex, ey = bx - ax, by - ay
            along = np.clip(((x - ax) * ex + (y - ay) * ey) / (ex * ex + ey * ey), 0.0, 1.0)
            nearest = np.minimum(nearest, (x - ax - along * ex) ** 2 + (y - ay - along * ey) ** 2)
            if ey != 0.0:
                inside ^= ((ay > y) != (by > y)) & (x < ax + (y - ay) * (ex / ey))
        return np.asarray(np.where(inside, -1.0, 1.0) * np.sqrt(nearest) - rounding)

    return distance


def ring_of(points: int, outer: float, inner: float | None = None) -> list[tuple[float, float]]:
    """Corners of a regular polygon, or of a star if `inner` is given; the first one points up."""
    radii = [outer] if inner is None else [outer, inner]
    total = points * len(radii)
    angles = [2.0 * np.pi * k / total for k in range(total)]
    return [(radii[k % len(radii)] * np.sin(a), -radii[k % len(radii)] * np.cos(a)) for k, a in enumerate(angles)]


PLANTED: dict[str, Form] = {
    "arrow": polygon((-1, -0.24), (0.0, -0.24), (0.0, -0.7), (1, 0), (0.0, 0.7), (0.0, 0.24), (-1, 0.24)),
    "bolt": polygon(
        (-0.2, -0.95), (-0.68, 0.18), (-0.06, 0.18), (-0.26, 1), (0.68, -0.24), (0.14, -0.24), (0.42, -0.95),
        rounding=0.03,
    ),
    "cross": polygon(
        (-0.3, -0.9), (0.3, -0.9), (0.3, -0.3), (0.9, -0.3), (0.9, 0.3), (0.3, 0.3),
        (0.3, 0.9), (-0.3, 0.9), (-0.3, 0.3), (-0.9, 0.3), (-0.9, -0.3), (-0.3, -0.3),
    ),
    "fish": union(
        common(disc(-0.2, 0.45, 0.92), disc(-0.2, -0.45, 0.92)),
        polygon((0.36, 0.0), (0.86, -0.46), (0.74, 0.0), (0.86, 0.46)),
    ),
    "heart": union(
        disc(-0.4, -0.3, 0.45),
        disc(0.4, -0.3, 0.45),
        polygon((-0.74, -0.08), (-0.3, -0.25), (0, -0.32), (0.3, -0.25), (0.74, -0.08), (0, 0.85)),
    ),
    "house": polygon(
        (0, -0.9), (0.35, -0.55), (0.35, -0.85), (0.6, -0.85), (0.6, -0.3), (0.95, 0.05), (0.62, 0.05), (0.62, 0.8),
        (0.2, 0.8), (0.2, 0.3), (-0.2, 0.3), (-0.2, 0.8), (-0.62, 0.8), (-0.62, 0.05), (-0.95, 0.05),
    ),
    "moon": without(disc(0, 0, 1), disc(0.5, -0.12, 0.78)),
    "star": polygon(*ring_of(5, 1.0, 0.46)),
}  # fmt: skip

DISTRACTORS: dict[str, Form] = {
    "chevron": polygon((-0.7, -0.8), (0.05, -0.8), (0.75, 0), (0.05, 0.8), (-0.7, 0.8), (0.0, 0)),
    "disc": disc(0, 0, 1),
    "flower": union(*(disc(x, y, 0.4) for x, y in ring_of(6, 0.55)), disc(0, 0, 0.5)),
    "half": without(disc(0, 0.4, 1), polygon((-2, 0.46), (2, 0.46), (2, 3), (-2, 3))),
    "hexagon": polygon(*ring_of(6, 1.0)),
    "hourglass": polygon((-0.7, -0.85), (0.7, -0.85), (0.2, 0), (0.7, 0.85), (-0.7, 0.85), (-0.2, 0)),
    "pill": polygon((-0.6, 0), (0.6, 0), (0.6, 0.001), (-0.6, 0.001), rounding=0.4),
    "ring": without(disc(0, 0, 1), disc(0, 0, 0.5)),
    "square": polygon((-0.8, -0.8), (0.8, -0.8), (0.8, 0.8), (-0.8, 0.8)),
    "triangle": polygon(*ring_of(3, 1.0)),
}

FORMS: dict[str, Form] = PLANTED | DISTRACTORS


@cache
def scale(name: str) -> float:
    """The factor that scales a form to the area `AREA`, measured by counting the cells of a fine lattice inside it."""
    cells = 320
    axis: Array = (np.arange(cells, dtype=np.float64) + 0.5) * (3.2 / cells) - 1.6
    inside = np.count_nonzero(FORMS[name](axis[None, :], axis[:, None]) < 0.0)
    return float(np.sqrt(AREA / (inside * (3.2 / cells) ** 2)))


def distance(name: str, x: Array, y: Array) -> Array:
    """Signed distance of points (x, y) to the normalised form."""
    factor = scale(name)
    return FORMS[name](x / factor, y / factor) * factor
