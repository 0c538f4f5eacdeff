"""Times put rows in order, whatever they are written as."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble.exceptions import InputError
from optensemble.tables.times import as_times, in_order


def order(values: Any, dtype: Any = None) -> list[int]:
    column = pd.Series(values, name="date", dtype=dtype)
    return [int(row) for row in in_order(as_times(column, "t.csv"))]


MOMENTS = st.lists(
    st.datetimes(dt.datetime(1990, 1, 1), dt.datetime(2090, 1, 1)).map(lambda time: time.replace(microsecond=0)),
    min_size=1,
    max_size=12,
)


@given(moments=MOMENTS)
def test_times_as_text_as_times_and_as_numbers_give_one_order(moments: list[dt.datetime]) -> None:
    expected = sorted(range(len(moments)), key=lambda i: moments[i])  # stable
    assert order([moment.isoformat() for moment in moments], object) == expected
    assert order([moment.isoformat(" ") for moment in moments], "str") == expected
    assert order([moment.isoformat() + "Z" for moment in moments], object) == expected
    assert order(pd.to_datetime(pd.Series(moments))) == expected
    assert order(pd.to_datetime(pd.Series(moments)).dt.tz_localize("Asia/Tokyo")) == expected
    assert order([moment.timestamp() for moment in moments]) == expected


def test_rows_of_the_same_time_stay_as_they_are() -> None:
    assert order([3, 1, 3, 1, 2]) == [1, 3, 4, 0, 2]
    assert order(["2025-01-02", "2025-01-01"] * 3) == [1, 3, 5, 0, 2, 4]


def test_dates_are_times_and_so_are_numbers() -> None:
    assert order([dt.date(2025, 3, 1), dt.date(2025, 2, 1)]) == [1, 0]
    assert order(["2025-03-01", "2025-02-01T06:00"]) == [1, 0]
    assert order([10.5, 9, -1]) == [2, 1, 0]


def test_numbers_that_were_read_as_text_are_numbers() -> None:
    """An id is read as text, and the same column may be the time: day 10 comes after day 9."""
    assert order(["10", "9", "100"], object) == [1, 0, 2]


def test_offsets_from_utc_may_change_with_the_season() -> None:
    assert order(["2025-03-30T01:59+01:00", "2025-03-30T03:00+02:00", "2025-03-30T00:30+00:00"]) == [2, 0, 1]


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (["2025-01-01", "yesterday"], "yesterday"),
        (["31.01.2025"], "31.01.2025"),
        (["01/31/2025"], "01/31/2025"),
        (["2025-02-30"], "2025-02-30"),
        ([dt.time(6, 0)], "06:00:00"),
        (["2025-01-01T00:00", "2025-01-01T00:00+01:00"], "2025-01-01T00:00"),
    ],
    ids=str,
)
def test_a_value_that_is_not_a_time_is_named(values: list[Any], shown: str) -> None:
    with pytest.raises(InputError) as caught:
        order(values, object)
    message = str(caught.value)
    assert message.startswith(f"t.csv: column 'date' must hold times; got {shown!r}. Write dates as 2026-01-31, ")
    assert "all with a time zone or all without" in message


def test_times_far_away_are_refused_or_in_order() -> None:
    assert order(["9999-12-31", "0001-01-01"]) == [1, 0]
    assert np.array_equal(order([1e300, -1e300]), [1, 0])
