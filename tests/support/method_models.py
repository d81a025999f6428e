"""Options under which the methods that ask the model again are quick enough for a test."""

from __future__ import annotations

from typing import Any

FAST: dict[str, dict[str, Any]] = {
    "rise": {"masks": 20, "keep": 0.5},
    "tis": {"masks": 8},
    "score-cam": {"channels": 6},
    "integrated-gradients": {"steps": 4},
    "smoothgrad": {"samples": 4},
    "tam": {"steps": 3},
    "attention-flow": {"blocks": 2},
}


def fast(name: str) -> dict[str, Any]:
    return dict(FAST.get(name, {}))
