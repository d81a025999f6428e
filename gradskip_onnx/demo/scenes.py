"""Draws images with exactly known evidence: clutter and distractors, and one planted object whose form is the class.

Position, size, tilt, colour and texture of all objects come from the same distributions, and the planted one is chosen
afterwards; distractor forms are never classes. So only the form of the planted object tells the class.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .shapes import DISTRACTORS, PLANTED, REACH, Array, distance

CLASSES: tuple[str, ...] = tuple(PLANTED)
SIZE = 96  # pixels; everything is drawn in units of the side, so another size shows the same picture

OBJECTS = (5, 8)  # fewest and most objects; those that find no free place are dropped
UNIT = (0.110, 0.150)  # length of one unit of a form, as a fraction of the side
TILT = 0.3  # largest rotation, radians
CONFETTI = 20
TRIES = 40
EDGE = 0.012  # free border around the picture

INKS = np.array(
    [
        (255, 107, 107), (255, 159, 67), (254, 211, 48), (163, 217, 119), (38, 222, 169),
        (72, 202, 228), (116, 160, 255), (186, 139, 255), (255, 140, 200), (240, 236, 226),
    ]
) / 255.0  # fmt: skip
GROUNDS = np.array(
    [
        (22, 33, 62), (20, 54, 66), (42, 36, 78), (58, 30, 62), (28, 62, 56),
        (70, 44, 52), (48, 58, 74), (34, 76, 92), (66, 62, 48), (78, 52, 88),
    ]
) / 255.0  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """One image, its class, and the mask of exactly those pixels that the planted object touches."""

    image: NDArray[np.uint8]  # (size, size, 3)
    label: int
    mask: NDArray[np.bool_]  # (size, size)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Many scenes, stacked."""

    images: NDArray[np.uint8]  # (n, size, size, 3)
    labels: NDArray[np.int64]  # (n,)
    masks: NDArray[np.bool_]  # (n, size, size)


@dataclass(frozen=True, slots=True)
class _Thing:
    """One object before it is drawn; lengths are fractions of the side."""

    form: str
    x: float
    y: float
    unit: float
    tilt: float
    mirror: float
    ink: int
    texture: int
    phase: float


def scene(seed: int, size: int = SIZE, *, label: int | None = None) -> Scene:
    """The scene of a seed; `label` plants that class instead, and leaves everything else unchanged."""
    things, planted = _arrange(seed)
    chosen = label_of(seed) if label is None else label
    canvas = _backdrop(seed, size, things)
    mask = _draw(canvas, _as(planted, CLASSES[chosen]))
    return Scene(_bytes(canvas), chosen, mask)


def label_of(seed: int) -> int:
    """The class of a scene, without drawing it."""
    return int(np.random.default_rng([seed, 1]).integers(len(CLASSES)))


def backdrop(seed: int, size: int = SIZE) -> NDArray[np.uint8]:
    """The scene of a seed without its planted object."""
    return _bytes(_backdrop(seed, size, _arrange(seed)[0]))


def batch(seeds: Iterable[int], size: int = SIZE) -> Batch:
    """The scenes of many seeds."""
    scenes = [scene(seed, size) for seed in seeds]
    return Batch(
        np.stack([s.image for s in scenes]),
        np.array([s.label for s in scenes], np.int64),
        np.stack([s.mask for s in scenes]),
    )


def _arrange(seed: int) -> tuple[list[_Thing], _Thing]:
    """The distractors and the planted object (its form not chosen yet), placed without overlap."""
    rng = np.random.default_rng([seed, 0])
    names = tuple(DISTRACTORS)
    placed: list[_Thing] = []
    for _ in range(int(rng.integers(OBJECTS[0], OBJECTS[1] + 1))):
        unit = UNIT[0] + (UNIT[1] - UNIT[0]) * rng.random()
        margin = EDGE + REACH * unit
        spots = margin + (1.0 - 2.0 * margin) * rng.random((TRIES, 2))
        style = rng.random(6)
        free = [(x, y) for x, y in spots.tolist() if all(_apart(x, y, unit, other) for other in placed)]
        if free:
            placed.append(_thing(names, free[0], unit, style.tolist()))
    planted = placed.pop(int(rng.integers(len(placed))))
    return placed, planted


def _thing(names: tuple[str, ...], spot: tuple[float, float], unit: float, style: list[float]) -> _Thing:
    form, tilt, mirror, ink, texture, phase = style
    return _Thing(
        form=names[int(form * len(names))],
        x=spot[0],
        y=spot[1],
        unit=unit,
        tilt=TILT * (2.0 * tilt - 1.0),
        mirror=1.0 if mirror < 0.5 else -1.0,
        ink=int(ink * len(INKS)),
        texture=int(texture * len(TEXTURES)),
        phase=2.0 * np.pi * phase,
    )


def _apart(x: float, y: float, unit: float, other: _Thing) -> bool:
    return math.hypot(x - other.x, y - other.y) > REACH * (unit + other.unit)


def _as(thing: _Thing, form: str) -> _Thing:
    return _Thing(form, thing.x, thing.y, thing.unit, thing.tilt, thing.mirror, thing.ink, thing.texture, thing.phase)


def _backdrop(seed: int, size: int, things: list[_Thing]) -> Array:
    rng = np.random.default_rng([seed, 2])
    canvas = _ground(rng, size)
    _scatter(rng, canvas)
    for thing in things:
        _draw(canvas, thing)
    return canvas


def _ground(rng: np.random.Generator, size: int) -> Array:
    """Smooth noise between three dark colours, crossed by the level lines of a second noise."""
    first, second, third = GROUNDS[rng.permutation(len(GROUNDS))[:3]]
    blend, folds, glow = (_noise(rng, size, cells)[..., None] for cells in (3, 4, 6))
    waves = np.sin(2.0 * np.pi * (3.0 + 4.0 * rng.random()) * folds + 2.0 * np.pi * rng.random())
    colour = first + (second - first) * blend + (third - first) * 0.8 * glow**2
    return np.asarray(colour * (1.05 + 0.16 * waves))


def _noise(rng: np.random.Generator, size: int, cells: int) -> Array:
    """Smooth noise (size, size) in [0, 1]: random values on a lattice, interpolated."""
    knots = rng.random((cells + 1, cells + 1))
    at = (np.arange(size) + 0.5) * (cells / size)
    low = at.astype(np.int64)
    part = at - low
    part = part * part * (3.0 - 2.0 * part)
    rows = knots[low] * (1.0 - part)[:, None] + knots[low + 1] * part[:, None]
    return np.asarray(rows[:, low] * (1.0 - part) + rows[:, low + 1] * part)


def _scatter(rng: np.random.Generator, canvas: Array) -> None:
    """Paint small half-transparent dashes and dots in the colours of the objects."""
    size = len(canvas)
    for x, y, length, width, angle, ink in rng.random((CONFETTI, 6)).tolist():
        long, wide = 0.002 + 0.025 * length, 0.005 + 0.006 * width
        box, px, py = _window(size, x, y, long + wide)
        cos, sin = np.cos(np.pi * angle), np.sin(np.pi * angle)
        along = np.clip(px * cos + py * sin, -long, long)
        cover = _cover(np.hypot(px - along * cos, py - along * sin) - wide, 1.0 / size)
        canvas[box] += 0.45 * cover[..., None] * (INKS[int(ink * len(INKS))] - canvas[box])


def _draw(canvas: Array, thing: _Thing) -> NDArray[np.bool_]:
    """Paint one object over the canvas and return the mask (size, size) of the pixels it touches."""
    size = len(canvas)
    box, px, py = _window(size, thing.x, thing.y, REACH * thing.unit)
    cos, sin = np.cos(thing.tilt) / thing.unit, np.sin(thing.tilt) / thing.unit
    u, v = thing.mirror * (px * cos + py * sin), py * cos - px * sin
    depth = distance(thing.form, u, v)
    cover = _cover(depth, 1.0 / (size * thing.unit))
    light = 1.0 - 0.10 * v + 0.10 * TEXTURES[thing.texture](u, v, thing.phase)
    rim = 0.72 + 0.28 * np.clip(-depth / 0.12 - 0.2, 0.0, 1.0)
    colour = INKS[thing.ink] * (light * rim)[..., None]
    canvas[box] += cover[..., None] * (colour - canvas[box])
    mask = np.zeros((size, size), bool)
    mask[box] = cover > 0.0
    return mask


def _plain(u: Array, v: Array, phase: float) -> Array:  # noqa: ARG001
    return np.zeros(np.broadcast_shapes(u.shape, v.shape))


def _stripes(u: Array, v: Array, phase: float) -> Array:
    return np.asarray(np.tanh(2.5 * np.sin(7.5 * (u * np.cos(phase) + v * np.sin(phase)) + phase)) - 0.3)


def _dots(u: Array, v: Array, phase: float) -> Array:
    return np.tanh(4.0 * (np.sin(6.5 * u + phase) * np.sin(6.5 * v + 2.0 * phase) - 0.35))


TEXTURES = (_plain, _stripes, _dots)


def _window(size: int, x: float, y: float, reach: float) -> tuple[tuple[slice, slice], Array, Array]:
    """The pixels within `reach` (and two more) of a point, and the x and y of their centres relative to it."""
    spans = [slice(max(int((c - reach) * size) - 2, 0), min(int((c + reach) * size) + 3, size)) for c in (y, x)]
    down, across = ((np.arange(s.start, s.stop) + 0.5) / size for s in spans)
    return (spans[0], spans[1]), (across - x)[None, :], (down - y)[:, None]


def _cover(depth: Array, pixel: float) -> Array:
    """Share of each pixel that lies inside a form, from the signed distance `depth` of its centre to the edge."""
    return np.clip(0.5 - depth / pixel, 0.0, 1.0)


def _bytes(canvas: Array) -> NDArray[np.uint8]:
    return (np.clip(canvas, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)
