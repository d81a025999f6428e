"""Round trips of every kind of field, of what the cache stores, and what is refused: when, and by which name."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, make_dataclass
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradskip_onnx.autodiff.rulesets.choice import Rules
from gradskip_onnx.cache.dataclass_json import as_plain, encode, from_plain
from gradskip_onnx.cache.folder import CacheFolder
from gradskip_onnx.cache.model_cache import ModelCache, ModelFacts
from gradskip_onnx.images.preprocess import Preprocess
from gradskip_onnx.model_file.mapped_weights import WeightLocation
from gradskip_onnx.model_file.metadata import Metadata
from gradskip_onnx.types import Architecture, Block, Mismatch, Needs, Plan, Position, Proof, TensorFact


@dataclass(frozen=True, slots=True)
class Inner:
    """Held by another."""

    name: str
    more: tuple[Inner, ...] = ()


@dataclass(frozen=True, slots=True)
class Everything:
    """One field of each kind that is read."""

    flag: bool
    whole: int
    number: float
    word: str
    kind: np.dtype[Any]
    size: int | str
    level: float | None | str  # noqa: RUF036  (None may stand anywhere)
    either: int | float
    mode: Literal["a", "b", 3]
    pair: tuple[int, str]
    several: tuple[float | None, ...]
    table: Mapping[str, int | None]
    inner: Inner
    maybe: Inner | None
    nested: tuple[tuple[int, ...], ...] | None


INNER = st.recursive(
    st.builds(Inner, st.text()), lambda inner: st.builds(Inner, st.text(), st.lists(inner, max_size=3).map(tuple))
)
WHOLE, NUMBER = st.integers(), st.floats(allow_nan=False)
EVERYTHING = st.builds(
    Everything,
    flag=st.booleans(),
    whole=WHOLE,
    number=NUMBER,
    word=st.text(),
    kind=st.sampled_from(["<f4", "<f2", "<i8", "|b1", "|u1", ">f8"]).map(np.dtype),
    size=WHOLE | st.text(),
    level=NUMBER | st.none() | st.text(),
    either=WHOLE | NUMBER,
    mode=st.sampled_from(["a", "b", 3]),
    pair=st.tuples(WHOLE, st.text()),
    several=st.lists(NUMBER | st.none()).map(tuple),
    table=st.dictionaries(st.text(), WHOLE | st.none()),
    inner=INNER,
    maybe=INNER | st.none(),
    nested=st.lists(st.lists(WHOLE).map(tuple)).map(tuple) | st.none(),
)


@given(EVERYTHING)
def test_what_is_written_is_read(record: Everything):
    found = from_plain(Everything, json.loads(encode(record)))
    assert found == record
    assert repr(found) == repr(record), "1 and 1.0 are equal and not the same"


@given(
    st.recursive(
        st.none() | st.booleans() | WHOLE | NUMBER | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_other_documents_are_refused_as_values(document: Any):
    """Never by another error: a cache takes ValueError for a miss, and nothing else."""
    with pytest.raises(ValueError):
        from_plain(Everything, document)


def test_floats_that_are_no_numbers():
    proof = from_plain(Proof, json.loads(encode(Proof("c", "w", math.nan, math.inf))))
    assert math.isnan(proof.measured)
    assert proof.bound == math.inf


def test_types_that_numpy_lacks_keep_their_name():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    fact = TensorFact((None, 3), np.dtype(ml_dtypes.bfloat16))
    assert from_plain(TensorFact, as_plain(fact)) == fact


STORED = (ModelFacts, Architecture, Block, Position, Proof, Mismatch, TensorFact, Metadata, Preprocess, Plan,
          WeightLocation, Needs, Rules)  # fmt: skip


@pytest.mark.parametrize("kind", STORED)
def test_all_that_the_cache_stores_can_be_read(kind: type[Any]):
    """A type that is not read raises TypeError, also for a document that is none."""
    with pytest.raises(ValueError, match="dict is expected"):
        from_plain(kind, 3)


def test_plans_survive():
    plan = Plan("z", {"a": "b"}, {"c": "d"}, target_input="t")
    found = from_plain(Plan, json.loads(encode(plan)))
    assert as_plain(found) == as_plain(plan)


REFUSED = {
    "bytes": bytes,
    "any": Any,
    "bare tuple": tuple,
    "list": list[int],
    "keys": Mapping[int, str],
    "two words": Literal["a"] | str,
    "word or element type": str | np.dtype[Any],
    "two lists": tuple[int, ...] | tuple[str, ...],
    "two records": Inner | Proof,
    "deep inside": tuple[Mapping[str, complex | None], ...],
    "unknown": "Missing",
}


@pytest.mark.parametrize("hint", REFUSED.values(), ids=REFUSED.keys())
def test_types_that_cannot_be_read_are_named_at_first_use(hint: Any):
    kind: Any = make_dataclass("Odd", [("fine", int), ("field", hint)], frozen=True)
    record = kind(1, None)
    for use in (
        lambda: encode(record),
        lambda: encode((record,)),
        lambda: from_plain(kind, {}),
        lambda: encode(record),
    ):
        with pytest.raises(TypeError, match=r"Odd(\.field)?: .*type|Odd\.field: two members"):
            use()


def test_a_class_that_holds_one_that_cannot_be_read_is_refused_each_time():
    """Also where the two hold each other and the first is asked for last."""
    outer = make_dataclass("Outer", [("inner", "tuple[Odd, ...]"), ("field", bytes)], frozen=True)
    inner = make_dataclass("Odd", [("outer", "Outer | None")], frozen=True)
    outer.__annotations__["inner"] = tuple[inner, ...]  # type: ignore[valid-type]
    inner.__annotations__["outer"] = outer | None
    for kind in (outer, inner, outer):
        with pytest.raises(TypeError, match=r"Outer\.field"):
            from_plain(kind, {})


def test_a_class_that_cannot_be_read_is_no_silent_miss(tmp_path):
    """Keeping it fails, so no entry is ever written that would be missed for ever."""
    record: Any = make_dataclass("Facts", [("place", bytes)], frozen=True)(b"")
    entries = ModelCache(CacheFolder(tmp_path))
    with pytest.raises(TypeError, match=r"Facts\.place"):
        entries.keep_facts({}, record)
    assert not list(tmp_path.iterdir())
