"""The detector: its evidence is that of the definition, and a test of the mean whatever the distribution."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from optensemble.monitoring.detector import (
    DIRECTIONS,
    KINDS,
    LARGEST_ERROR,
    LEAST_VARIANCE,
    MOST_EVIDENCE,
    SIZES,
    Detector,
    Terms,
)
from tests.problems import Floats

seeds = st.integers(0, 2**32 - 1)
factors = st.floats(1.0, 20.0)


def terms_of(
    directions: tuple[str, ...] = ("less", "more"),
    margins: tuple[float, float] = (math.inf, 0.0),
    long_run: float = 1.0,
    threshold: float = 1e5,
) -> Terms:
    return Terms(np.array([DIRECTIONS[name] for name in directions]), np.array(margins), long_run, threshold)


def after(errors: Floats, terms: Terms, *, variance: float = 1.0, row: int = 0) -> Detector:
    detector = Detector.fresh(len(terms.signs), row)
    detector.variance[:] = variance
    return detector.look(errors, row, terms)[0]


def values_of_one_row(y: float, variance: float, long_run: float = 1.0) -> Floats:
    """E of a row, for each size of change: with no rows before it, the evidence is a fifth of it."""
    found = after(np.array([y]), terms_of(("more",), long_run=long_run), variance=variance)
    return np.asarray(len(SIZES) * found.evidence[KINDS.index("drifted"), 0])


# An e-value


@given(st.floats(-60.0, 60.0))
@example(0.0)
@example(3.0)
@example(-1.5)
def test_the_inequality_holds_for_all_numbers(x: float) -> None:
    assert math.exp(x - x**2 / 6) <= (1 + x + x**2 / 3) * (1 + 1e-12)


@given(st.floats(-60.0, 60.0), st.floats(-30.0, 0.0))
@example(-1.0, -3.0)
@example(3.0, -2.9)
def test_the_inequality_holds_about_every_mean_below_0(x: float, mean: float) -> None:
    slope = 1 + 2 * mean / 3 if mean > -3 else 0.0
    assert math.exp(x - x**2 / 6) <= (1 + slope * (x - mean) + (x - mean) ** 2 / 3) * (1 + 1e-9) + 1e-12


@given(st.floats(-1e6, 1e6), st.floats(1.0, 1e6), factors)
def test_what_a_row_shows_is_bounded_by_its_first_two_moments(y: float, variance: float, long_run: float) -> None:
    rates = SIZES / long_run / math.sqrt(variance)
    bounds = np.exp(-(rates**2) * variance / 3) * (1 + rates * y + (rates * y) ** 2 / 3)
    assert (values_of_one_row(y, variance, long_run) <= bounds * (1 + 1e-9)).all()


@given(seeds, st.integers(2, 6), st.floats(0.0, 3.0), st.floats(1.0, 10.0), factors)
def test_without_a_change_a_row_shows_at_most_1_on_average(
    seed: int, points: int, below: float, spare: float, long_run: float
) -> None:
    """Any distribution of a few values, far ones too, with a mean of at most 0 and a variance within bounds."""
    rng = np.random.default_rng(seed)
    shares, y = rng.dirichlet(np.full(points, 0.3)), np.exp(rng.normal(0.0, 2.0, points)) * rng.choice([-1, 1], points)
    y = y - shares @ y
    variance = max(LEAST_VARIANCE, spare * float(shares @ y**2))
    y -= below * np.sqrt(variance)
    average = sum(share * values_of_one_row(each, variance, long_run) for share, each in zip(shares, y, strict=True))
    assert (average <= 1 + 1e-9).all()


def test_a_change_shows_more_than_1_on_average() -> None:
    """The tests above would notice a mean above 0: else they could not fail."""
    y = np.random.default_rng(0).normal(0.8, 1.0, size=500)
    average = np.mean([values_of_one_row(each, 1.64) for each in y], axis=0)
    assert average.max() > 1.1


# The definition


class Found(NamedTuple):
    total: list[float]
    alarm: int
    onset: int
    strength: float


def by_definition(errors: Floats, sign: float, margin: float, terms: Terms) -> Found:
    """The sum, over all rows at which a change may have begun and all sizes, of the products of E since then."""
    f, v, gains, totals, alarm = terms.long_run, 1.0, list[list[float]](), list[float](), Found([], -1, -1, 0.0)
    for t, x in enumerate(errors.tolist()):
        y = sign * x - margin
        rates = [size / f / math.sqrt(v) for size in SIZES.tolist()]
        gains.append([rate * y - rate**2 * f * (y**2 + 2 * v) / 6 for rate in rates])
        since = [[math.fsum(gain[k] for gain in gains[s:]) for s in range(t + 1)] for k in range(len(SIZES))]
        by_size = [sum(math.exp(each) for each in sums) / len(SIZES) for sums in since]
        totals.append(sum(by_size))
        if totals[-1] >= terms.threshold and alarm.alarm < 0:
            best = since[by_size.index(max(by_size))]
            alarm = Found([], t, best.index(max(best)), totals[-1])
        v = max(LEAST_VARIANCE, v + (x**2 - v) / 250)
    return alarm._replace(total=totals)


@settings(max_examples=20)
@given(seeds, st.floats(1.0, 4.0), st.floats(0.0, 0.5), st.sampled_from([20.0, 200.0, 2000.0]))
def test_the_evidence_is_that_of_the_definition(seed: int, long_run: float, margin: float, threshold: float) -> None:
    rng = np.random.default_rng(seed)
    errors = rng.standard_t(3, size=50)
    errors[rng.integers(10, 40) :] += rng.choice([-2.0, 2.0])
    terms = terms_of(("more", "less"), (3 * margin, margin), long_run, threshold)
    detector, shown = Detector.fresh(2, 0).look(errors, 0, terms)
    for kind, off in enumerate(terms.margins.tolist()):
        for way, sign in enumerate(terms.signs.tolist()):
            expected = by_definition(errors, sign, off, terms)
            assert detector.evidence[kind, way].sum() == pytest.approx(expected.total[-1], rel=1e-9)
            if KINDS[kind] == "drifted":
                np.testing.assert_allclose(shown[:, way], expected.total, rtol=1e-9)
            assume(all(abs(total / threshold - 1) > 1e-6 for total in expected.total))
            assert detector.raised[kind, way].tolist() == [expected.alarm, expected.onset]
            assert detector.strength[kind, way] == pytest.approx(expected.strength, rel=1e-9)


def test_the_variance_is_a_running_mean_of_squares_with_a_floor() -> None:
    rng = np.random.default_rng(0)
    errors = rng.uniform(1.0, 6.0, size=400) * rng.choice([-1, 1], 400)  # the floor is never reached
    ages = np.arange(len(errors))[::-1]
    expected = (1 - 1 / 250) ** len(errors) + (errors**2 * (1 - 1 / 250) ** ages).sum() / 250
    assert after(errors, terms_of()).variance[0] == pytest.approx(expected, rel=1e-9)
    assert after(np.zeros(2000), terms_of()).variance[0] == LEAST_VARIANCE


@given(seeds, st.floats(1.0, 4.0))
def test_dependence_between_rows_makes_the_same_rows_show_less(seed: int, long_run: float) -> None:
    errors = np.random.default_rng(seed).normal(1.0, 1.0, size=30)
    alone, together = (after(errors, terms_of(("more",), long_run=f)).evidence[1, 0].sum() for f in (1.0, long_run))
    assert together <= alone * (1 + 1e-9)


# Rows and extremes


def test_rows_are_numbered_by_the_caller() -> None:
    errors = np.r_[np.random.default_rng(0).normal(size=100), np.full(60, -1.5)]
    first, later = (after(errors, terms_of(("less",)), row=row) for row in (0, 12_345))
    assert (first.raised[1, 0] >= [100, 80]).all()
    np.testing.assert_array_equal(later.raised[1, 0], first.raised[1, 0] + 12_345)
    np.testing.assert_array_equal(later.began, first.began + 12_345)
    np.testing.assert_array_equal(later.evidence, first.evidence)


def test_kinds_without_a_margin_and_rows_that_are_none_are_not_looked_at() -> None:
    detector = after(np.full(50, -2.0), terms_of())
    broken, drifted = (detector.raised[KINDS.index(kind)] for kind in ("broken", "drifted"))
    assert (broken == -1).all()
    assert (drifted >= 0).any()
    assert not detector.evidence[KINDS.index("broken")].any()
    again, shown = detector.look(np.empty(0), 50, terms_of())
    assert shown.shape == (0, 2)
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(again, detector, strict=True))


def test_a_detector_does_not_change() -> None:
    detector = Detector.fresh(1, 3)
    detector.look(np.ones(5), 3, terms_of(("more",)))
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(detector, Detector.fresh(1, 3), strict=True))


@pytest.mark.parametrize("error", [1e70, 1e120, np.inf])
@pytest.mark.parametrize("margin", [0.0, 0.1, 1e120, 1e300])
@pytest.mark.parametrize("long_run", [1.0, 1e120])
def test_huge_errors_neither_overflow_nor_hide_what_follows(error: float, margin: float, long_run: float) -> None:
    terms = terms_of(margins=(1e300, margin), long_run=long_run)
    detector = after(np.tile([error, -error, 0.0], 3), terms)
    for each in detector:
        assert np.isfinite(each).all()
    assert detector.variance[0] <= LARGEST_ERROR**2
    capped = after(np.tile([LARGEST_ERROR, -LARGEST_ERROR, 0.0], 3), terms)
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(detector, capped, strict=True))


@pytest.mark.parametrize("size", [10.0, 1e6, 1e60])
def test_a_change_is_seen_however_large_it_is(size: float) -> None:
    """The rows before the change say little of its size: the variance has to follow first."""
    detector = after(np.r_[np.zeros(300), np.full(700, -size)], terms_of())
    row, onset = detector.raised[1, 0].tolist()
    assert 300 <= onset <= row < 1000


def test_evidence_ends_somewhere() -> None:
    detector, shown = Detector.fresh(1, 0).look(np.ones(3000), 0, terms_of(("more",)))
    assert detector.evidence.max() == MOST_EVIDENCE
    assert np.isfinite(shown).all()
    assert shown[-1, 0] <= len(SIZES) * MOST_EVIDENCE
