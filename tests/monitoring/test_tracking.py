"""Tracking: what it leaves is known exactly, and intervals get as wide as they must be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble.monitoring.tracking import MEMORY, Tracking
from tests.problems import Floats

seeds = st.integers(0, 2**32 - 1)
OPEN = np.inf


class Rows(NamedTuple):
    realised: Floats
    raw: Floats
    counts: Floats


def rows_of(seed: int, n: int = 60, most: float = 5.0) -> Rows:
    rng = np.random.default_rng(seed)
    counts = np.where(rng.random(n) < 0.2, 0.0, rng.uniform(0.0, most, n))
    return Rows(rng.standard_t(3, size=n) + rng.normal(), rng.normal(3.0, 2.0, n), counts)


def learned(tracking: Tracking, rows: Rows, promised: Floats, limits: tuple[Any, Any] = (-OPEN, OPEN)) -> Tracking:
    low, high = (np.broadcast_to(np.asarray(limit, np.float64), promised.shape).copy() for limit in limits)
    return tracking.learn(rows.realised, rows.raw, promised, (low, high), rows.counts)


def one(rows: Rows, i: int) -> Rows:
    return Rows(*(each[i : i + 1] for each in rows))


# The identity


@given(seeds, st.sampled_from([1.0, 5.0, 1e3]), st.integers(0, 30))
def test_what_is_left_is_known_exactly(seed: int, most: float, delay: int) -> None:
    """Whatever the weights, the delays and the order in which labels come: errors are τ·correction + delayed."""
    rows, rng = rows_of(seed, most=most), np.random.default_rng(seed)
    arrival = np.arange(len(rows.raw)) + rng.integers(0, delay + 1, len(rows.raw))
    order = np.lexsort((rng.random(len(rows.raw)), arrival))
    tracking, promised, come = Tracking(), np.empty(len(rows.raw)), 0
    for played in range(len(rows.raw)):
        promised[played] = rows.raw[played] + tracking.correction
        while come < len(order) and arrival[order[come]] <= played:
            i = order[come]
            tracking, come = learned(tracking, one(rows, i), promised[i : i + 1]), come + 1
    done = order[:come]
    errors = rows.counts[done] @ (rows.realised[done] - promised[done])
    scale = 1 + rows.counts.sum() * (np.abs(rows.realised).max() + np.abs(rows.raw).max())
    assert come > 0
    assert tracking.errors == pytest.approx(errors, abs=1e-12 * scale)
    assert tracking.counted == pytest.approx(rows.counts[done].sum())
    assert tracking.errors == pytest.approx(MEMORY * tracking.correction + tracking.delayed, abs=1e-11 * scale)


@given(seeds)
def test_the_identity_holds_for_any_promise_made(seed: int) -> None:
    """A promise that was clipped, or corrected by something else, is a delay like any other."""
    rows, rng = rows_of(seed), np.random.default_rng(seed + 1)
    tracking = learned(Tracking(), rows, rng.normal(0.0, 10.0, len(rows.raw)))
    assert tracking.errors == pytest.approx(MEMORY * tracking.correction + tracking.delayed, abs=1e-9)


def test_without_delay_and_with_equal_weights_nothing_is_delayed() -> None:
    rows, tracking = rows_of(0)._replace(counts=np.ones(60)), Tracking()
    for i in range(60):
        tracking = learned(tracking, one(rows, i), rows.raw[i : i + 1] + tracking.correction)
    assert tracking.delayed == pytest.approx(0.0, abs=1e-12)
    assert tracking.mean_error == pytest.approx(MEMORY * tracking.correction / 60)


# The correction


@given(seeds, st.floats(0.1, MEMORY))
def test_the_correction_is_an_exponential_mean_of_errors(seed: int, count: float) -> None:
    rows = rows_of(seed)
    rows = rows._replace(counts=np.full(60, count))
    gain, ages = count / MEMORY, np.arange(60)[::-1]
    expected = (gain * (1 - gain) ** ages * (rows.realised - rows.raw)).sum()
    assert learned(Tracking(), rows, rows.raw).correction == pytest.approx(expected, abs=1e-9)


def test_a_row_of_very_large_weight_replaces_the_correction() -> None:
    rows = Rows(np.array([7.0]), np.array([2.0]), np.array([1e6]))
    assert learned(Tracking(correction=100.0), rows, rows.raw).correction == 5.0


def test_the_correction_follows_a_level_that_moves() -> None:
    rng = np.random.default_rng(0)
    raw = rng.normal(size=600)
    realised = raw + np.r_[np.zeros(300), np.full(300, 4.0)] + 0.1 * rng.normal(size=600)
    rows = Rows(realised, raw, np.ones(600))
    assert learned(Tracking(), rows, raw).correction == pytest.approx(4.0, abs=0.2)


def test_rows_that_count_for_nothing_change_nothing() -> None:
    before = learned(Tracking(), rows_of(1), rows_of(1).raw, (2.0, 4.0))
    rows = rows_of(2)._replace(counts=np.zeros(60))
    assert learned(before, rows, rows.raw + 9, (2.0, 4.0)) == before


@given(seeds, st.lists(st.integers(0, 60), max_size=4))
def test_rows_may_come_in_any_batches(seed: int, cuts: list[int]) -> None:
    rows, rng = rows_of(seed), np.random.default_rng(seed)
    promised = rows.raw + rng.normal(size=60)
    low, high = promised - 1, promised + 1
    whole, parts = learned(Tracking(), rows, promised, (low, high)), Tracking()
    for i, j in zip([0, *sorted(cuts)], [*sorted(cuts), 60], strict=True):
        parts = learned(parts, Rows(*(each[i:j] for each in rows)), promised[i:j], (low[i:j], high[i:j]))
    assert astuple(parts) == astuple(whole)


def test_nothing_learned_is_no_correction() -> None:
    nothing = learned(Tracking(), Rows(np.empty(0), np.empty(0), np.empty(0)), np.empty(0))
    assert nothing == Tracking()
    assert nothing.mean_error == 0.0


# Intervals

Payoffs = Callable[[np.random.Generator, int], Floats]
NOISES: dict[str, Payoffs] = {
    "normal": lambda rng, n: rng.normal(0.0, 3.0, n),
    "heavy": lambda rng, n: rng.standard_t(2, size=n),
    "skewed": lambda rng, n: rng.exponential(size=n) - 1,
    "drifting": lambda rng, n: rng.normal(np.linspace(0.0, 3.0, n), np.linspace(0.5, 2.0, n)),
}


@pytest.mark.parametrize("kind", NOISES)
def test_intervals_get_as_wide_as_they_must_be(kind: str) -> None:
    """One row in forty is outside on either side, whatever the payoffs: the width adds up what was missed."""
    realised = NOISES[kind](np.random.default_rng(0), 4000)
    tracking, outside = Tracking(), np.zeros(2)
    for payoff in realised:
        low, high = -tracking.below, tracking.above
        outside += payoff < low, payoff > high
        row = Rows(np.array([payoff]), np.zeros(1), np.ones(1))
        tracking = learned(tracking, row, np.zeros(1), (low, high))
    for count, width in zip(outside, (tracking.below, tracking.above), strict=True):
        assert count == pytest.approx(0.025 * 4000 + np.log(width) / 0.05)
        assert count / 4000 == pytest.approx(0.025, abs=0.015)


def test_each_side_has_a_width_of_its_own() -> None:
    rows = Rows(np.array([5.0, 5.0]), np.zeros(2), np.ones(2))
    above = learned(Tracking(), rows, np.zeros(2), (-1.0, 1.0))
    assert above.above > 1 > above.below
    below = learned(Tracking(), rows._replace(realised=-rows.realised), np.zeros(2), (-1.0, 1.0))
    assert (below.below, below.above) == (above.above, above.below)


def test_a_row_at_the_limit_is_inside() -> None:
    at = Rows(np.array([-1.0, 1.0]), np.zeros(2), np.ones(2))
    tracking = learned(Tracking(), at, np.zeros(2), (-1.0, 1.0))
    assert max(tracking.below, tracking.above) < 1


@pytest.mark.parametrize(("realised", "width"), [(0.0, 0.1), (9.0, 1e6)])
@pytest.mark.parametrize("count", [1.0, 1e9])
def test_widths_have_bounds(realised: float, width: float, count: float) -> None:
    rows = Rows(np.full(6000, realised), np.zeros(6000), np.full(6000, count))
    tracking = learned(Tracking(), rows, np.zeros(6000), (-1.0, 1.0))
    assert tracking.above == width
    assert tracking.below == 0.1
