"""An audit's intervals hold the truth about as often as they say, whatever belongs together; found by simulation."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy.signal import lfilter
from scipy.special import ndtr

from optensemble.evaluation.audit import make_audit
from optensemble.evaluation.audit_inputs import AuditInputs
from optensemble.evaluation.promise import Promise
from optensemble.stats.intervals import MOST_UNITS, Family, block_length, dependence, means
from tests.evaluation.observations import cell_names

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

SIMULATIONS = 250
KINDS = pytest.mark.parametrize("kind", ["rows", "clusters", "time"])
TRUE_GAP, TRUE_GAIN, K, N = 0.1, {"weak": 0.1, "strong": -0.05}, 3, 150


def noise(rng: np.random.Generator, kind: str, clusters: Indices, columns: int) -> Floats:
    """Standard normal rows: independent, a third of the variance in common in each cluster, or autocorrelated."""
    n = len(clusters)
    if kind == "time":
        long = lfilter([1.0], [1.0, -0.5], rng.normal(size=(n + 100, columns)), axis=0)
        return np.asarray(long[100:] * np.sqrt(0.75))
    own = rng.normal(size=(n, columns))
    if kind == "rows":
        return own
    return np.asarray(np.sqrt(1 / 3) * rng.normal(size=(n, columns))[clusters] + np.sqrt(2 / 3) * own)


def parts(noise: Floats, count: int) -> Indices:
    return np.minimum((ndtr(noise) * count).astype(np.int64), count - 1)


def between(table: pd.DataFrame, truth: object) -> pd.Series[bool]:
    return (table["low"] <= truth) & (truth <= table["high"])


@cache
def held(kind: str) -> Counter[str]:
    """Count the simulations in which each kind of interval holds the truth, which is known here."""
    count: Counter[str] = Counter()
    for seed in range(SIMULATIONS):
        rng = np.random.default_rng([seed, len(kind)])
        clusters = np.repeat(np.arange(N), rng.integers(1, 9, size=N))[:N]
        of_payoff, of_cells = noise(rng, kind, clusters, 9), noise(rng, kind, clusters, 4)
        realised = 1 + of_payoff[:, 0]
        observed = AuditInputs(
            promised=np.full(N, 1 + TRUE_GAP),
            realised=realised,
            interval=Promise(1.1, 0.9, 1.3, N, 0.9),
            names=["x", "y", "z"],
            chosen=parts(of_cells[:, 3], K),
            arms=1.2 + of_payoff[:, 1:4].T,
            rivals={"weak": realised - 0.1 + of_payoff[:, 4], "strong": realised + 0.05 + of_payoff[:, 5] / 2},
            residuals=of_payoff[:, 6:],
            partitions=[(cell_names(*(f"{j}:{i}" for i in range(4))), parts(of_cells[:, j], 4)) for j in range(3)],
            time_ordered=kind == "time",
            clusters=clusters if kind == "clusters" else None,
        )
        found = make_audit(observed, random_state=seed)
        row = found.summary.iloc[0]
        wanted = found.conditional["rival"].map(TRUE_GAIN)
        choices = found.by_choice[found.by_choice["note"] == ""]
        count["gap"] += int(row["gap_low"] <= TRUE_GAP <= row["gap_high"])
        count["realised"] += int(abs(row["realised"] - 1) <= row["half_width"])
        count["lift"] += int(between(found.lift, [TRUE_GAIN[name] for name in found.lift["rival"]]).iloc[0])
        count["choices"] += len(choices)
        count["choices held"] += int(between(choices, TRUE_GAP).sum())
        count["cells"] += int(found.biased == 0)
        count["swap"] += int(between(found.swap, 0.2 / K).all())
        count["conditional"] += int(between(found.conditional, wanted).all())
    return count


@KINDS
@pytest.mark.parametrize("what", ["gap", "realised", "lift"])
def test_intervals_of_one_mean_hold_in_about_95_of_100(kind: str, what: str) -> None:
    assert 0.9 <= held(kind)[what] / SIMULATIONS <= 0.99


@KINDS
def test_intervals_of_a_choice_hold_in_about_95_of_100(kind: str) -> None:
    count = held(kind)
    assert count["choices"] > SIMULATIONS
    assert 0.9 <= count["choices held"] / count["choices"] <= 0.99


@KINDS
def test_a_bias_is_found_where_there_is_none_in_about_5_of_100_audits(kind: str) -> None:
    assert 0.01 <= 1 - held(kind)["cells"] / SIMULATIONS <= 0.1


@KINDS
@pytest.mark.parametrize("what", ["swap", "conditional"])
def test_intervals_of_many_means_hold_all_together(kind: str, what: str) -> None:
    assert held(kind)[what] / SIMULATIONS >= 0.92


def test_intervals_that_take_dependent_rows_for_independent_do_not_hold() -> None:
    """The simulation would notice: else the tests above could not fail."""
    for kind in ("clusters", "time"):
        misses = 0
        for seed in range(SIMULATIONS):
            rng = np.random.default_rng(seed)
            values = noise(rng, kind, np.arange(N) // 8, 1)
            found = means(values, np.arange(N))
            misses += int(abs(found.estimate[0]) > found.half_width()[0])
        assert misses / SIMULATIONS > 0.15


@pytest.mark.parametrize("shared", [0.0, 0.5, 1.0])
def test_clusters_of_very_unequal_sizes_are_few(shared: float) -> None:
    held = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        clusters = np.repeat(np.arange(12), np.ceil(np.exp(rng.normal(2, 1, size=12))).astype(np.int64))
        values = np.sqrt(shared) * rng.normal(size=12)[clusters] + np.sqrt(1 - shared) * rng.normal(size=len(clusters))
        found = means(values[:, None], clusters)
        held += int(abs(found.estimate[0]) <= found.half_width()[0])
    assert held / 400 >= 0.93


def test_blocks_grow_with_persistence() -> None:
    rng, n = np.random.default_rng(0), 4000
    shocks = rng.normal(size=n)
    lengths = [block_length(lfilter([1.0], [1.0, -rho], shocks)) for rho in (0.0, 0.5, 0.8, 0.95)]
    assert lengths == sorted(lengths)
    assert lengths[0] == 16  # the cube root of 4,000
    assert lengths[-1] > 5 * lengths[0]


@pytest.mark.parametrize("n", [2, 3, 19, 20, 21, 50, 1000])
@pytest.mark.parametrize("kind", ["constant", "trend", "alternating"])
def test_a_block_is_never_longer_than_a_tenth(n: int, kind: str) -> None:
    rows = np.arange(n, dtype=np.float64)
    series = {"constant": np.full(n, 0.1), "trend": rows, "alternating": (-1.0) ** rows}[kind]
    assert 1 <= block_length(series) <= max(n // 10, 1)
    units, length = dependence(n, series[:, None], None, time_ordered=True)
    assert length == block_length(series)
    sizes = np.bincount(units)
    assert sizes.min() >= length
    assert (np.diff(units) >= 0).all()


def test_the_stronger_dependence_of_time_order_and_clusters_is_used() -> None:
    rng = np.random.default_rng(0)
    clusters = rng.integers(20, size=600)
    in_clusters = (rng.normal(size=20)[clusters] + rng.normal(size=600))[:, None]
    in_time = lfilter([1.0], [1.0, -0.9], rng.normal(size=600))[:, None]
    by_cluster, _ = dependence(600, in_clusters, clusters, time_ordered=True)
    by_time, length = dependence(600, in_time, clusters, time_ordered=True)
    assert np.array_equal(by_cluster, clusters)
    assert length is not None
    assert by_time.max() + 1 == 600 // length


def test_critical_values_of_independent_means_are_those_of_sidak() -> None:
    """For m independent means of very many units each: all within c with probability Φ(c)^m."""
    rng, m = np.random.default_rng(0), 400
    values = rng.normal(size=(6000, m))
    family = Family(np.arange(6000), (0,))
    found = family.add(means(values, np.arange(6000)))
    wanted = (1 + 0.95 ** (1 / m)) / 2
    assert found.freedom == pytest.approx(5999)
    assert ndtr(family.critical([1e9])[0]) == pytest.approx(wanted, abs=(1 - wanted) / 2)
    assert MOST_UNITS < 6000  # so units did share multipliers


def test_means_of_few_units_need_more_standard_errors_and_copies_need_none() -> None:
    rng = np.random.default_rng(0)
    one, copies = Family(np.arange(100), (0,)), Family(np.arange(100), (0,))
    values = rng.normal(size=(100, 1))
    one.add(means(values, np.arange(100)))
    copies.add(means(np.tile(values, (1, 50)), np.arange(100)))
    few, many = one.critical([9.0, 1e9])
    assert few > many == pytest.approx(1.96, abs=0.15)
    assert copies.critical([9.0])[0] == pytest.approx(few, rel=1e-5)
