"""Numbers, shares and intervals as a report shows them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from optensemble.report.numbers import NOTHING, decimals, interval, number, percent
from tests.report.pages import read_number


@given(st.floats(-1e12, 1e12), st.integers(0, 9))
def test_a_shown_number_is_within_half_a_unit_of_its_last_digit(value: float, digits: int) -> None:
    shown = number(value, digits, "+")
    assert abs(read_number(shown) - value) <= 0.5 * 10.0**-digits + 1e-9 * abs(value)
    assert "-" not in shown
    assert shown.startswith("+") == (round(value, digits) > 0)


@given(st.floats(1e-8, 1e8))
def test_an_uncertainty_is_shown_with_two_significant_digits(doubt: float) -> None:
    digits = decimals([0.0], [doubt, doubt, doubt])
    assert abs(round(doubt, digits) - doubt) <= 0.05 * doubt + 1e-12 or digits == 0
    assert digits == 0 or doubt < 10


@given(st.floats(0, 1))
def test_a_share_looks_like_nothing_or_all_only_if_it_is(share: float) -> None:
    assert (percent(share) == "0\N{NO-BREAK SPACE}%") == (share == 0)
    assert (percent(share) == "100\N{NO-BREAK SPACE}%") == (share == 1)


def test_an_interval_without_limits_is_a_dash() -> None:
    assert interval(-np.inf, np.inf, 2) == NOTHING
    assert interval(np.nan, np.nan, 2) == NOTHING
    assert interval(-np.inf, 1.0, 1) == "−∞ to 1.0"
    assert interval(0.5, np.inf, 1) == "0.5 to ∞"
    assert interval(-0.25, 0.5, 2, "+") == "−0.25 to +0.50"


def test_numbers_too_large_or_small_for_decimals_are_written_with_powers() -> None:
    assert number(-1.2346e20, 2) == "−1.235e+20"
    assert number(1.2346e-12, decimals([1.2346e-12])) == "1.235e−12"
