"""The JSON document of an explanation: everything known about one result."""

from __future__ import annotations

import platform
from dataclasses import asdict
from typing import Any

from gradskip_onnx.images.classes import Candidate
from gradskip_onnx.imports.installed import version_of
from gradskip_onnx.version import __version__

from .explanation import Explanation

FORMAT = 1
MOST_SCORES = 128 * 128  # larger grids, such as one score per pixel, are in the .npy file only
LIBRARIES = ("numpy", "onnx", "onnx-graphsurgeon", "onnxruntime", "onnxruntime-gpu", "Pillow")


def document(explanation: Explanation) -> dict[str, Any]:
    """Everything known about one result, ready for JSON."""
    relevance, geometry = explanation.relevance, explanation.geometry
    height, width = geometry.image_size
    return {
        "format": FORMAT,
        "model": {"file": explanation.model, "sha256": explanation.model_sha256},
        "image": {
            "file": explanation.original.name,
            "sha256": explanation.original.sha256,
            "height": height,
            "width": width,
            "seen_box": list(geometry.box),
        },
        "target": candidate(explanation.target),
        "top": [candidate(entry) for entry in explanation.top],
        "task": explanation.task,
        "score": explanation.score,
        "region": explanation.region,
        "method": relevance.method,
        "options": dict(relevance.options),
        "grid": {
            "rows": relevance.scores.shape[0],
            "columns": relevance.scores.shape[1],
            "scores": relevance.scores.tolist() if relevance.scores.size <= MOST_SCORES else None,
        },
        "map": {"min": float(explanation.map.min()), "max": float(explanation.map.max())},
        "blocks": [asdict(block) for block in relevance.blocks],
        "checks": dict(relevance.checks),
        "notes": list(relevance.notes),
        "preprocess": explanation.preprocess.as_dict(),
        "provider": explanation.provider,
        "timings": dict(explanation.timings),
        "versions": versions(),
        "warnings": list(explanation.warnings),
    }


def candidate(entry: Candidate) -> dict[str, Any]:
    return {
        "index": int(entry.index),
        "label": entry.label,
        "logit": float(entry.logit),
        "probability": float(entry.probability),
    }


def versions() -> dict[str, str]:
    """Versions of this package, Python and the libraries that influence results."""
    own = {"gradskip-onnx": __version__, "python": platform.python_version()}
    return own | {name: version for name in LIBRARIES if (version := version_of(name))}
