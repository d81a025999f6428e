"""Reads from the parts of an audit what a manifest says of them."""

from __future__ import annotations

from typing import Any

from gradskip_onnx.audit.parts import read_part
from gradskip_onnx.audit.place import Place

from .hashes import sha256_of_list

CONTENT = ("images", "failed", "images_sha256", "logits_difference")  # the keys of `content_of`


def content_of(place: Place, number: int) -> dict[str, Any]:
    """How many images a part has, how many of them failed, the hash of their hashes, and the proof of the logits."""
    rows = read_part(place, number, ["image_sha256", "error", "logits_difference"])
    images = rows["image_sha256"].to_pylist()
    differences = [one for one in rows["logits_difference"].to_pylist() if one is not None]
    return {
        "images": len(images),
        "failed": sum(error is not None for error in rows["error"].to_pylist()),
        "images_sha256": sha256_of_list(digest or "" for digest in images),
        "logits_difference": max(differences, default=0.0),
    }
