"""NumPy's sort on Zen 4: who is told what, and that NumPy understands it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from gradskip_onnx.cli.numpy_on_zen4 import AVX512, VARIABLE, sort_quickly


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a process that has not imported NumPy."""
    variables: dict[str, str] = {}
    monkeypatch.setattr(os, "environ", variables)
    monkeypatch.delitem(sys.modules, "numpy", raising=False)
    return variables


def processor(vendor: str, family: int, flags: str) -> str:
    one = f"processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: 17\nflags\t\t: fpu {flags} sse\n"
    return f"{one}\n{one}\n"


ZEN_4 = processor("AuthenticAMD", 25, "avx2 avx512f avx512dq")


@pytest.mark.parametrize(
    ("vendor", "family", "flags", "expected"),
    [
        ("AuthenticAMD", 25, "avx2 avx512f avx512dq", AVX512),
        ("AuthenticAMD", 25, "avx2", None),  # Zen 3
        ("AuthenticAMD", 26, "avx2 avx512f", None),  # Zen 5
        ("GenuineIntel", 25, "avx2 avx512f", None),
        ("GenuineIntel", 6, "avx2 avx512f", None),
    ],
)
def test_zen_4_alone_is_told(vendor, family, flags, expected, tmp_path, environment):
    (tmp_path / "cpuinfo").write_text(processor(vendor, family, flags))
    sort_quickly(tmp_path / "cpuinfo")

    assert environment.get(VARIABLE) == expected


def test_what_a_user_has_set_stays(tmp_path, environment):
    (tmp_path / "cpuinfo").write_text(ZEN_4)
    environment[VARIABLE] = ""
    sort_quickly(tmp_path / "cpuinfo")

    assert environment[VARIABLE] == ""


def test_nothing_is_set_where_numpy_is_there_already(tmp_path, environment, monkeypatch):
    (tmp_path / "cpuinfo").write_text(ZEN_4)
    monkeypatch.setitem(sys.modules, "numpy", sys)
    sort_quickly(tmp_path / "cpuinfo")

    assert VARIABLE not in environment


def test_a_machine_that_says_nothing_is_left_alone(tmp_path, environment):
    sort_quickly(tmp_path / "absent")

    assert VARIABLE not in environment


def test_numpy_takes_the_names():
    """Without an error and without a word, whatever the processor is."""
    sorts = "import numpy as np; print(np.sort(np.array([2.0, 3.0, 1.0], 'f4')).tolist())"
    done = subprocess.run(
        [sys.executable, "-c", sorts], env={**os.environ, VARIABLE: AVX512}, capture_output=True, text=True, check=True
    )

    assert (done.stdout, done.stderr) == ("[1.0, 2.0, 3.0]\n", "")
