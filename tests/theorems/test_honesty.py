"""Honest on rows never seen: promises are kept as often as they say, nothing is found in noise, and no harm is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from scipy import stats
from threadpoolctl import threadpool_limits

import optensemble as oe
from optensemble import feasible
from tests.problems import Floats

pytestmark = [
    pytest.mark.slow,
    pytest.mark.no_cover,
    pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning"),  # some members are useless on purpose
]

OMEGA = feasible.Simplex(3)
ACCESS = pytest.mark.parametrize("access", ["models", "policies", "both"])
FITS = 100
ROWS = 150
FRESH = 300


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with threadpool_limits(1):
        yield


Model = Callable[[Floats], Floats]
MODELS: list[tuple[str, Model]] = [
    ("left", lambda X: X[:, :3]),
    ("right", lambda X: X[:, 3:]),
    ("muddled", lambda X: 0.5 * X[:, :3] - 0.2 * X[:, 3:]),
]
POLICIES = [(name, lambda X, m=model: OMEGA.argmax(np.ascontiguousarray(m(X)))) for name, model in MODELS]


def make(access: str) -> oe.DecisionEnsemble:
    members = {"models": (MODELS, None), "policies": (None, POLICIES), "both": (MODELS[:1], POLICIES[1:])}
    return oe.DecisionEnsemble(*members[access], feasible=OMEGA)


def draw(rng: np.random.Generator, n: int, signal: float) -> tuple[Floats, Floats]:
    """Labels that two of the members see one half of each; without a signal, no member sees anything."""
    X = rng.normal(size=(n, 6))
    return X, signal * (X[:, :3] + X[:, 3:]) + 2.0 * rng.normal(size=(n, 3))


def payoff(actions: Floats, labels: Floats) -> Floats:
    return np.asarray((actions * labels).sum(axis=1))


@dataclass
class Trial:
    """What was promised of fresh rows, what they brought, and whether anything was found."""

    kept: bool
    relied: bool
    gap: float
    nothing: bool


@cache
def trials(access: str, signal: float) -> list[Trial]:
    found = []
    for seed in range(FITS):
        X, Y = draw(np.random.default_rng([seed, 11]), ROWS + FRESH, signal)
        ensemble = make(access).fit(X[:ROWS], Y[:ROWS])
        promise = ensemble.promise(X[ROWS:])
        earned = float(payoff(ensemble.decide(X[ROWS:]), Y[ROWS:]).mean())
        nothing = " more than deciding by the mean label" not in ensemble.finding_
        kept = promise.low <= earned <= promise.high
        found.append(Trial(kept, earned >= promise.rely_on, promise.mean - earned, nothing))
    return found


def pooled(signal: float) -> list[Trial]:
    return [trial for access in ("models", "policies", "both") for trial in trials(access, signal)]


# Promises


@pytest.mark.parametrize("signal", [1.0, 0.0])
def test_promises_are_kept_as_often_as_they_say(signal: float) -> None:
    assert 0.90 <= np.mean([trial.kept for trial in pooled(signal)]) <= 0.99
    assert np.mean([trial.relied for trial in pooled(signal)]) >= 0.94


@ACCESS
@pytest.mark.parametrize("signal", [1.0, 0.0])
def test_promises_are_kept_whatever_members_tell(access: str, signal: float) -> None:
    assert np.mean([trial.kept for trial in trials(access, signal)]) >= 0.88


@ACCESS
def test_promises_on_informative_rows_are_not_inflated(access: str) -> None:
    gaps = np.array([trial.gap for trial in trials(access, 1.0)])
    assert abs(gaps.mean()) < 0.25 * gaps.std() + 2 * float(stats.sem(gaps))


# Rows in time order


def steps(rng: np.random.Generator, n: int) -> Floats:
    return np.repeat(rng.normal(size=-(-n // 30)), 30)[:n]


AFTER = 60
IN_TIME: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "steady": lambda rng, n: rng.choice([-4.0, 4.0]) * np.arange(n) / n,
    "steady, then it stops": lambda rng, n: rng.choice([-4.0, 4.0]) * np.minimum(np.arange(n), n - AFTER) / n,
    "drawn anew": steps,
    "nothing": lambda rng, n: np.zeros(n),
}


@pytest.mark.parametrize("kind", IN_TIME)
def test_promises_in_time_order_are_kept(kind: str) -> None:
    kept = []
    for seed in range(60):
        rng = np.random.default_rng([seed, 61])
        X, Y = draw(rng, 300 + AFTER, 1.0)
        Y = Y + IN_TIME[kind](rng, 300 + AFTER)[:, None]
        ensemble = make("models").fit(X[:300], Y[:300], time_ordered=True)
        promise = ensemble.promise(X[300:])
        kept.append(promise.low <= payoff(ensemble.decide(X[300:]), Y[300:]).mean() <= promise.high)
    assert np.mean(kept) >= 0.9


def test_without_time_order_a_steady_trend_is_not_seen() -> None:
    kept = []
    for seed in range(20):
        rng = np.random.default_rng([seed, 61])
        X, Y = draw(rng, 300 + AFTER, 1.0)
        Y = Y + IN_TIME["steady"](rng, 300 + AFTER)[:, None]
        ensemble = make("models").fit(X[:300], Y[:300])
        promise = ensemble.promise(X[300:])
        kept.append(promise.low <= payoff(ensemble.decide(X[300:]), Y[300:]).mean() <= promise.high)
    assert np.mean(kept) < 0.3


@pytest.mark.parametrize("time_ordered", [True, False])
def test_promises_of_customers_that_come_again_are_kept(time_ordered: bool) -> None:
    """Forty of them in turns, each with a level of its own; the promise is of forty others."""
    kept: list[bool] = []
    naive: list[bool] = []
    for seed in range(40):
        rng = np.random.default_rng([seed, 71])
        X, Y = draw(rng, 800, 1.0)
        customers = np.arange(800) % 40 + 40 * (np.arange(800) >= 400)
        Y = Y + 2.0 * rng.normal(size=80)[customers][:, None]
        for found, groups in ((kept, customers[:400]), (naive, None)):
            ensemble = make("models").fit(X[:400], Y[:400], groups=groups, time_ordered=time_ordered)
            promise = ensemble.promise(X[400:])
            found.append(promise.low <= payoff(ensemble.decide(X[400:]), Y[400:]).mean() <= promise.high)
    assert np.mean(kept) >= 0.88
    assert time_ordered or np.mean(naive) < 0.75


# Noise


def test_in_noise_mostly_nothing_is_found() -> None:
    assert np.mean([trial.nothing for trial in pooled(0.0)]) >= 0.88


def test_in_noise_something_is_found_as_seldom_as_an_interval_fails() -> None:
    false = np.mean([not trial.nothing for trial in pooled(0.0)])
    assert false <= 0.025 + 3 * np.sqrt(0.025 * 0.975 / (3 * FITS))


def test_shuffling_the_labels_of_a_good_problem_takes_the_finding_away() -> None:
    nothing, kept = [], []
    for seed in range(10):
        rng = np.random.default_rng([seed, 5])
        X, Y = draw(rng, 800, 1.0)
        assert " more than deciding by the mean label" in make("models").fit(X[:400], Y[:400]).finding_
        shuffled, labels = make("models").fit(X[:400], rng.permutation(Y[:400])), rng.permutation(Y[400:])
        nothing.append(" more than deciding by the mean label" not in shuffled.finding_)
        promise = shuffled.promise(X[400:])
        kept.append(promise.low <= payoff(shuffled.decide(X[400:]), labels).mean() <= promise.high)
    assert sum(nothing) >= 6
    assert sum(kept) >= 8


# Harm, and help


def baselines(X: Floats, Y: Floats, fresh: Floats) -> dict[str, Floats]:
    """What anyone would try: each member, their average, the mean label."""
    said = {name: model(fresh) for name, model in MODELS}
    said["average"] = np.mean([model(fresh) for _, model in MODELS], axis=0)
    said["mean"] = np.broadcast_to(Y.mean(axis=0), (len(fresh), 3))
    return {name: OMEGA.argmax(np.ascontiguousarray(forecast)) for name, forecast in said.items()}


WORLDS: dict[str, Callable[[np.random.Generator, Floats], Floats]] = {
    "both halves": lambda rng, X: X[:, :3] + X[:, 3:],
    "one half": lambda rng, X: X[:, :3],
    "a level": lambda rng, X: np.broadcast_to([0.0, 0.5, 0.2], (len(X), 3)),
    "the contrary": lambda rng, X: -X[:, :3],
    "nothing": lambda rng, X: np.zeros((len(X), 3)),
}


@pytest.mark.parametrize("world", WORLDS)
def test_the_best_simple_thing_in_hindsight_is_never_much_better(world: str) -> None:
    behind: dict[str, list[float]] = {}
    scale = []
    for seed in range(12):
        rng = np.random.default_rng([seed, 21])
        X = rng.normal(size=(2300, 6))
        Y = WORLDS[world](rng, X) + 1.5 * rng.normal(size=(2300, 3))
        ensemble = make("models").fit(X[:300], Y[:300])
        own = payoff(ensemble.decide(X[300:]), Y[300:])
        scale.append(own.std())
        for name, actions in baselines(X[:300], Y[:300], X[300:]).items():
            behind.setdefault(name, []).append(float((payoff(actions, Y[300:]) - own).mean()))
    best = max(behind, key=lambda name: float(np.mean(behind[name])))
    shortfall = np.mean(behind[best])
    assert shortfall <= 0.05 * np.mean(scale) + 2 * float(stats.sem(behind[best]))


def test_two_policies_that_are_equally_good_are_followed_at_no_loss() -> None:
    """Where they differ, actions alone do not tell who is right: nothing is to be gained, or lost."""
    behind, scale = [], []
    for seed in range(8):
        rng = np.random.default_rng([seed, 41])
        X = rng.normal(size=(2800, 6))
        Y = 1.5 * (X[:, :3] + X[:, 3:]) + rng.normal(size=(2800, 3))
        own = payoff(make("policies").fit(X[:800], Y[:800]).decide(X[800:]), Y[800:])
        scale.append(own.std())
        behind.append(float((payoff(POLICIES[0][1](X[800:]), Y[800:]) - own).mean()))
    assert np.mean(behind) <= 0.02 * np.mean(scale) + 2 * float(stats.sem(behind))


@pytest.mark.parametrize("access", ["models", "both"])
def test_specialised_members_make_more_than_any_of_them_and_their_average(access: str) -> None:
    gains: dict[str, list[float]] = {}
    for seed in range(6):
        rng = np.random.default_rng([seed, 31])
        X = rng.normal(size=(2800, 6))
        Y = 1.5 * (X[:, :3] + X[:, 3:]) + rng.normal(size=(2800, 3))
        ensemble = make(access).fit(X[:800], Y[:800])
        own = payoff(ensemble.decide(X[800:]), Y[800:])
        rivals = baselines(X[:800], Y[:800], X[800:])
        if access == "both":  # of the policies there are no predictions to average
            rivals.pop("average")
        for name, actions in rivals.items():
            gains.setdefault(name, []).append(float((own - payoff(actions, Y[800:])).mean()))
    for name, gain in gains.items():
        assert np.mean(gain) > 2 * float(stats.sem(gain)), name
