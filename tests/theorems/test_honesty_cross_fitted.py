"""Members fitted on the ensemble's own rows: where nothing can be known nothing is claimed, and promises are kept.

What a copy says of rows it was not fitted on goes against their labels, and with many folds the more so: whatever may
turn that round finds a signal where there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Lasso, LinearRegression, Ridge
from sklearn.model_selection import LeaveOneOut
from threadpoolctl import threadpool_limits

import optensemble as oe
from optensemble import feasible

pytestmark = [
    pytest.mark.slow,
    pytest.mark.no_cover,
    pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning"),
]

D, FRESH, FITS = 12, 1000, 40
OMEGA = feasible.Simplex(D)
CLAIM = " more than deciding by the mean label"
MEMBERS: dict[str, Callable[[], list[tuple[str, Any]]]] = {
    "shrunk": lambda: [("lasso", Lasso(0.3)), ("ridge", Ridge(1000.0))],
    "linear": lambda: [("linear", LinearRegression())],
    "penalised": lambda: [("ridge", Ridge(300.0))],
    "forest": lambda: [("plain", Ridge()), ("forest", RandomForestRegressor(5, max_depth=4))],
}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with threadpool_limits(1):
        yield


class Tried(NamedTuple):
    """Whether something is claimed, whether the promise is kept, and what the best candidate seems to earn."""

    claimed: bool
    kept: bool
    seemed: float


def try_fit(seed: int, kind: str, n: int, cv: Any, signal: float = 0.0, **options: Any) -> Tried:
    """Fit on rows of normal labels, of standard deviation 1 where there is no signal."""
    rng = np.random.default_rng(seed)
    slopes = signal * rng.normal(size=(4, D))
    X = rng.normal(size=(n + FRESH, 4))
    Y = X @ slopes + rng.normal(size=(n + FRESH, D))
    ensemble = oe.DecisionEnsemble(MEMBERS[kind](), feasible=OMEGA, cv=cv, context=None)
    ensemble.fit(X[:n], Y[:n], random_state=seed, **options)
    promise, earned = ensemble.promise(X[n:]), ensemble.score(X[n:], Y[n:])
    best = ensemble.leaderboard_["realised"].max()
    return Tried(CLAIM in ensemble.finding_, promise.low <= earned <= promise.high, float(best))


def require_kept(tried: list[Tried]) -> None:
    """Fail if promises were kept so rarely that this is not by chance."""
    kept = sum(each.kept for each in tried)
    assert stats.binomtest(kept, len(tried), 0.93, alternative="less").pvalue > 0.01, f"{kept} of {len(tried)}"


@pytest.mark.parametrize(
    ("kind", "n", "cv"),
    [
        ("forest", 150, 5),
        ("linear", 150, 5),
        ("shrunk", 150, 5),
        ("linear", 150, 20),
        ("shrunk", 150, 20),
        ("linear", 1000, 5),
    ],
)
def test_of_noise_nothing_is_claimed(kind: str, n: int, cv: int) -> None:
    fits = FITS if kind != "forest" else FITS // 4
    tried = [try_fit(seed, kind, n, cv) for seed in range(fits)]
    assert sum(each.claimed for each in tried) <= 0.1 * fits
    # the best of about seven candidates is at 0 plus 1.4 standard errors of each
    assert np.mean([each.seemed for each in tried]) < 2.0 / np.sqrt(n)
    require_kept(tried)


def test_leaving_one_row_out_at_a_time_claims_nothing() -> None:
    tried = [try_fit(seed, "linear", 120, LeaveOneOut()) for seed in range(6)]
    assert not any(each.claimed for each in tried)
    require_kept(tried)


@pytest.mark.parametrize("options", [{"time_ordered": True}, {"groups": np.arange(1000) // 20}], ids=["time", "groups"])
def test_of_noise_in_order_or_in_groups_nothing_is_claimed(options: dict[str, Any]) -> None:
    tried = [try_fit(seed, "linear", 1000, 5, **options) for seed in range(FITS // 2)]
    assert sum(each.claimed for each in tried) <= 2
    assert np.mean([each.seemed for each in tried]) < 2.0 / np.sqrt(1000)
    require_kept(tried)


@pytest.mark.parametrize("kind", ["linear", "penalised", "shrunk"])
@pytest.mark.parametrize("cv", [5, 20])
def test_of_a_signal_the_promise_is_kept(kind: str, cv: int) -> None:
    """A penalty weighs more on fewer rows: the member that decides spreads further than those that were judged."""
    require_kept([try_fit(seed, kind, 200, cv, signal=0.4) for seed in range(FITS)])
