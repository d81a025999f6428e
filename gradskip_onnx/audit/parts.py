"""The parts of an audit: Parquet files with a row an image, each whole or absent."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradskip_onnx.errors import InputError
from gradskip_onnx.imports.optional import import_optional

from .place import Place
from .row import EXTRA, Row, as_table, schema

if TYPE_CHECKING:
    import pyarrow as pa

FOLDER = "parts"
NAME = re.compile(r"part-(\d{5,9})\.parquet")
# Maps lie as the first bytes of all values, then the second bytes, ...: signs and exponents compress, mantissas hardly.
MAP_VALUES = "map.list.element"
LEVEL = 3  # of zstd: higher ones save a hundredth


def part_path(number: int) -> str:
    """The name of a part in the folder of its audit."""
    return f"{FOLDER}/part-{number:05}.parquet"


def finished_parts(place: Place) -> list[int]:
    """The numbers of the parts that are there, in order."""
    matches = (NAME.fullmatch(name) for name in place.files(FOLDER))
    return sorted(int(match[1]) for match in matches if match)


def write_part(place: Place, number: int, rows: Sequence[Row]) -> None:
    """Write the rows as one part; it appears when it is whole."""
    place.write(part_path(number), encode_part(rows))


def encode_part(rows: Sequence[Row]) -> bytes:
    """The bytes of a part."""
    content = io.BytesIO()
    import_optional("pyarrow.parquet", EXTRA).write_table(
        as_table(rows),
        content,
        compression="zstd",
        compression_level=LEVEL,
        use_dictionary=False,
        column_encoding={MAP_VALUES: "BYTE_STREAM_SPLIT"},
    )
    return content.getvalue()


def read_part(place: Place, number: int, columns: Sequence[str] | None = None) -> pa.Table:
    """The named columns of a part, or all; raises InputError for a file that is no part of an audit."""
    parquet, arrow = import_optional("pyarrow.parquet", EXTRA), import_optional("pyarrow", EXTRA)
    name = part_path(number)
    try:
        with place.open(name) as stream, parquet.ParquetFile(stream) as file:
            if not file.schema_arrow.equals(schema()):
                raise InputError(f"{place.name}/{name}: its columns are not those of an audit of this version")
            table: pa.Table = file.read(columns=None if columns is None else list(columns))
    except (arrow.ArrowException, OSError) as error:
        raise InputError(f"{place.name}/{name}: not a whole Parquet file ({_line(error)})") from None
    return table


def _line(error: Any) -> str:
    return " ".join(str(error).split())[:120]
