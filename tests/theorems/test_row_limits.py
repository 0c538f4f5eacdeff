"""The limits of a single row hold its payoff about 95 times out of 100, whatever the noise; found by simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import optensemble as oe
from optensemble import feasible
from optensemble.evaluation.payoff_record import Record
from tests.problems import Floats

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]

Noise = Callable[[np.random.Generator, int], Floats]

NOISES: dict[str, Noise] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "skewed": lambda rng, n: rng.lognormal(0.0, 1.0, size=n) - np.exp(0.5),
    "skewed the other way": lambda rng, n: 1.0 - rng.exponential(size=n),
    "heavy": lambda rng, n: rng.standard_t(3, size=n),
}
SIMULATIONS, NEW = 300, 200


def payoffs(rng: np.random.Generator, noise: Noise, n: int) -> tuple[Floats, Floats]:
    """What was assessed, and what was realised: an assessment that claims too much, and noise."""
    assessed = rng.normal(3.0, 2.0, size=n)
    return assessed, 1.0 + 0.6 * assessed + noise(rng, n)


def missed(record: Record, assessed: Floats, realised: Floats) -> tuple[float, float]:
    """Return the shares of rows below and above their limits."""
    low, high = record.limits(assessed)
    return float((realised < low).mean()), float((realised > high).mean())


@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("n", [100, 400])
@pytest.mark.parametrize("sign", [1.0, -1.0], ids=["payoff", "cost"])
def test_limits_hold_in_95_of_100_and_are_missed_as_often_above_as_below(kind: str, n: int, sign: float) -> None:
    below, above = np.mean(
        [
            missed(Record(*payoffs(rng, NOISES[kind], n), sign), *payoffs(rng, NOISES[kind], NEW))
            for rng in map(np.random.default_rng, range(SIMULATIONS))
        ],
        axis=0,
    )
    allowed = int((n + 1) * 0.025) / (n + 1)  # the share left out on either side
    error = 3 * np.sqrt(allowed / n / SIMULATIONS) + 3 * np.sqrt(allowed / NEW / SIMULATIONS)
    learned = 2 / n  # a line of two numbers was fitted to the record
    assert abs(below - allowed) <= error + learned
    assert abs(above - allowed) <= error + learned
    assert 0.93 <= 1 - below - above <= 0.97


def test_limits_as_of_normal_noise_would_be_missed_on_one_side() -> None:
    """The simulation would notice: else the test above could not fail."""
    rng = np.random.default_rng(0)
    assessed, realised = payoffs(rng, NOISES["skewed"], 20_000)
    record = Record(assessed, realised)
    half = 1.96 * record.residual.std()
    above, below = record.residual > half, record.residual < -half
    assert above.mean() > 0.03
    assert below.mean() < 0.01


@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("goes_on", [True, False], ids=["goes on", "stops"])
def test_limits_follow_a_trend_of_rows_in_time_order_that_goes_on_or_stops(kind: str, goes_on: bool) -> None:
    """The level rises by three standard deviations, and rises further for a quarter as many rows, or stays."""
    n, ahead, held, ignored = 400, 100, [], []
    spread = float(NOISES[kind](np.random.default_rng(0), 10_000).std())
    when = np.arange(n + ahead)
    level = 3 * spread * (when if goes_on else np.minimum(when, n)) / n
    for seed in range(SIMULATIONS):
        assessed, realised = payoffs(np.random.default_rng(seed), NOISES[kind], n + ahead)
        realised = realised + level
        record = Record(assessed[:n], realised[:n], time_ordered=True)
        held.append(missed(record, assessed[n:], realised[n:]))
        ignored.append(missed(replace(record, time_ordered=False), assessed[n:], realised[n:]))
    below, above = np.mean(held, axis=0)
    assert 0.93 <= 1 - below - above <= 0.99
    assert np.mean(ignored, axis=0)[1] > above + 0.02  # the simulation would notice


@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("way", ["clusters", "time"])
def test_limits_allow_for_levels_that_are_drawn_anew(kind: str, way: str) -> None:
    """Half of the variance is common to a cluster, or to a tenth of the rows in time order; the next is another."""
    n, size, held, ignored = 400, 10 if way == "clusters" else 40, [], []
    spread = float(NOISES[kind](np.random.default_rng(0), 10_000).std())
    clusters = np.arange(n + size) // size
    for seed in range(2 * SIMULATIONS):
        rng = np.random.default_rng(seed)
        assessed, realised = payoffs(rng, NOISES[kind], n + size)
        realised = realised + spread * rng.normal(size=clusters[-1] + 1)[clusters]
        known = {"clusters": clusters[:n]} if way == "clusters" else {"time_ordered": True}
        plain = Record(assessed[:n], realised[:n])
        held.append(missed(replace(plain, **known), assessed[n:], realised[n:]))
        ignored.append(missed(plain, assessed[n:], realised[n:]))
    assert 0.93 <= 1 - np.sum(np.mean(held, axis=0)) <= 0.99
    assert np.sum(np.mean(ignored, axis=0)) >= np.sum(np.mean(held, axis=0))


@pytest.mark.parametrize("kind", ["normal", "skewed"])
@pytest.mark.parametrize("sense", ["max", "min"])
def test_limits_of_a_fitted_ensemble_hold_the_payoff_of_fresh_rows(kind: str, sense: str) -> None:
    held = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, fresh = rng.normal(size=(300, 3)), rng.normal(size=(2000, 3))
        Y, Y_fresh = (rows + NOISES[kind](rng, rows.size).reshape(rows.shape) for rows in (X, fresh))
        models = [("one", lambda X: X * [1, 1, 0]), ("two", lambda X: X * [0, 1, 1])]
        ensemble = oe.DecisionEnsemble(models=models, feasible=feasible.Simplex(3), sense=sense).fit(X, Y)
        answer = ensemble.answer(fresh)
        payoff = (answer.actions * Y_fresh).sum(axis=1)
        held.append(((answer.low <= payoff) & (payoff <= answer.high)).mean())
    assert 0.93 <= np.mean(held) <= 0.97


# Construction


@given(n=st.integers(2, 200), seed=st.integers(0, 50))
def test_limits_leave_out_the_same_number_of_recorded_rows_on_either_side(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    assessed, realised = payoffs(rng, NOISES["skewed"], n)
    low, high = Record(assessed, realised).limits(assessed)
    outside = int((n + 1) / 40 + 1e-9)
    if not outside:
        assert np.isneginf(low).all()
        assert np.isposinf(high).all()
        return
    inside = (low + 1e-9 < realised) & (realised < high - 1e-9)  # the limits themselves are values of the record
    assert inside.sum() == n - 2 * outside
    assert (realised > high - 1e-9).sum() == outside


@pytest.mark.parametrize(("n", "known"), [(38, False), (39, True)])
def test_few_rows_give_no_limits(n: int, known: bool) -> None:
    rng = np.random.default_rng(0)
    low, high = Record(*payoffs(rng, NOISES["normal"], n)).limits(np.zeros(3))
    assert np.isfinite([low, high]).all() == known
    assert low.shape == high.shape == (3,)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_limits_go_with_the_promise_of_the_row(sign: float) -> None:
    """What flatters a record is taken off the promise of each row, and off its limits: a payoff falls, a cost rises."""
    rng = np.random.default_rng(0)
    record = Record(*payoffs(rng, NOISES["skewed"], 200), sign)
    cursed, new = replace(record, curse=0.25), rng.normal(3.0, 2.0, size=5)
    for one, other in zip(record.limits(new), cursed.limits(new), strict=True):
        np.testing.assert_allclose(other, one - sign * 0.25)
    np.testing.assert_allclose(cursed.correct(new), record.correct(new) - sign * 0.25)
    low, high = record.limits(new)
    assert np.ptp(high - low) < 1e-9  # as wide for every row
    assert (low < record.correct(new)).all()
    assert (record.correct(new) < high).all()
