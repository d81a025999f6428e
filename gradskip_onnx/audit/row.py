"""What an audit knows of one image: a `Row`, and the Parquet schema that is made from its fields."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import numpy as np

from gradskip_onnx.imports.optional import import_optional
from gradskip_onnx.types import Array

if TYPE_CHECKING:
    import pyarrow as pa

Int64 = Annotated[int, "int64"]  # the second part is the name of the type in Parquet files
Int32 = Annotated[int, "int32"]
Real = Annotated[float, "float64"]
Text = Annotated[str, "string"]
Truth = Annotated[bool, "bool"]
Map = Annotated[Array, "map"]

EXTRA = "audit"  # of pyproject.toml: what brings pyarrow


@dataclass(frozen=True, slots=True)
class Standing:
    """One of the likeliest classes; in segmentation the probability is its share of the pixels."""

    index: Int32
    logit: Real
    probability: Real


@dataclass(frozen=True, slots=True)
class RegionShare:
    """A region that the user named: its share of the positive relevance, and of the image, which is chance."""

    name: Text
    share: Real | None
    area: Real


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Row:
    """One image; where it failed, what stands below `error` is None, and so is its size.

    Lengths are fractions of the model's image.
    """

    position: Int64  # place in the data, from 0
    image: Text  # its id: an address relative to the data
    image_sha256: Text | None = None
    truth_sha256: Text | None = None  # of the image together with its boxes and masks, where some are known
    width: Int32 | None = None  # of the picture, in pixels
    height: Int32 | None = None
    error: Text | None = None
    label: Int32 | None = None  # the true class; None without ground truth
    correct: Truth | None = None
    predicted: Int32 | None = None
    predicted_probability: Real | None = None
    target: Int32 | None = None  # the class explained
    logit: Real | None = None
    probability: Real | None = None
    top: tuple[Standing, ...] | None = None
    logits_difference: Real | None = None  # largest |logit of the instrumented model - logit of the file as it is|
    map: Map | None = None  # (rows, columns) float32: the scores of the method
    map_rows: Int32 | None = None
    map_columns: Int32 | None = None
    map_sha256: Text | None = None  # of its float32 values, little-endian, row by row
    map_total: Real | None = None  # sum of the scores
    negative_share: Real | None = None  # share of the sum of |scores| that lies below zero
    peak_row: Real | None = None  # middle of the strongest entry, from 0 (top) to 1 (bottom)
    peak_column: Real | None = None
    centre_row: Real | None = None  # centre of mass of the positive scores
    centre_column: Real | None = None
    spread: Real | None = None  # root mean square distance from that centre, as a share of the diagonal
    concentration: Real | None = None  # Gini coefficient of the positive scores
    border: Real | None = None  # share of the positive relevance in the outermost tenth on each side
    inside: Real | None = None  # share of it in known boxes or masks of the target
    inside_area: Real | None = None  # share of the image that these cover: what chance would give
    pointed: Truth | None = None  # whether the strongest entry lies in them
    regions: tuple[RegionShare, ...] | None = None
    check_patches: Int32 | None = None  # patches erased by the counterfactual check
    check_erased: Real | None = None  # probability without the most relevant patches
    check_random: Real | None = None  # mean probability without as many random ones
    check_passed: Truth | None = None
    abstained: Text | None = None  # why the explanation of this image should not be believed
    notes: tuple[Text, ...] = field(default=())
    seconds: Real | None = None  # the only column that may differ between two runs


COLUMNS: tuple[str, ...] = tuple(entry.name for entry in fields(Row))


def map_facts(scores: Array) -> dict[str, Any]:
    """The columns that hold a map (rows, columns) and its hash."""
    values = np.ascontiguousarray(scores, dtype="<f4")
    rows, columns = values.shape
    return {"map": values, "map_rows": rows, "map_columns": columns, "map_sha256": map_hash(values)}


def map_hash(scores: Array) -> str:
    """SHA-256 of the float32 values of a map, little-endian, row by row."""
    return hashlib.sha256(np.ascontiguousarray(scores, dtype="<f4").tobytes()).hexdigest()


@cache
def schema() -> pa.Schema:
    """The schema of a part, in the order of the fields of `Row`."""
    arrow = import_optional("pyarrow", EXTRA)
    hints = get_type_hints(Row, include_extras=True)
    made: pa.Schema = arrow.schema([(name, _arrow_type(arrow, hints[name])) for name in COLUMNS])
    return made


def _arrow_type(arrow: Any, hint: Any) -> Any:
    """The Parquet type of a field, which may be None, a list or a dataclass."""
    if NoneType in get_args(hint):
        return _arrow_type(arrow, get_args(hint)[0])
    if get_origin(hint) is tuple:
        return arrow.list_(_arrow_type(arrow, get_args(hint)[0]))
    if is_dataclass(hint):
        inner = get_type_hints(hint, include_extras=True)
        return arrow.struct([(name, _arrow_type(arrow, kind)) for name, kind in inner.items()])
    name = get_args(hint)[1]
    return arrow.list_(arrow.float32()) if name == "map" else arrow.type_for_alias(name)


def as_table(rows: Sequence[Row]) -> pa.Table:
    """The rows as a table with the schema of a part."""
    arrow, kinds = import_optional("pyarrow", EXTRA), schema()
    columns = [
        _maps(arrow, [row.map for row in rows])
        if name == "map"
        else arrow.array([_plain(getattr(row, name)) for row in rows], kinds.field(name).type)
        for name in COLUMNS
    ]
    table: pa.Table = arrow.Table.from_arrays(columns, schema=kinds)
    return table


def _maps(arrow: Any, maps: Sequence[Array | None]) -> Any:
    """The values of each map as a list, without a Python number in between."""
    flat = [np.zeros(0, np.float32) if each is None else np.asarray(each, np.float32).reshape(-1) for each in maps]
    ends = np.cumsum([0, *(len(each) for each in flat)]).astype(np.int32)
    values = np.concatenate(flat) if flat else np.zeros(0, np.float32)
    missing = arrow.array([each is None for each in maps], arrow.bool_())
    return arrow.ListArray.from_arrays(ends, values, mask=missing)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    if is_dataclass(value):
        return {entry.name: getattr(value, entry.name) for entry in fields(value)}
    return value.item() if isinstance(value, np.generic) else value
