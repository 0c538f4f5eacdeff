"""Standard errors of means over rows that are independent, clustered or in time order."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from optensemble.stats.sampling import Sampling
from tests.problems import Floats
from tests.stats.clusters import Clusters, some_clusters


def values(n: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(2.0, 3.0, size=n)


def test_the_error_of_the_mean_of_independent_rows() -> None:
    assert Sampling().error(values(57)) == pytest.approx(float(stats.sem(values(57))), rel=1e-12)
    assert Sampling().design_effect(values(57)) == 1.0


@pytest.mark.parametrize("n", [100, 137])
def test_the_error_in_time_order_is_that_of_ten_block_means(n: int) -> None:
    wandering = values(n) + np.repeat(values(10, 1), -(-n // 10))[:n]
    means = [block.mean() for block in np.array_split(wandering, 10)]
    assert Sampling(time_ordered=True).error(wandering) == pytest.approx(float(stats.sem(means)), rel=1e-12)
    assert float(stats.sem(means)) > 1.5 * float(stats.sem(wandering))


def shares_of(clusters: Clusters) -> Floats:
    """Which share of the rows each cluster holds."""
    return np.array([np.mean(clusters == c) for c in range(clusters.max() + 1)])


def cluster_error(values: Floats, clusters: Clusters) -> float:
    """The error of the mean from the sums over clusters, which centring has made smaller on average.

    Where clusters alone vary, and independently, a cluster of share p is left with (1 − p)² of its own square and p²
    of the others': what is left of all squares, by hand.
    """
    share = shares_of(clusters)
    sums = [float((values - values.mean())[clusters == c].sum()) for c in range(len(share))]
    whole = sum(p**2 for p in share)
    left = sum(p**2 * ((1 - p) ** 2 + whole - p**2) for p in share) / whole
    return float(np.sqrt(np.sum(np.square(sums)) / left)) / len(values)


UNEVEN = np.repeat(np.arange(8), [60, 40, 30, 20, 20, 10, 10, 10])


@pytest.mark.parametrize("clusters", [some_clusters(200, 20, 0), UNEVEN], ids=["even", "uneven"])
def test_the_error_of_clustered_rows_is_that_of_the_sums_over_clusters(clusters: Clusters) -> None:
    together = values(200) + values(20, 1)[clusters]
    by_hand = cluster_error(together, clusters)
    assert Sampling(clusters=clusters).error(together) == pytest.approx(by_hand, rel=1e-12)
    assert by_hand > 1.5 * float(stats.sem(together))


def test_what_centring_takes_from_uneven_clusters_is_put_back() -> None:
    """Over many draws the squared error is that of the mean; without the correction it would be too small."""
    rng, share = np.random.default_rng(0), shares_of(UNEVEN)
    squares = [Sampling(clusters=UNEVEN).error(level[UNEVEN]) ** 2 for level in rng.normal(size=(4000, 8))]
    truth = float(np.square(share).sum())
    assert np.mean(squares) == pytest.approx(truth, rel=0.06)
    # plain sums over clusters would fall short of it by a quarter
    assert sum(p**2 * ((1 - p) ** 2 + truth - p**2) for p in share) < 0.8 * truth


@pytest.mark.parametrize("sampling", [Sampling(time_ordered=True), Sampling(clusters=np.arange(100) // 2)])
def test_rows_that_cancel_out_are_not_worth_more_than_independent_ones(sampling: Sampling) -> None:
    alternating = np.tile([1.0, -1.0], 50)
    assert sampling.error(alternating) == pytest.approx(float(stats.sem(alternating)), rel=1e-12)


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(True), Sampling(clusters=np.arange(100) // 5)])
def test_what_does_not_vary_has_no_error(sampling: Sampling) -> None:
    assert sampling.error(np.full(100, 0.1)) == pytest.approx(0.0, abs=1e-16)
    assert sampling.design_effect(np.full(100, 0.5)) == 1.0


def test_clusters_of_one_row_are_independent_rows() -> None:
    alone, independent = Sampling(clusters=np.arange(80)), Sampling()
    # the same but for the one degree of freedom that the mean takes
    assert alone.error(values(80)) == pytest.approx(independent.error(values(80)), rel=0.01)
    assert alone.quantile(80) == pytest.approx(independent.quantile(80), rel=1e-12)


def test_quantiles_follow_what_varies_independently() -> None:
    assert Sampling().quantile(50) == pytest.approx(stats.t.ppf(0.975, 49), rel=1e-12)
    assert Sampling(time_ordered=True).quantile(5000) == pytest.approx(2.262, abs=1e-3)
    assert Sampling(clusters=np.arange(90) // 10).quantile(90) == pytest.approx(stats.t.ppf(0.975, 8), rel=1e-12)


def test_uneven_clusters_count_for_as_many_as_even_ones_would() -> None:
    freedom = 1 / np.square(shares_of(UNEVEN)).sum() - 1
    assert freedom < 5
    assert Sampling(clusters=UNEVEN).quantile(200) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-9)
    one = np.zeros(50, dtype=np.int64)  # a single cluster tells nothing of any other: Cauchy's quantile
    assert Sampling(clusters=one).quantile(50) == pytest.approx(stats.t.ppf(0.975, 1), rel=1e-9)


@pytest.mark.parametrize("family", [1, 2, 9])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(True), Sampling(clusters=np.arange(60) // 3)])
def test_quantiles_of_a_family_are_bonferroni_corrected(sampling: Sampling, family: int) -> None:
    freedom = 9 if sampling.time_ordered else 59 if sampling.clusters is None else 19
    assert sampling.quantile(60, family) == pytest.approx(stats.t.ppf(1 - 0.025 / family, freedom), rel=1e-9)


@pytest.mark.parametrize("per_cluster", [2, 40])
def test_the_larger_design_effect_of_time_order_and_clusters_is_used(per_cluster: int) -> None:
    clusters = np.arange(400) // per_cluster
    drawn = values(400) + 3 * values(400, 1)[clusters] + np.linspace(-4, 4, 400)
    in_time, grouped = Sampling(True), Sampling(clusters=clusters)
    both = Sampling(True, clusters)
    assert both.design_effect(drawn) == max(in_time.design_effect(drawn), grouped.design_effect(drawn))
    assert both.quantile(400) == max(in_time.quantile(400), grouped.quantile(400))


def test_samplings_are_told_apart_by_identity() -> None:
    """Arrays cannot be compared with ==, nor hashed; a sampling that holds one can."""
    clusters = np.arange(10)
    first, second = Sampling(clusters=clusters), Sampling(clusters=clusters)
    assert first != second
    assert len({first, second}) == 2


PAYOFFS = np.random.default_rng(4).normal(1.0, 1.0, size=(3, 730))


def test_few_independent_rows_are_units_as_they_are() -> None:
    np.testing.assert_array_equal(Sampling().independent(PAYOFFS[:, :500]), PAYOFFS[:, :500])


@pytest.mark.parametrize(
    ("sampling", "units"),
    [
        (Sampling(), np.arange(730) % 500),
        (Sampling(True), np.arange(730) * 20 // 730),
        (Sampling(clusters=np.arange(730) // 7), np.arange(730) // 7),
    ],
    ids=["many rows", "in time order", "clustered"],
)
def test_dependent_rows_are_summed_to_units_of_the_same_mean(sampling: Sampling, units: Clusters) -> None:
    found = sampling.independent(PAYOFFS)
    count = units.max() + 1
    by_hand = [[payoff[units == unit].sum() * count / 730 for unit in range(count)] for payoff in PAYOFFS]
    np.testing.assert_allclose(found, by_hand, rtol=1e-9)
    np.testing.assert_allclose(found.mean(axis=1), PAYOFFS.mean(axis=1), rtol=1e-9)


@pytest.mark.parametrize("n", [600, 999, 1500])
def test_units_of_many_independent_rows_vary_as_the_rows_do(n: int) -> None:
    """Their mean has the same standard error, also where 500 does not divide the rows."""
    drawn = np.random.default_rng(0).normal(size=(300, n))
    errors = stats.sem(Sampling().independent(drawn), axis=1)
    assert float(np.mean(errors)) == pytest.approx(1 / np.sqrt(n), rel=0.02)
