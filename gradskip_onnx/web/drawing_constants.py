"""The numbers and colours of our pictures, for programs in other languages that draw the same."""

from __future__ import annotations

from typing import Any

from gradskip_onnx.drawing import colours, heat_map, outline, panels, pictures, view
from gradskip_onnx.drawing.style import DEFAULT_STYLE


def drawing_constants() -> dict[str, Any]:
    """Every constant that a picture in the default style depends on; palettes are flat lists of bytes."""
    return {
        "smoothing": DEFAULT_STYLE.smoothing,
        "outline": DEFAULT_STYLE.outline,
        "opacity": DEFAULT_STYLE.opacity,
        "palettes": {
            "heat": colours.PALETTES[DEFAULT_STYLE.palette].ravel().tolist(),
            "for": colours.FOR.ravel().tolist(),
            "against": colours.AGAINST.ravel().tolist(),
        },
        "finest": heat_map.FINEST,
        "matters": view.MATTERS,
        "none_below": view.NONE_BELOW,
        "spikes": view.SPIKES,
        "spiky": view.SPIKY,
        "nearly_even": view.NEARLY_EVEN,
        "cover_curve": panels.COVER_CURVE,
        "colour_kept": panels.COLOUR_KEPT,
        "darkest": panels.DARKEST,
        "lightest": panels.LIGHTEST,
        "shadows": panels.SHADOWS,
        "unseen": panels.UNSEEN,
        "shade": panels.SHADE,
        "frame": list(panels.FRAME),
        "line_width": outline.WIDTH,
        "line_widths": list(outline.WIDTHS),
        "casing": outline.CASING,
        "line": list(outline.LINE),
        "dark": list(outline.DARK),
        "cutout_below": pictures.CUTOUT_BELOW,
    }
