"""A monitor raises a false alarm within its horizon at most as often as it says, whatever the distribution."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble.ensembles._watch import monitor_of
from optensemble.evaluation.payoff_record import Record
from optensemble.monitoring.monitor import Monitor
from optensemble.stats.long_run import long_run_ratio
from tests.monitoring.worlds import INDEPENDENT, Errors, autoregressive
from tests.problems import Floats

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]

REPETITIONS, FITTED, HORIZON, FALSE_ALARMS = 500, 400, 1000, 0.05
MONITORS: dict[str, dict[str, Any]] = {
    "default": {},
    "less": {"directions": "less", "tolerance": 0.0},
    "more": {"directions": "more", "tolerance": 0.0},
    "both": {"tolerance": 0.0},
}


def alarms(errors: Errors, *, dependent: bool = False, drop: float = 0.0, **given: Any) -> float:
    """Return the share of monitors with an alarm; their scale is that of fitting rows."""
    raised = 0
    for seed in range(REPETITIONS):
        drawn = errors(np.random.default_rng(seed), FITTED + HORIZON)
        fitting, rows = drawn[:FITTED], drawn[FITTED:] - drop
        ratio = long_run_ratio(fitting) if dependent else 1.0
        monitor = Monitor(float(fitting.std()), long_run=ratio, horizon=HORIZON, false_alarms=FALSE_ALARMS, **given)
        raised += bool(monitor.observe(0.0, rows).standing)
    return raised / REPETITIONS


def most(share: float) -> float:
    return share + 2 * float(np.sqrt(share * (1 - share) / REPETITIONS))


@pytest.mark.parametrize("kind", INDEPENDENT)
@pytest.mark.parametrize("name", MONITORS)
def test_false_alarms_are_as_rare_as_told(kind: str, name: str) -> None:
    assert alarms(INDEPENDENT[kind], **MONITORS[name]) <= most(FALSE_ALARMS)


@pytest.mark.parametrize("kind", INDEPENDENT)
def test_the_edge_of_the_tolerance_is_no_change(kind: str) -> None:
    """All that is within the tolerance is allowed for, in its worst place too."""
    terms: dict[str, Any] = {"directions": "less", "horizon": HORIZON, "false_alarms": FALSE_ALARMS}
    raised = 0
    for seed in range(REPETITIONS):
        rows = INDEPENDENT[kind](np.random.default_rng(seed), HORIZON)
        raised += bool(Monitor(1.0, tolerance=0.3, **terms).observe(0.3, rows).standing)
    assert raised / REPETITIONS <= most(FALSE_ALARMS)


def test_dependent_rows_need_their_long_run_ratio() -> None:
    """An approximation: with it alarms are not much more often than told, without it they are."""
    assert alarms(autoregressive, dependent=True, **MONITORS["less"]) <= most(0.08)
    assert alarms(autoregressive, **MONITORS["less"]) > 0.5


@pytest.mark.parametrize("kind", INDEPENDENT)
def test_a_true_change_is_found(kind: str) -> None:
    """The tests above would notice a monitor that never says anything."""
    assert alarms(INDEPENDENT[kind], drop=0.5, **MONITORS["less"]) > 0.95


FEW, LATER = 100, 5000


def promised_by(realised: Floats) -> tuple[Record, float]:
    """A record of few rows, whose mean is promised."""
    record = Record(np.zeros(len(realised)), realised)
    return record, float(record.correct(np.zeros(1))[0])


@pytest.mark.parametrize("n", [60, FEW, 300])
@pytest.mark.parametrize("kind", ["normal", "t, 3 degrees of freedom", "exponential, large gains"])
def test_the_error_of_a_promise_that_rests_on_few_rows_is_no_change(kind: str, n: int) -> None:
    """The world never changes; what is promised of it is the mean of the rows that the scale is from."""
    kinds = Counter[str]()
    for seed in range(REPETITIONS):
        drawn = INDEPENDENT[kind](np.random.default_rng(seed), n + LATER)
        record, promised = promised_by(drawn[:n])
        standing = monitor_of(record, "max").observe(promised, drawn[n:]).standing
        kinds.update({alarm.kind for alarm in standing})
    assert max(kinds.values(), default=0) / REPETITIONS <= most(FALSE_ALARMS)


@pytest.mark.parametrize("kind", ["normal", "exponential, large losses"])
def test_a_change_is_found_though_a_promise_rests_on_few_rows(kind: str) -> None:
    raised = 0
    for seed in range(100):
        drawn = INDEPENDENT[kind](np.random.default_rng(seed), FEW + HORIZON)
        record, promised = promised_by(drawn[:FEW])
        raised += bool(monitor_of(record, "max").observe(promised, drawn[FEW:] - 1.0).standing)
    assert raised > 95


WORLDS, DIMENSION = 150, 3
COLUMNS = [(f"m{i}", oe.Columns([DIMENSION * i + j for j in range(DIMENSION)])) for i in range(3)]


def world(seed: int, n: int) -> tuple[Floats, Floats]:
    """What three members say of labels, which never changes."""
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=(n, DIMENSION))
    said = [signal + noise * rng.normal(size=signal.shape) for noise in (0.5, 1.0, 2.0)]
    return np.hstack(said), signal + rng.normal(size=signal.shape)


def followed(X: Floats, Y: Floats, n: int, weights: Floats | None = None) -> oe.LiveEnsemble:
    """An ensemble on the first rows, once the labels of all others have come."""
    ensemble = oe.DecisionEnsemble(COLUMNS, feasible=feasible.Simplex(DIMENSION), context=None)
    fit = ensemble.fit(X[:n], Y[:n], sample_weight=None if weights is None else weights[:n], time_ordered=False)
    live, counts = oe.LiveEnsemble(fit, refit="never"), None if weights is None else weights[n:]
    live.answer(X[n:])
    return live.observe(np.arange(len(X) - n), Y[n:], sample_weight=counts)


def raised_by(live: oe.LiveEnsemble) -> bool:
    assert live.monitor is not None
    return bool(live.monitor.standing)


def few_of(worlds: int) -> int:
    """The most alarms that are in line with the rate, by two standard errors."""
    return int(worlds * FALSE_ALARMS + 2 * np.sqrt(worlds * FALSE_ALARMS * (1 - FALSE_ALARMS)))


def test_an_ensemble_that_was_fitted_on_few_rows_raises_no_false_alarms() -> None:
    raised = sum(raised_by(followed(*world(seed, FEW + LATER), FEW)) for seed in range(WORLDS))
    assert raised <= few_of(WORLDS)


def stratified(seed: int) -> tuple[Floats, Floats, Floats]:
    """Of rows with high labels one in five is in the sample, and counts for five."""
    X, Y = world(seed, 14_000)
    high = Y.mean(axis=1) > 0
    kept = ~high | (np.random.default_rng(seed + 10**6).random(len(Y)) < 0.2)
    return X[kept][:6000], Y[kept][:6000], np.where(high, 5.0, 1.0)[kept][:6000]


def test_a_weighted_sample_of_a_world_that_never_changes_raises_no_alarm() -> None:
    """Its promise is a weighted mean: errors count by weights too."""
    worlds = 20
    raised = sum(raised_by(followed(X, Y, 1000, weights)) for X, Y, weights in map(stratified, range(worlds)))
    assert raised <= few_of(worlds)


def test_a_change_in_a_weighted_sample_is_found() -> None:
    raised = 0
    for seed in range(5):
        X, Y, weights = stratified(seed)
        Y[1500:] -= 1.0
        raised += raised_by(followed(X, Y, 1000, weights))
    assert raised == 5
