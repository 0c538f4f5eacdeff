"""Members that are absent: as much is earned as by any simple rule with those present, and promises are kept."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats
from threadpoolctl import threadpool_limits

import optensemble as oe
from optensemble import feasible
from tests.problems import Floats

pytestmark = [
    pytest.mark.slow,
    pytest.mark.no_cover,
    pytest.mark.filterwarnings("ignore::optensemble.exceptions.AbsentWarning"),
]

D, FITTED, FRESH, FITS = 3, 300, 400, 60
OMEGA = feasible.Simplex(D)
REGIMES = pytest.mark.parametrize("regime", ["at random", "stops", "joins late"])


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with threadpool_limits(1):
        yield


class Tried(NamedTuple):
    """What the ensemble earned on fresh rows, what the simple rules did, and whether the promise was kept."""

    earned: float
    average: float
    best_present: float
    kept: bool


def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """Three members that know parts of the truth, side by side, and labels."""
    parts = rng.normal(size=(3, n, D))
    said = [parts[0] + 0.5 * parts[1], parts[1] + 0.4 * rng.normal(size=(n, D)), parts[2] + rng.normal(size=(n, D))]
    return np.hstack(said), parts.sum(axis=0) + rng.normal(size=(n, D))


def gone(regime: str, n: int, fitting: bool, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    if regime == "at random":
        return np.asarray(rng.random(n) < 0.2)
    if regime == "joins late":
        return np.asarray(np.arange(n) < (0.6 * n if fitting else 0))
    return np.asarray(np.arange(n) >= (0.6 * n if fitting else 0))


def payoff(actions: Floats, labels: Floats) -> float:
    return float((actions * labels).sum(axis=1).mean())


@cache
def try_out(regime: str) -> list[Tried]:
    found, models = [], [(f"m{m}", oe.Columns(list(range(D * m, D * (m + 1))))) for m in range(3)]
    for seed in range(FITS):
        rng = np.random.default_rng(seed)
        (X, Y), (new, labels) = draw(rng, FITTED), draw(rng, FRESH)
        X[gone(regime, FITTED, True, rng), :D] = new[gone(regime, FRESH, False, rng), :D] = np.nan
        ensemble = oe.DecisionEnsemble(models, feasible=OMEGA).fit(X, Y)
        promise, earned = ensemble.promise(new), payoff(ensemble.answer(new).actions, labels)
        said = new.reshape(FRESH, 3, D)
        there = np.asarray(~np.isnan(said).any(axis=2))
        best = np.where(there[:, :1], said[:, 0], said[:, 1])  # the first is the best, and the second the next
        average = payoff(OMEGA.argmax(np.ascontiguousarray(np.nanmean(said, axis=1))), labels)
        best_present = payoff(OMEGA.argmax(np.ascontiguousarray(best)), labels)
        found.append(Tried(earned, average, best_present, promise.low <= earned <= promise.high))
    return found


@REGIMES
def test_promises_are_kept_where_members_are_absent(regime: str) -> None:
    kept = sum(each.kept for each in try_out(regime))
    # what an honest 95 % interval would be below in one of ten thousand tests
    assert kept >= stats.binom.ppf(1e-4, FITS, 0.95)


@REGIMES
@pytest.mark.parametrize("rule", ["average", "best_present"])
def test_as_much_is_earned_as_by_a_simple_rule_with_those_present(regime: str, rule: str) -> None:
    ahead = np.array([each.earned - getattr(each, rule) for each in try_out(regime)])
    assert ahead.mean() > -2 * ahead.std(ddof=1) / np.sqrt(FITS)
