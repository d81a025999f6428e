"""Reads an audit: its facts, the table of its images, and their maps, part by part."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.classes import class_name
from gradskip_onnx.imports.optional import import_optional
from gradskip_onnx.types import Array

from .parts import finished_parts, read_part
from .place import Place, open_place
from .row import COLUMNS, EXTRA, schema

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

FACTS = "audit.json"
FORMAT = 1
MAP_COLUMNS = ("position", "map", "map_rows", "map_columns")


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """The results of an audit. The maps stay in their files until they are asked for."""

    place: Place
    facts: Mapping[str, Any]  # the content of audit.json
    parts: tuple[int, ...]  # the numbers of those that are there

    @property
    def images(self) -> int:
        """How many images the data has."""
        return int(self.facts["data"]["count"])

    @property
    def part_size(self) -> int:
        """How many images a part holds."""
        return int(self.facts["part_size"])

    @property
    def whole(self) -> bool:
        """Whether every image has its row."""
        return {*range(-(-self.images // self.part_size))} <= {*self.parts}

    @cached_property
    def table(self) -> pa.Table:
        """A row an image, in the order of the data: all columns but `map`."""
        names = [name for name in COLUMNS if name != "map"]
        found = [read_part(self.place, number, names) for number in self.parts]
        kinds = schema()
        empty = kinds.remove(kinds.get_field_index("map")).empty_table()
        table: pa.Table = import_optional("pyarrow", EXTRA).concat_tables([empty, *found]).combine_chunks()
        return table

    def to_pandas(self) -> pd.DataFrame:
        """`table` as a data frame of pandas."""
        import_optional("pandas", EXTRA)
        return self.table.to_pandas()

    def map(self, position: int) -> Array:
        """The scores of an image, (rows, columns) float32; raises InputError for an image without a map."""
        return next(self.maps([position]))

    def maps(self, positions: Iterable[int] | None = None) -> Iterator[Array]:
        """The scores of images, in the order asked for; without positions those of every image that has a map.

        A part is read once for positions in a row that lie in it, and only one is held at a time.
        """
        held: int | None = None
        table = None
        for position in self.explained if positions is None else positions:
            number = int(position) // self.part_size
            if number != held:
                if number not in self.parts:
                    raise InputError(f"{self.place.name}: no image at position {position}; it has {self.images}")
                held, table = number, read_part(self.place, number, MAP_COLUMNS)
            yield self._map_in(table, int(position))

    def rows(self, positions: Iterable[int], columns: Sequence[str]) -> list[dict[str, Any]]:
        """The named columns of images, in the order asked for."""
        wanted = np.asarray(list(positions), np.int64)
        places = np.searchsorted(self.table["position"].to_numpy(), wanted)  # an unfinished audit lacks some positions
        found: list[dict[str, Any]] = self.table.select(list(columns)).take(places).to_pylist()
        return found

    @cached_property
    def explained(self) -> tuple[int, ...]:
        """The positions of the images that have a map."""
        table = self.table
        return tuple(table.filter(table["map_rows"].is_valid())["position"].to_pylist())

    def label_of(self, index: int) -> str:
        """The name of a class, or its number."""
        return class_name(self.facts["labels"], index)

    def __repr__(self) -> str:
        state = "" if self.whole else f", {len(self.parts)} of {-(-self.images // self.part_size)} parts"
        return f"Audit({self.place.name}: {self.facts['model']['file']}, {self.images} images{state})"

    def _map_in(self, table: pa.Table | None, position: int) -> Array:
        assert table is not None
        at = int(np.searchsorted(table["position"].to_numpy(), position))
        if at == len(table) or table["position"][at].as_py() != position:
            raise InputError(f"{self.place.name}: no image at position {position}; it has {self.images}")
        scores = table["map"][at]
        if not scores.is_valid:
            raise InputError(f"{self.place.name}: the image at position {position} failed and has no map")
        size = (table["map_rows"][at].as_py(), table["map_columns"][at].as_py())
        return np.asarray(scores.values.to_numpy(zero_copy_only=False).reshape(size))


def read_audit(folder: str | os.PathLike[str] | Place) -> Audit:
    """The audit in a folder, or at an address of fsspec; one that is not finished has the images done so far."""
    place = open_place(folder)
    return Audit(place, read_facts(place), tuple(finished_parts(place)))


def read_facts(place: Place) -> dict[str, Any]:
    """What audit.json says; raises InputError where no audit is, or one of another version."""
    if not place.exists(FACTS):
        raise InputError(f"{place.name}: no audit here, {FACTS} is missing; give the folder of `gradskip-onnx audit`")
    facts = read_object(place, FACTS)
    if facts.get("format") != FORMAT:
        raise InputError(f"{place.name}/{FACTS}: not the facts of an audit of this version (format {FORMAT})")
    return facts


def read_object(place: Place, file: str) -> dict[str, Any]:
    """The JSON object in a file of a place."""
    with place.open(file) as stream:
        data = stream.read()
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place.name}/{file}: not JSON ({str(error)[:80]})") from None
    if not isinstance(found, dict):
        raise InputError(f"{place.name}/{file}: expected a JSON object")
    return found
