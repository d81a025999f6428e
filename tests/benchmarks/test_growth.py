"""The table of growth: peaks and seconds of fresh processes, in units of the plain pass."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.growth import AT_MOST, HEAD, SERIES, Sample, apart, filled, measure, row
from gradskip_onnx.demo import demo_model

FIGURES = {
    "plain GB": 0.5, "plain s": 2.0, "read GB": 0.8, "read s": 7.0,
    "first GB": 1.0, "first s": 5.0, "later GB": 1.25, "later s": 4.0,
}  # fmt: skip


def test_the_plain_pass_is_the_unit():
    assert row(Sample("ViT", 224), "gradskip+", FIGURES) == (
        "| ViT | 224 | gradskip+ | 0.50 GB, 2.00 s | 1.6, 3.5 | 2.0, 2.5 | 2.5, 2.0 |  |"
    )


def test_pytorch_stands_beside():
    figures = FIGURES | {"torch GB": 2.0, "torch s": 9.0}
    assert row(Sample("ViT", 224), "gradskip", figures).endswith("| 2.5, 2.0 | 4.0, 4.5 |")


def test_what_is_known_is_not_measured_again():
    sample = Sample("ViT", 224, {})
    known = {
        "plain ViT-224.onnx 1  1": {"plain GB": 0.5, "plain s": 2.0},
        "explained ViT-224.onnx 1 gradskip+ 1": {"read GB": 0.8},
    }
    found = measure(sample, Path("nowhere.onnx"), 1, "gradskip+", known)
    assert found == {"plain GB": 0.5, "plain s": 2.0, "read GB": 0.8}


def test_the_page_gets_the_tables_that_were_measured():
    page = "a\n<!-- growth depth -->\nold\n<!-- end -->\nb\n<!-- growth batch -->\nkept\n<!-- end -->\n"
    expected = (
        f"a\n<!-- growth depth -->\n{HEAD}\n| new |\n<!-- end -->\nb\n<!-- growth batch -->\nkept\n<!-- end -->\n"
    )
    assert filled(page, {"depth": ["| new |"], "classes": []}) == expected


def test_a_peak_over_its_bound_is_marked():
    found = row(Sample("ViT", 224), "gradskip+", FIGURES | {"read GB": 0.51 * AT_MOST["read"]})
    assert "2.0 (over)" in found


def test_each_file_has_one_name():
    """Of two samples with one name the options are the same: the file is written once."""
    files: dict[str, object] = {}
    for sample in (sample for series in SERIES.values() for sample in series):
        assert files.setdefault(sample.file, sample.options) == sample.options


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_figures_come_from_processes_of_their_own(tmp_path: Path):
    path = tmp_path / "demo.onnx"
    path.write_bytes(demo_model().read_bytes())
    sample = Sample("demo", 96)
    found = apart("plain", path, sample, 1, "") | apart("explained", path, sample, 1, "gradskip+")

    assert found.keys() == FIGURES.keys()
    assert 0.01 < found["plain GB"] < found["read GB"] <= found["first GB"] <= found["later GB"]
    assert all(found[name] >= 0 for name in found)
