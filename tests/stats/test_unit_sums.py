"""Sums over units of dependent rows: sums of parts add up, and errors are those of all rows."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble.stats.blocks import UnitSums, sum_units
from optensemble.stats.sampling import Sampling
from tests.problems import Floats
from tests.stats.clusters import some_clusters

KINDS = st.sampled_from(["independent", "in time order", "clustered", "both"])


def sampling_of(kind: str, n: int, seed: int) -> Sampling:
    clusters = some_clusters(n, max(n // 4, 2), seed) if kind in ("clustered", "both") else None
    return Sampling(kind in ("in time order", "both"), clusters)


def columns_of(n: int, seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    return rng.normal(0.3, 2.0, size=(3, n)) + np.repeat(rng.normal(size=-(-n // 7)), 7)[:n]


@given(n=st.integers(20, 200), seed=st.integers(0, 1000), kind=KINDS, parts=st.integers(1, 6))
def test_sums_of_parts_are_the_sums_of_all(n: int, seed: int, kind: str, parts: int) -> None:
    values, units = columns_of(n, seed), sampling_of(kind, n, seed).units(n)
    pieces = np.array_split(np.random.default_rng(seed).permutation(n), parts)
    found = reduce(add, [UnitSums.of(values[:, rows], units.take(rows)) for rows in pieces])
    whole = UnitSums.of(values, units)
    assert found.rows == whole.rows == n
    for name in ("total", "squares", "blocks", "clusters"):
        ours, theirs = getattr(found, name), getattr(whole, name)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.errors, whole.errors, rtol=1e-9)


@given(n=st.integers(20, 200), seed=st.integers(0, 1000), kind=KINDS)
def test_errors_are_those_of_each_column(n: int, seed: int, kind: str) -> None:
    values, sampling = columns_of(n, seed), sampling_of(kind, n, seed)
    found = UnitSums.of(values, sampling.units(n))
    np.testing.assert_allclose(found.means, values.mean(axis=1), rtol=1e-9)
    np.testing.assert_allclose(found.variances, values.var(axis=1, ddof=1), rtol=1e-9)
    for number, column in enumerate(values):
        assert found.errors[number] == pytest.approx(sampling.error(column), rel=1e-9)
        assert found.design_effects[number] == pytest.approx(sampling.design_effect(column), rel=1e-9)
        alone = found.column(number)
        assert alone.means[0] == pytest.approx(column.mean(), rel=1e-9)
        assert alone.errors[0] == pytest.approx(sampling.error(column), rel=1e-9)
    for family in (1, 7):
        assert found.quantile(family) == sampling.quantile(n, family)


@given(n=st.integers(20, 200), seed=st.integers(0, 1000), kind=KINDS)
def test_the_difference_of_two_columns_is_a_column(n: int, seed: int, kind: str) -> None:
    values, sampling = columns_of(n, seed), sampling_of(kind, n, seed)
    difference = values[2] - values[0]
    squares = float(np.square(difference).sum())
    found = UnitSums.of(values, sampling.units(n)).column(2, minus=0, squares=squares)
    assert found.means[0] == pytest.approx(difference.mean(), rel=1e-9, abs=1e-12)
    assert found.errors[0] == pytest.approx(sampling.error(difference), rel=1e-9)
    assert found.quantile() == sampling.quantile(n)


@pytest.mark.parametrize("kind", ["independent", "in time order", "clustered", "both"])
@pytest.mark.parametrize("level", [0.0, 0.1, -7.3])
def test_a_column_that_never_varies_has_no_error(kind: str, level: float) -> None:
    sums = UnitSums.of(np.full((1, 130), level), sampling_of(kind, 130, 0).units(130))
    assert sums.errors[0] == 0
    assert sums.design_effects[0] == 1


@given(n=st.integers(1, 100), units=st.integers(1, 9), seed=st.integers(0, 100))
def test_units_are_summed_and_counted(n: int, units: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, unit = rng.normal(size=(2, n)), rng.integers(units, size=n)
    found = sum_units(values, unit, units)
    for number in range(units):
        np.testing.assert_allclose(found[number, :-1], values[:, unit == number].sum(axis=1), atol=1e-12)
        assert found[number, -1] == (unit == number).sum()
