"""Summaries of self-assessments add up: over any split they are those of the whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble.evaluation.payoff_record import Record
from optensemble.evaluation.payoff_summary import Assessments
from tests.problems import Floats

NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40).map(np.array)


def split(values: Floats, cuts: list[int]) -> list[Assessments]:
    return [Assessments.of(part) for part in np.split(values, sorted(cut % (len(values) + 1) for cut in cuts))]


def require(found: Assessments, values: Floats) -> None:
    """What numpy says of all values at once."""
    size = float(np.abs(values).max()) + 1e-300
    assert found.count == len(values)
    assert found.mean == pytest.approx(values.mean(), rel=1e-12, abs=1e-12 * size)
    assert found.deviation == pytest.approx(values.std(), rel=1e-6, abs=1e-9 * size)
    assert (found.low, found.high) == (values.min(), values.max())


@given(values=NUMBERS, cuts=st.lists(st.integers(0, 40), max_size=5))
def test_sums_over_any_split_are_those_of_the_whole(values: Floats, cuts: list[int]) -> None:
    total = Assessments()
    for part in split(values, cuts):
        total += part
    require(total, values)


@given(values=NUMBERS, cuts=st.lists(st.integers(0, 40), min_size=2, max_size=5), seed=st.integers(0, 99))
def test_parts_may_be_added_in_any_order_and_in_pairs(values: Floats, cuts: list[int], seed: int) -> None:
    parts, rng = split(values, cuts), np.random.default_rng(seed)
    while len(parts) > 1:
        one, other = (parts.pop(int(rng.integers(len(parts)))) for _ in range(2))
        parts.append(one + other)
    require(parts[0], values)


@given(values=NUMBERS)
def test_an_empty_summary_is_the_neutral_element_of_addition(values: Floats) -> None:
    whole = Assessments.of(values)
    assert whole + Assessments() == whole == Assessments() + whole
    assert Assessments() + Assessments.of(np.empty(0)) == Assessments()
    assert Assessments().deviation == 0


def test_a_large_level_does_not_drown_a_small_spread() -> None:
    values = 1e9 + np.random.default_rng(0).normal(size=10_000)
    total = Assessments()
    for part in np.array_split(values, 100):
        total += Assessments.of(part)
    assert total.deviation == pytest.approx(values.std(), rel=1e-6)


@given(values=NUMBERS, centre=st.floats(-2e6, 2e6))
def test_the_farthest_value_is_known(values: Floats, centre: float) -> None:
    assert Assessments.of(values).beyond(centre) == np.abs(values - centre).max()


@pytest.mark.parametrize("time_ordered", [False, True])
def test_a_promise_needs_no_more_than_the_summary(time_ordered: bool) -> None:
    rng = np.random.default_rng(0)
    assessed = rng.normal(3.0, 2.0, size=300)
    realised = assessed + rng.normal(size=300) + np.linspace(0, 4, 300) * time_ordered
    record = Record(assessed, realised, time_ordered=time_ordered)
    for new in (rng.normal(3.0, 2.0, size=200), rng.normal(30.0, 9.0, size=50), np.array([2.0])):
        total = Assessments()
        for part in np.array_split(new, 7):
            total += Assessments.of(part)
        one, other = record.promise(total), record.promise(new)
        for name in ("mean", "low", "high", "rely_on"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-12), name
        assert (one.rows, one.unlike, one.note) == (other.rows, other.unlike, other.note)
