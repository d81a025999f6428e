"""Results by key: whole lines or none, found again, failures apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradskip_onnx.errors import InputError
from gradskip_onnx.pipeline.ledger import Ledger, key_of


def test_a_ledger_is_mended(tmp_path: Path):
    ledger = Ledger(tmp_path / "results.jsonl")
    ledger.append({"key": "a", "image": "x"})
    ledger.append({"key": "b", "image": "y" * 200_000, "error": "e"})
    with ledger.path.open("ab") as stream:
        stream.write(b'{"key": "c", "ima')
    again = Ledger.open(ledger.path)

    assert again.done == {"a", "b"}
    assert again.failed == {"b"}
    assert ledger.path.read_bytes().endswith(b"\n")


def test_what_is_still_to_be_found(tmp_path: Path):
    ledger = Ledger.open(tmp_path / "any name")
    ledger.append({"key": "good"})
    ledger.append({"key": "bad", "error": "no luck"})

    assert [ledger.lacks(key) for key in ("good", "bad", "new")] == [False, False, True]
    assert [ledger.lacks(key, retry=True) for key in ("good", "bad", "new")] == [False, True, True]
    ledger.append({"key": "bad"})
    assert not Ledger.open(ledger.path).lacks("bad", retry=True)


def test_a_key_stands_for_every_setting():
    assert key_of({"a": 1, "b": (2, 3)}) == key_of({"b": [2, 3], "a": 1})
    assert key_of({"a": 1}) != key_of({"a": 2})


def test_a_folder_that_cannot_be_written_to(tmp_path: Path):
    with pytest.raises(InputError, match="cannot be written"):
        Ledger(tmp_path / "missing" / "results.jsonl").append({"key": "a"})
