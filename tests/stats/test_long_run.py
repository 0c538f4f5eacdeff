"""The long-run variance over the variance: the textbook's, and what it comes to for known dependence."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble.stats.long_run import long_run_ratio
from tests.problems import Floats

seeds = st.integers(0, 2**32 - 1)


def autoregressive(rng: np.random.Generator, n: int, share: float) -> Floats:
    noise, series = rng.normal(size=n + 50), np.zeros(n + 50)
    for i in range(1, n + 50):
        series[i] = share * series[i - 1] + noise[i]
    return series[50:]


def textbook(values: Floats) -> float:
    """Newey and West: every pair of rows counts by Bartlett's kernel of its distance."""
    n = len(values)
    lags = min(2 * math.ceil(4 * (n / 100) ** (2 / 9)), n - 1)
    away = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    weights = np.maximum(0.0, 1 - away / (lags + 1))
    centred = values - values.mean()
    return float(max(1.0, centred @ weights @ centred / (centred @ centred)))


@given(seeds, st.integers(2, 150), st.floats(-0.9, 0.9))
def test_it_is_that_of_the_textbook(seed: int, n: int, share: float) -> None:
    values = autoregressive(np.random.default_rng(seed), n, share)
    assert long_run_ratio(values) == pytest.approx(textbook(values), rel=1e-9)


@given(seeds, st.floats(-1e3, 1e3), st.sampled_from([1e-300, 1e-150, -1.0, 1e150, 1e300]))
def test_units_do_not_matter(seed: int, shift: float, unit: float) -> None:
    values = autoregressive(np.random.default_rng(seed), 80, 0.5)
    expected = pytest.approx(long_run_ratio(values), rel=1e-6)
    assert long_run_ratio(values + shift) == expected
    assert long_run_ratio(values * unit) == expected


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6])
def test_of_a_series_that_remembers_it_is_about_right(share: float) -> None:
    """Of such a series the ratio is (1 + share) / (1 − share); with 400 rows a little less is found."""
    true = (1 + share) / (1 - share)
    found = [long_run_ratio(autoregressive(np.random.default_rng(seed), 400, share)) for seed in range(200)]
    assert 0.8 * true < np.mean(found) < 1.15 * true


def test_negative_dependence_counts_as_none() -> None:
    assert long_run_ratio(np.tile([1.0, -1.0], 100)) == 1.0


def test_rows_that_are_repeated_count_once() -> None:
    found = [long_run_ratio(np.repeat(np.random.default_rng(seed).normal(size=400), 3)) for seed in range(50)]
    assert np.mean(found) == pytest.approx(3.0, rel=0.15)


@pytest.mark.parametrize("n", [0, 1, 2, 50])
@pytest.mark.parametrize("value", [0.0, 0.1, -1e300, 1e-310])
def test_of_a_constant_it_is_1(n: int, value: float) -> None:
    assert long_run_ratio(np.full(n, value)) == 1.0


@given(st.lists(st.floats(-1e300, 1e300), max_size=40))
def test_it_is_a_number_from_1_to_the_number_of_rows(values: list[float]) -> None:
    assert 1.0 <= long_run_ratio(np.array(values)) <= max(1, len(values))
