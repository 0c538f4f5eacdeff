"""Numbers as they are shown: to the digits that their uncertainty allows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble._core.number_format import (
    NO_NUMBER,
    column_decimals,
    format_by_error,
    format_interval,
    format_number,
    format_percent,
)


def read_number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


@given(
    st.lists(st.floats(-1e12, 1e12, allow_subnormal=False), min_size=2, max_size=4),
    st.floats(1e-6, 1e6),
)
def test_they_are_the_numbers_to_the_digits_shown(values: list[float], error: float) -> None:
    written = format_by_error([*values, error])
    read = [read_number(text) for text in written]
    assert np.allclose(read[:-1], values, rtol=1e-5, atol=error)
    assert read[-1] == pytest.approx(error, rel=0.3)
    for a, b in pairwise(values):
        if abs(a - b) > error:
            assert format_by_error([a, b, error])[0] != format_by_error([a, b, error])[1]


def test_numbers_without_any_error_or_size() -> None:
    assert format_by_error([2.0, 2.0, 0.0]) == ["2.000", "2.000", "0.000"]
    assert format_by_error([0.0, 0.0, 0.0]) == ["0", "0", "0"]
    assert format_by_error([1e20, 2e20, 1e18]) == ["1e+20", "2e+20", "1e+18"]
    assert format_by_error([1e-20, -2e-20, 1e-21]) == ["1e−20", "−2e−20", "1e−21"]


@given(st.floats(-1e12, 1e12), st.integers(0, 9))
def test_a_shown_number_is_within_half_a_unit_of_its_last_digit(value: float, digits: int) -> None:
    shown = format_number(value, digits, "+")
    assert abs(read_number(shown) - value) <= 0.5 * 10.0**-digits + 1e-9 * abs(value)
    assert "-" not in shown
    assert shown.startswith("+") == (round(value, digits) > 0)


@given(st.floats(1e-8, 1e8))
def test_an_error_is_shown_with_two_digits(error: float) -> None:
    digits = column_decimals([0.0], [error, error, error])
    assert abs(round(error, digits) - error) <= 0.05 * error + 1e-12 or digits == 0
    assert digits == 0 or error < 10


@given(st.floats(0, 1))
def test_a_share_looks_like_nothing_or_all_only_if_it_is(share: float) -> None:
    assert (format_percent(share) == "0\N{NO-BREAK SPACE}%") == (share == 0)
    assert (format_percent(share) == "100\N{NO-BREAK SPACE}%") == (share == 1)


def test_an_interval_without_limits_is_a_dash() -> None:
    assert format_interval(-np.inf, np.inf, 2) == NO_NUMBER
    assert format_interval(np.nan, np.nan, 2) == NO_NUMBER
    assert format_interval(-np.inf, 1.0, 1) == "−∞ to 1.0"
    assert format_interval(0.5, np.inf, 1) == "0.5 to ∞"
    assert format_interval(-0.25, 0.5, 2, "+") == "−0.25 to +0.50"


def test_numbers_too_large_or_small_for_decimals_are_written_with_powers() -> None:
    assert format_number(-1.2346e20, 2) == "−1.235e+20"
    assert format_number(1.2346e-12, column_decimals([1.2346e-12])) == "1.235e−12"
