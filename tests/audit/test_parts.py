"""Parts of an audit: what is written comes back bit by bit, whole or not at all, in every library people read with."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

import gradskip_onnx
from gradskip_onnx.audit.parts import finished_parts, part_path, read_part, write_part
from gradskip_onnx.audit.place import open_place
from gradskip_onnx.audit.row import COLUMNS, RegionShare, Row, Standing, as_table, map_facts, map_hash, schema
from gradskip_onnx.errors import InputError
from tests.support.audit_data import facts, failed_row, good_row, write_audit

pa = pytest.importorskip("pyarrow")


@pytest.fixture(params=["disk", "memory"])
def place(request, tmp_path):
    if request.param == "disk":
        return open_place(tmp_path / "audit")
    return open_place(f"memory://{tmp_path.name}/audit")


def test_every_column_comes_back(place):
    """Lists, structures and strings of any kind survive, and so does None in every column that may be empty."""
    rng = np.random.default_rng(0)
    full = replace(good_row(0, 3, rng), abstained="why\nnot", notes=("a", "b"), image='<b>"\u202e.png')
    bare = Row(position=1, image="x")
    place.make("parts")
    write_part(place, 0, [full, bare])

    found = read_part(place, 0).to_pylist()

    assert [each["position"] for each in found] == [0, 1]
    for name in (entry.name for entry in fields(Row) if entry.name not in ("map", "top", "regions", "notes")):
        assert found[0][name] == getattr(full, name), name
        assert found[1][name] == getattr(bare, name), name
    assert full.top is not None
    assert full.regions is not None
    assert [Standing(**each) for each in found[0]["top"]] == list(full.top)
    assert [RegionShare(**each) for each in found[0]["regions"]] == list(full.regions)
    assert found[0]["notes"] == ["a", "b"]
    assert found[1]["top"] is None
    assert found[1]["map"] is None
    assert read_part(place, 0).schema.equals(schema())


def test_maps_are_lossless(place):
    """Every float32 comes back bit by bit: tiny, huge, negative zero; and the hash is that of its bytes."""
    map_ = np.array([[1e-45, -0.0, 3.4e38], [-1e-10, np.float32(1) / 3, 0.1]], np.float32)
    place.make("parts")
    write_part(place, 0, [Row(position=0, image="a", **map_facts(map_))])
    place.write("audit.json", b"")

    row = read_part(place, 0).to_pylist()[0]

    found = np.array(row["map"], np.float32).reshape(row["map_rows"], row["map_columns"])
    assert found.tobytes() == map_.tobytes()
    assert row["map_sha256"] == map_hash(map_)


def test_maps_of_smooth_values_are_compressed(tmp_path):
    """Bytes of one significance lie together: a smooth map takes less than a third of its float32."""
    values = np.add.outer(np.arange(64), np.arange(64)).astype(np.float32) / 128
    place = open_place(tmp_path)
    place.make("parts")
    write_part(place, 0, [Row(position=at, image=str(at), **map_facts(values + at)) for at in range(16)])

    assert (tmp_path / part_path(0)).stat().st_size < 16 * values.nbytes / 3


def test_a_part_is_whole_or_absent(tmp_path, monkeypatch):
    """A disk that fills up leaves no part behind, and no temporary file."""
    place = open_place(tmp_path)
    place.make("parts")

    def full(*_args, **_named):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(InputError, match="No space left"):
        write_part(place, 0, [Row(position=0, image="a")])

    assert list((tmp_path / "parts").iterdir()) == []
    assert finished_parts(place) == []


def test_leftovers_and_other_files_are_no_parts(place):
    place.make("parts")
    for name in ("part-00002.parquet", "part-00000.parquet", ".gradskip-1-2.tmp", "part-1.parquet", "note.txt"):
        place.write(f"parts/{name}", b"")

    assert finished_parts(place) == [0, 2]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1"])
def test_what_is_no_part_is_refused(place, content):
    place.make("parts")
    place.write(part_path(0), content)

    with pytest.raises(InputError, match="not a whole Parquet file"):
        read_part(place, 0)


def test_a_part_of_other_columns_is_refused(tmp_path):
    import pyarrow.parquet as pq

    place = open_place(tmp_path)
    place.make("parts")
    pq.write_table(pa.table({"position": [1]}), tmp_path / part_path(0))

    with pytest.raises(InputError, match="columns are not those"):
        read_part(place, 0)


def test_an_empty_table_has_the_schema():
    assert as_table([]).schema.equals(schema())
    assert tuple(schema().names) == COLUMNS


class TestReading:
    def test_an_audit_is_read(self, place):
        audit = write_audit(place, count=40)

        assert audit.whole
        assert audit.images == 40
        assert audit.table.num_rows == 40
        assert "map" not in audit.table.column_names
        assert audit.table["position"].to_pylist() == list(range(40))
        assert audit.label_of(1) == "dog"
        assert audit.label_of(7) == "class 7"
        assert repr(audit).startswith("Audit(")

    def test_maps_in_any_order(self, place):
        """A map is the one of its position, wherever its part lies."""
        audit = write_audit(place, count=40, broken=(3,))
        hashes = audit.table["map_sha256"].to_pylist()

        positions = [39, 0, 17, 16, 15, 38]

        assert [map_hash(each) for each in audit.maps(positions)] == [hashes[at] for at in positions]
        assert map_hash(audit.map(17)) == hashes[17]
        assert len(list(audit.maps())) == 39  # the image that failed has none

    def test_an_image_without_a_map_says_so(self, place):
        audit = write_audit(place, count=20, broken=(3,))

        with pytest.raises(InputError, match="position 3 failed and has no map"):
            audit.map(3)
        with pytest.raises(InputError, match="no image at position -1"):
            audit.map(-1)
        with pytest.raises(InputError, match="no image at position 20"):
            audit.map(20)

    def test_an_unfinished_audit_is_read_as_far_as_it_goes(self, place):
        write_audit(place, count=40)
        place.remove(part_path(1))

        audit = gradskip_onnx.read_audit(place)

        assert not audit.whole
        assert audit.table.num_rows == 24
        assert map_hash(audit.map(35)) == audit.table["map_sha256"].to_pylist()[19]
        with pytest.raises(InputError, match="position 20"):
            audit.map(20)

    @pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"format": 99}', b"[" * 100_000])
    def test_facts_of_another_kind_are_refused(self, place, content):
        place.make()
        place.write("audit.json", content)

        with pytest.raises(InputError, match=r"not the facts of an audit|not JSON|expected a JSON object"):
            gradskip_onnx.read_audit(place)

    def test_rows_are_those_asked_for(self, tmp_path):
        audit = write_audit(tmp_path, 40)

        assert audit.rows([7, 2], ["position", "image"]) == [
            {"position": 7, "image": "photos/0007.png"},
            {"position": 2, "image": "photos/0002.png"},
        ]
        assert audit.rows([], ["position"]) == []

    def test_no_audit(self, tmp_path):
        with pytest.raises(InputError, match="no audit here"):
            gradskip_onnx.read_audit(tmp_path)
        with pytest.raises(InputError, match="no such kind of address"):
            gradskip_onnx.read_audit("nosuchscheme://x/y")


class TestOtherReaders:
    """The same numbers in pandas, polars and duckdb, which know nothing of us."""

    @pytest.fixture
    def audit(self, tmp_path):
        return write_audit(tmp_path / "audit", count=40)

    def test_pandas(self, audit, tmp_path):
        pandas = pytest.importorskip("pandas")
        frame = pandas.read_parquet(tmp_path / "audit" / "parts")

        assert frame["error"].notna().sum() == 1
        assert frame.groupby("label")["border"].mean().notna().all()
        row = frame.iloc[17]
        assert np.array_equal(row["map"].reshape(int(row["map_rows"]), -1), audit.map(17))
        assert len(audit.to_pandas()) == 40

    def test_polars(self, audit, tmp_path):
        polars = pytest.importorskip("polars")
        frame = polars.read_parquet(tmp_path / "audit" / "parts" / "*.parquet").sort("position")

        assert frame.height == 40
        assert np.array_equal(np.array(frame["map"][17]).reshape(audit.map(17).shape), audit.map(17))

    def test_duckdb(self, audit, tmp_path):
        duckdb = pytest.importorskip("duckdb")
        source = f"'{tmp_path}/audit/parts/*.parquet'"

        ((failed, mean),) = duckdb.sql(f"select count(error), avg(probability) from {source}").fetchall()
        ((values,),) = duckdb.sql(f"select map from {source} where position = 17").fetchall()

        assert failed == 1
        assert mean == pytest.approx(np.mean([p for p in audit.table["probability"].to_pylist() if p is not None]))
        assert np.array_equal(np.array(values, np.float32).reshape(audit.map(17).shape), audit.map(17))


def test_a_failed_row_has_nothing_below_its_error():
    names = COLUMNS[COLUMNS.index("error") + 1 :]
    row = failed_row(4)

    assert [name for name in names if getattr(row, name) is not None] == ["notes", "seconds"]
    assert facts(3, ["a"])["data"]["count"] == 3
