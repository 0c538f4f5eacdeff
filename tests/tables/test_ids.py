"""Ids must be distinct, however many there are and however they come."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble.exceptions import InputError
from optensemble.tables import ids as module
from optensemble.tables.ids import IdRegister


def require(parts: Sequence[pd.Series[Any]]) -> None:
    with IdRegister("day", "t.csv") as ids:
        for part in parts:
            ids.add(part)
        ids.require_distinct(lambda: iter(parts))


@pytest.fixture(params=[1, 2, 5, 1 << 20])
def at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(module, "_HASHES_IN_MEMORY", request.param)
    return int(request.param)


WORDS = st.lists(st.lists(st.text("ab", max_size=4), max_size=12), max_size=5)
NUMBERS = st.lists(st.lists(st.integers(-20, 20), max_size=12), max_size=5)


@given(words=st.one_of(WORDS, NUMBERS), at_once=st.integers(1, 20))
def test_a_table_is_refused_if_and_only_if_some_id_is_there_twice(words: list[list[Any]], at_once: int) -> None:
    kind = "int64" if any(isinstance(value, int) for part in words for value in part) else object
    parts = [pd.Series(part, dtype=kind) for part in words]
    counts = Counter(value for part in words for value in part)
    twice = {value: count for value, count in counts.items() if count > 1}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_HASHES_IN_MEMORY", at_once)
        if not twice:
            require(parts)
            return
        with pytest.raises(InputError) as caught:
            require(parts)
    message = str(caught.value)
    assert any(f"{str(value)!r} is there {count} times" in message for value, count in twice.items())
    assert f"; {len(twice)} ids are repeated." in message or len(twice) == 1
    assert message.endswith("Remove the duplicates, or name another column as id.")


def test_an_id_repeated_in_another_of_many_parts_is_found(at_once: int) -> None:
    numbers = np.random.default_rng(0).permutation(211)
    parts = [pd.Series(part) for part in np.array_split(numbers, 7)]
    require(parts)
    with pytest.raises(InputError, match=r"t\.csv: column 'day' must have a distinct id .* '3' is there 2 times\. "):
        require([*parts, pd.Series([3])])


@pytest.mark.parametrize(
    "values",
    [
        [1, 2],
        [1.5, 2.5],
        ["a", "b"],
        [True, False],
        [dt.date(2026, 1, 1), dt.date(2026, 1, 2)],
        list(pd.date_range("2026-01-01", periods=2)),
        list(pd.date_range("2026-01-01", periods=2, tz="Europe/Berlin")),
        [b"a", b"b"],
    ],
    ids=str,
)
def test_ids_may_be_of_any_type(values: list[Any]) -> None:
    require([pd.Series(values[:1]), pd.Series(values[1:])])
    require([pd.Series(values)])
    with pytest.raises(InputError, match="is there 2 times"):
        require([pd.Series(values), pd.Series(values[:1])])


def test_the_type_of_a_column_does_not_make_the_same_id_another() -> None:
    """One day's file may hold 32-bit numbers, another day's 64-bit ones, a third texts in another encoding."""
    pairs: list[tuple[pd.Series[Any], pd.Series[Any]]] = [
        (pd.Series([7], dtype="int32"), pd.Series([7], dtype="int64")),
        (pd.Series(["x"], dtype=object), pd.Series(["x"], dtype="str")),
        (pd.Series([7], dtype="int64"), pd.Series(["7"], dtype=object)),
    ]
    for one, other in pairs:
        with pytest.raises(InputError, match="is there 2 times"):
            require([one, other])


@given(
    number=st.one_of(
        st.integers(-(2**63), 2**63 - 1), st.integers(-20, 20), st.sampled_from([10**18, 10**18 - 1, -(10**18)])
    )
)
def test_a_number_and_its_text_are_the_same_id_however_long_it_is(number: int) -> None:
    others = pd.Series(["a", "-0", "007", f"{number}x", f"+{number}"], dtype=object)
    require([pd.Series([number]), others])
    with pytest.raises(InputError, match=f"'{number}' is there 2 times"):
        require([pd.Series([number]), others, pd.Series([f"{number}", "b"], dtype=object)])


def test_no_ids_are_distinct() -> None:
    require([])
    require([pd.Series([], dtype=object)])


def test_a_hash_in_common_is_no_id_in_common(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_hashes", lambda ids: np.zeros(len(ids), dtype=np.uint64))
    require([pd.Series(["a", "b"]), pd.Series(["c"])])
    with pytest.raises(InputError, match="'a' is there 2 times"):
        require([pd.Series(["a", "b"]), pd.Series(["a"])])
