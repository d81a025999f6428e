"""The files of a comparison: findings as JSON, a row an image as Parquet and CSV, the page, and the violations."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradskip_onnx.audit.place import Place
from gradskip_onnx.findings.documents import VIOLATIONS, as_document, as_list, encode_violations
from gradskip_onnx.findings.policy import Policy
from gradskip_onnx.findings.violations import Violation
from gradskip_onnx.imports.optional import import_optional
from gradskip_onnx.output.csv_text import encode_csv
from gradskip_onnx.output.json_text import encode_json

from .compare import Comparison
from .page import render
from .pictures import OpenImage

FORMAT = 1
JSON, PARQUET, CSV, PAGE = "comparison.json", "comparison.parquet", "comparison.csv", "comparison.html"
WHOLE = ("predicted_a", "predicted_b")  # columns of whole numbers


def write_comparison(
    place: Place,
    compared: Comparison,
    names: tuple[str, str],
    *,
    policy: Policy | None = None,
    violations: Sequence[Violation] = (),
    open_image: OpenImage | None = None,
    command: str = "",
) -> tuple[str, ...]:
    """Write all files, the page last, and return their names; without a policy an earlier verdict is removed."""
    judged = None if policy is None else violations
    contents = {
        PARQUET: encode_parquet(compared),
        CSV: encode_csv(list(columns(compared)), zip(*columns(compared).values(), strict=True)),
        JSON: encode_json(document(compared, names, judged)),
        PAGE: render(compared, names, violations=judged, open_image=open_image, command=command),
    }
    if policy is None:
        place.remove(VIOLATIONS)
    else:
        contents[VIOLATIONS] = encode_violations(violations, policy.sha256)
    for name, content in contents.items():
        place.write(name, content)
    return tuple(contents)


def document(compared: Comparison, names: tuple[str, str], violations: Sequence[Violation] | None) -> dict[str, Any]:
    """comparison.json."""
    audits = (compared.first, compared.second)
    sides = [
        {"name": name, **{key: audit.facts[key] for key in ("model", "method", "options", "provider", "preprocess")}}
        for name, audit in zip(names, audits, strict=True)
    ]
    found = as_document(compared.found)
    return {
        "format": FORMAT,
        "first": sides[0],
        "second": sides[1],
        "images": found["images"],
        "left_out": compared.pairs.left_out,
        "same_classes_explained": bool(compared.pairs.same_target.all()),
        "findings": found["findings"],
        "violations": None if violations is None else as_list(violations),
    }


def columns(compared: Comparison) -> dict[str, list[Any]]:
    """A row a pair; None where there is no value."""
    pairs = compared.pairs
    found: dict[str, list[Any]] = {
        "image": list(pairs.images),
        "position_a": pairs.positions[0].tolist(),
        "position_b": pairs.positions[1].tolist(),
        "explained_a": pairs.classes.tolist(),
        "same_class_explained": pairs.same_target.tolist(),
    }
    for name, values in pairs.columns.items():
        whole = name in WHOLE
        found[name] = [None if np.isnan(value) else int(value) if whole else value for value in values.tolist()]
    return found


def encode_parquet(compared: Comparison) -> bytes:
    """The table of pairs as a Parquet file."""
    arrow, parquet = import_optional("pyarrow", "audit"), import_optional("pyarrow.parquet", "audit")
    content = io.BytesIO()
    parquet.write_table(arrow.table(columns(compared)), content, compression="zstd")
    return content.getvalue()
