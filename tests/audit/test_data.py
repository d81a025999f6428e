"""Audits of data of all kinds: private, put together by hand, at addresses, with boxes and masks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradskip_onnx.audit.parts import part_path
from gradskip_onnx.audit.reading import read_audit
from gradskip_onnx.audit.run import run_audit
from gradskip_onnx.datasets import Dataset, Entry, load
from gradskip_onnx.errors import InputError
from tests.support.evaluation_data import pictures

from .runs import COUNT, SETTINGS, rows_of


class TestPrivacy:
    def test_no_name_leaves_the_machine(self, model, tmp_path):
        folder = pictures(tmp_path / "patients", COUNT)
        (folder / "05.png").rename(folder / "meier_anna.png")
        (folder / "06.png").rename(folder / "huber_karl.png")
        (folder / "huber_karl.png").write_bytes(b"no image")
        (folder / "labels.csv").unlink()
        run_audit(model, load(str(folder)), tmp_path / "audit", replace(SETTINGS, privacy=True))

        audit = read_audit(tmp_path / "audit")
        written = b"".join(path.read_bytes() for path in sorted((tmp_path / "audit").rglob("*")) if path.is_file())
        text = str(audit.table.to_pylist()) + str(audit.facts)
        for word in ("meier", "anna", "huber", "patients", ".png", str(tmp_path)):
            assert word not in text
            assert word.encode() not in written
        assert audit.table["image_sha256"].null_count == 0
        assert all(name.startswith("sha256:") for name in audit.table["image"].to_pylist())
        assert audit.table["error"].null_count == COUNT - 1


def test_data_put_together_by_hand(model, tmp_path):
    """An entry without a file is known by the hash of its pixels."""
    from PIL import Image

    image = Image.fromarray(np.arange(32 * 32 * 3, dtype=np.uint8).reshape(32, 32, 3))
    data = Dataset("own", "own", tuple(Entry(f"e{at}", lambda: image, lambda: "x") for at in range(3)))

    audit = run_audit(model, data, tmp_path, SETTINGS)

    assert len(set(audit.table["image_sha256"].to_pylist())) == 1
    with pytest.raises(InputError, match="put together by hand"):
        run_audit(model, data, tmp_path / "other", replace(SETTINGS, workers=2))


class TestAddresses:
    def test_data_and_output_at_addresses(self, audit, model, photos, tmp_path):
        """The same rows from and to file systems that are not the disk, and file:// is the disk."""
        import fsspec

        memory = fsspec.filesystem("memory")
        for path in sorted(photos.iterdir()):
            memory.pipe_file(f"/{tmp_path.name}/photos/{path.name}", path.read_bytes())
        data, out = f"memory://{tmp_path.name}/photos", f"memory://{tmp_path.name}/audit"

        far = run_audit(model, load(data), out, SETTINGS)
        near = run_audit(model, load(f"file://{photos}"), f"file://{tmp_path}/near", SETTINGS)

        assert rows_of(far) == rows_of(near) == rows_of(audit)
        assert sorted(path.name for path in (tmp_path / "near" / "parts").glob("*.parquet")) == [
            f"part-0000{at}.parquet" for at in range(3)
        ]
        assert not [name for name in memory.ls(f"/{tmp_path.name}/audit/parts", detail=False) if "tmp" in name]

    def test_it_goes_on_at_an_address(self, audit, model, photos, tmp_path):
        out = f"memory://{tmp_path.name}/audit"
        first = run_audit(model, load(str(photos)), out, SETTINGS)
        first.place.remove(part_path(2))

        assert rows_of(run_audit(model, load(str(photos)), out, SETTINGS)) == rows_of(audit)


class TestTruth:
    def test_boxes_and_masks_of_a_list(self, model, photos, tmp_path):
        """Relevance inside the known box of the label, where the label is what is explained."""
        lines = [f"{at:02}.png,{at % 5},0 0 16 32" for at in range(4)]
        (photos / "list.csv").write_text("image,label,boxes\n" + "\n".join(lines) + "\n")
        try:
            found = run_audit(model, load(str(photos / "list.csv")), tmp_path, replace(SETTINGS, target="label"))
        finally:
            (photos / "list.csv").unlink()

        for at, row in enumerate(found.table.to_pylist()):
            grid = np.maximum(found.map(at), 0)
            assert row["inside_area"] == 0.5
            if grid.any():
                assert row["inside"] == pytest.approx(grid[:, : grid.shape[1] // 2].sum() / grid.sum(), rel=1e-6)
            else:
                assert row["inside"] is None
                assert "no score of the map is positive" in row["abstained"]
            assert row["pointed"] == (row["peak_column"] < 0.5)
