"""A promise is the out-of-fold record's regression, and its interval the formulas of the recipe, worked out by hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from optensemble.evaluation.payoff_record import WHITE, Record
from optensemble.evaluation.promise import Promise
from tests.problems import Floats


def pairs(n: int, seed: int = 0, slope: float = 0.6) -> tuple[Floats, Floats]:
    """What was assessed, and what was realised: 1 + slope·assessed, and noise."""
    rng = np.random.default_rng(seed)
    assessed = rng.normal(3.0, 2.0, size=n)
    return assessed, 1.0 + slope * assessed + rng.normal(scale=1.5, size=n)


def plain(n: int = 200, **parameters: Any) -> Record:
    return Record(*pairs(n), **parameters)


NEW = np.random.default_rng(9).normal(3.5, 2.0, size=40)


Numbers = npt.NDArray[np.int64]


def fold_members(record: Record) -> Floats:
    """A column of ones for every fold of independent rows, or one for all rows."""
    folds = np.zeros(len(record.realised)) if record.folds is None or record.time_ordered else record.folds
    return np.asarray(folds[:, None] == np.unique(folds), dtype=np.float64)


def line(record: Record) -> Callable[[Floats], Floats]:
    """Least squares with a level for every fold; through the means of all rows, and never falling."""
    design = np.column_stack([record.assessed, fold_members(record)])
    slope = max(float(np.linalg.lstsq(design, record.realised, rcond=None)[0][0]), 0.0)
    return lambda assessed: np.asarray(record.realised.mean() + slope * (assessed - record.assessed.mean()))


def residuals(record: Record) -> Floats:
    return np.asarray(record.realised - line(record)(record.assessed))


def parts(record: Record, new: Floats) -> tuple[float, float]:
    """The variance of residuals, and the leverage of the new mean."""
    variance = float(np.square(residuals(record)).sum()) / (len(record.realised) - 2)
    dummies = fold_members(record)
    within = record.assessed - dummies @ (dummies.T @ record.assessed / dummies.sum(axis=0))
    return variance, float((new.mean() - record.assessed.mean()) ** 2 / np.square(within).sum())


def in_a_row(n: int, count: int) -> Numbers:
    """Numbers of contiguous folds."""
    return np.arange(n) * count // n


def worth(n: int) -> float:
    """To how many rows those come that were learned from, and judged out of fold."""
    return n * n / (n + 50)


# The regression


@given(seed=st.integers(0, 50), n=st.integers(5, 60), slope=st.floats(-2, 2))
def test_a_row_is_corrected_by_least_squares(seed: int, n: int, slope: float) -> None:
    assessed, realised = pairs(n, seed, slope)
    b, a = np.polyfit(assessed, realised, 1)
    expected = a + b * NEW if b > 0 else np.full(len(NEW), realised.mean())
    np.testing.assert_allclose(Record(assessed, realised).correct(NEW), expected, rtol=1e-9, atol=1e-9)


@given(seed=st.integers(0, 50), n=st.integers(10, 60), count=st.integers(2, 5), ordered=st.booleans())
def test_the_slope_of_independent_rows_is_estimated_within_folds(seed: int, n: int, count: int, ordered: bool) -> None:
    assessed, realised = pairs(n, seed)
    folds = in_a_row(n, count) if ordered else np.arange(n) % count
    record = Record(assessed + 3 * folds, realised, folds=folds)
    np.testing.assert_allclose(record.correct(NEW), line(record)(NEW), rtol=1e-9, atol=1e-9)
    in_time, plain_record = replace(record, time_ordered=True), replace(record, folds=None)
    assert in_time.slope == pytest.approx(plain_record.slope, rel=1e-9)
    assert record.slope != pytest.approx(plain_record.slope, rel=1e-9)


def out_of_fold_mean(realised: Floats, folds: Numbers) -> Floats:
    """A forecast of nothing but the mean of the other folds."""
    means = [realised[folds != number].mean() for number in range(folds.max() + 1)]
    return np.array(means)[folds]


def test_folds_do_not_make_an_honest_assessment_look_worthless() -> None:
    """The level of a fold is missing in the forecast made without it: between folds they go against each other."""
    rng, blind, seeing = np.random.default_rng(0), [], []
    for _ in range(30):
        signal = 0.3 * rng.normal(size=150)
        realised, folds = signal + rng.normal(size=150), np.arange(150) % 10
        assessed = signal + 3 * out_of_fold_mean(realised, folds)
        blind.append(Record(assessed, realised).slope)
        seeing.append(Record(assessed, realised, folds=folds).slope)
    assert np.mean(seeing) == pytest.approx(1.0, abs=0.15)
    assert np.mean(blind) < 0.8


def test_the_promise_is_the_mean_of_the_corrected_rows() -> None:
    record = plain()
    promise = record.promise(NEW)
    assert promise.mean == pytest.approx(record.correct(NEW).mean(), rel=1e-12)
    assert (promise.rows, promise.unlike, promise.time_ordered, promise.note) == (40, False, False, "")


def test_on_the_recorded_rows_the_promise_is_what_was_realised() -> None:
    record = plain()
    assert record.promise(record.assessed).mean == pytest.approx(record.realised.mean(), rel=1e-12)


def test_constant_assessments_have_slope_zero() -> None:
    realised = pairs(50)[1]
    for level in (0.0, 0.1, 1e6 / 3):
        record = Record(np.full(50, level), realised)
        np.testing.assert_allclose(record.correct(NEW), realised.mean(), rtol=1e-12)
        variance = np.square(realised - realised.mean()).sum() / 48
        half = stats.t.ppf(0.975, 48) * np.sqrt(variance * (1 / worth(50) + 1 / 40))
        assert record.half_width(NEW) == pytest.approx(half, rel=1e-12)


def test_a_perfect_record_promises_what_three_rows_of_all_may_change() -> None:
    assessed = pairs(50)[0]
    promise = Record(assessed, 2 * assessed + 1).promise(NEW)
    assert promise.mean == pytest.approx(2 * NEW.mean() + 1)
    assert promise.high - promise.mean == pytest.approx(3 * 2 * assessed.std() / 50)
    assert promise.mean - promise.low == pytest.approx(3 * 2 * assessed.std() / 50)
    assert promise.mean == pytest.approx(2 * NEW.mean() + 1)


# The interval


@pytest.mark.parametrize("new", [NEW, NEW[:2], NEW + 20])
def test_the_interval_of_independent_rows(new: Floats) -> None:
    record = plain()
    variance, leverage = parts(record, new)
    half = stats.t.ppf(0.975, 198) * np.sqrt(variance * (1 / worth(200) + 1 / len(new) + leverage))
    promise = record.promise(new)
    assert promise.high - promise.mean == pytest.approx(half, rel=1e-9)
    assert promise.mean - promise.low == pytest.approx(half, rel=1e-9)


def wandering(n: int, seed: int, size: float) -> Record:
    """Rows in time order whose level is drawn anew for every tenth of them."""
    assessed, realised = pairs(n, seed)
    level = np.random.default_rng(seed + 1).normal(scale=size, size=10)
    return Record(assessed, realised + level[np.arange(n) * 10 // n], time_ordered=True)


@pytest.mark.parametrize("size", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("n", [200, 237])
@pytest.mark.parametrize("new", [NEW, NEW[:1], 3 * NEW, np.tile(NEW, 50)])
def test_the_interval_in_time_order(size: float, n: int, new: Floats) -> None:
    record = wandering(n, 3, size)
    blocks = np.var([block.mean() for block in np.array_split(residuals(record), 10)], ddof=1)
    assert record.half_width(new) == pytest.approx(half_in_time(record, new, float(blocks)), rel=1e-9)


def half_in_time(record: Record, new: Floats, blocks: float) -> float:
    """The recipe's V1, V2 and κ, from the variance of the blocks' levels; m rows vary at most as one."""
    n, m = len(record.realised), len(new)
    variance, leverage = parts(record, new)
    effect = max(1.0, blocks / (variance / (n / 10)))
    first = variance * (effect * (1 / n + leverage) + min(effect / m, 1.0))
    wander = max(blocks - variance / (n / 10), 0.0)
    second = variance * (1 / n + 1 / m) + 1.1 * wander + effect * variance * leverage
    wider = max(1.0, new.std() / record.assessed.std()) if m > 1 else 1.0
    return float(stats.t.ppf(0.975, 9) * np.sqrt(max(first, second) * wider))


def test_more_new_rows_do_not_narrow_the_interval_below_the_drift_between_blocks() -> None:
    record = wandering(400, 0, 1.0)
    widths = [record.half_width(np.tile(NEW, times)) for times in (1, 10, 1000)]
    assert widths[2] > 0.9 * widths[0]
    plain_record = replace(record, time_ordered=False)
    assert plain_record.half_width(np.tile(NEW, 1000)) < 0.5 * widths[2]


def cluster_effect(left: Floats, clusters: Numbers, variance: float) -> float:
    """How far sums over clusters vary beyond those of independent rows; what centring takes from them is put back."""
    share = np.array([np.mean(clusters == c) for c in range(clusters.max() + 1)])
    sums = [left[clusters == c].sum() for c in range(len(share))]
    whole = np.square(share).sum()
    kept = sum(p**2 * ((1 - p) ** 2 + whole - p**2) for p in share) / whole
    return float(np.sum(np.square(sums)) / (len(left) * variance) / kept)


def clustered(sizes: list[int], **parameters: Any) -> Record:
    """Rows of clusters of these sizes, each of its own level."""
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    assessed, realised = pairs(len(clusters))
    level = np.random.default_rng(5).normal(scale=2.0, size=len(sizes))
    return Record(assessed, realised + level[clusters], clusters=clusters, **parameters)


SIZES = pytest.mark.parametrize("sizes", [[8] * 25, [70, 40, 30, 20, 10, 10, 10, 5, 3, 2]], ids=["even", "uneven"])


@SIZES
@pytest.mark.parametrize("new", [NEW, NEW[:2]], ids=["many", "two"])
def test_the_interval_of_clustered_rows(sizes: list[int], new: Floats) -> None:
    record = clustered(sizes)
    assert record.clusters is not None
    variance, leverage = parts(record, new)
    effect = cluster_effect(residuals(record), record.clusters, variance)
    freedom = 200**2 / sum(size**2 for size in sizes) - 1
    # two new rows are at most two clusters' worth of one: their mean varies no more than a row
    squared = variance * (effect * (1 / worth(200) + leverage) + min(effect / len(new), 1.0))
    assert effect > 2
    assert record.half_width(new) == pytest.approx(stats.t.ppf(0.975, freedom) * np.sqrt(squared), rel=1e-9)


@SIZES
def test_the_larger_design_effect_of_time_order_and_clusters_is_used(sizes: list[int]) -> None:
    both = clustered(sizes, time_ordered=True)
    in_time, grouped = replace(both, clusters=None), replace(both, time_ordered=False)
    assert both.design_effect == max(in_time.design_effect, grouped.design_effect)
    assert both.quantile == max(in_time.quantile, grouped.quantile)


# Rows unlike the fitted ones


EITHER_ORDER = pytest.mark.parametrize("time_ordered", [True, False])


def standard(record: Record, m: int, seed: int = 3) -> Floats:
    """Rows assessed just as the recorded ones: the same mean, and the same spread; none far out."""
    drawn = np.random.default_rng(seed).uniform(size=m)
    spread = drawn.std() or 1.0
    return np.asarray(record.assessed.mean() + (drawn - drawn.mean()) / spread * record.assessed.std())


def said_of(record: Record, new: Floats) -> str:
    promise = record.promise(new)
    assert promise.unlike == promise.note.startswith("these rows are unlike the fitted ones, ") == bool(promise.note)
    assert promise.unlike == promise.note.endswith(": the promise may not hold")
    return promise.note


@EITHER_ORDER
@pytest.mark.parametrize(
    ("times", "m", "unlike"), [(1.2, 40, False), (1.3, 40, True), (1.3, 20, True), (1.3, 19, False)]
)
def test_rows_that_are_assessed_much_more_widely_are_called_unlike(
    times: float, m: int, unlike: bool, time_ordered: bool
) -> None:
    record = replace(wandering(200, 0, 0.5), time_ordered=time_ordered)
    centre = record.assessed.mean()
    note = said_of(record, centre + times * (standard(record, m) - centre))
    assert ("1.3 times as spread out" in note) is unlike


@EITHER_ORDER
@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize(
    ("shift", "n", "m", "unlike"),
    [
        (0.45, 4000, 4000, False),  # no chance, but little
        (0.56, 4000, 4000, True),
        (0.8, 200, 40, False),  # less than five standard errors: √(1/200 + 1/40) is 0.17
        (0.96, 200, 40, True),
        (2.0, 200, 5, False),
        (2.5, 200, 5, True),
    ],
)
def test_rows_that_are_assessed_elsewhere_are_called_unlike(
    shift: float, n: int, m: int, unlike: bool, side: int, time_ordered: bool
) -> None:
    record = plain(n, time_ordered=time_ordered)
    note = said_of(record, standard(record, m) + side * shift * record.assessed.std())
    assert (f"on average {shift:.1f} of their standard deviations away" in note) is unlike


@EITHER_ORDER
@pytest.mark.parametrize(("times", "unlike"), [(2.9, False), (3.6, True), (40.0, True)])
def test_a_row_far_outside_the_recorded_range_makes_rows_unlike(times: float, unlike: bool, time_ordered: bool) -> None:
    record = plain(200, time_ordered=time_ordered)
    centre = record.assessed.mean()
    farthest = np.abs(record.assessed - centre).max()
    for side in (1, -1):
        new = np.append(standard(record, 4000), centre + side * times * farthest)
        note = said_of(record, new)
        assert (f"some of them {times:.0f} times as far out as any of those" in note) is unlike
    alone = said_of(record, np.array([centre + times * farthest]))
    assert (" of their standard deviations away" in alone) == (times * farthest > 5.02 * record.assessed.std())


def test_rows_like_the_fitted_ones_are_seldom_called_unlike() -> None:
    rng, called = np.random.default_rng(0), 0
    for _ in range(400):
        n, m = rng.integers(100, 400), rng.integers(1, 400)
        assessed, realised = rng.normal(size=(2, n))
        called += Record(assessed, realised, time_ordered=bool(rng.integers(2))).promise(rng.normal(size=m)).unlike
    assert called <= 8


def test_with_constant_assessments_no_rows_are_called_unlike() -> None:
    assert not Record(np.full(50, 2.0), pairs(50)[1]).promise(100 * NEW).unlike


def covered(draw: Any, repetitions: int = 600) -> float:
    """How often the realised mean of new rows lies in the interval promised for it."""
    held = 0
    for seed in range(repetitions):
        record, new, realised = draw(np.random.default_rng(seed))
        promise = record.promise(new)
        held += promise.low <= realised <= promise.high
    return held / repetitions


def test_independent_rows_are_covered_as_often_as_promised() -> None:
    def draw(rng: np.random.Generator) -> tuple[Record, Floats, float]:
        assessed = rng.normal(size=130)
        realised = 0.5 * assessed + rng.normal(size=130) * rng.uniform(0.5, 1.5, size=130)
        return Record(assessed[:100], realised[:100]), assessed[100:], float(realised[100:].mean())

    assert 0.925 <= covered(draw) <= 0.985


def test_clustered_rows_are_covered_where_independence_would_not_be() -> None:
    def draw(rng: np.random.Generator) -> tuple[Record, Floats, float]:
        clusters = np.arange(400) // 10
        assessed = rng.normal(size=400)
        realised = assessed + rng.normal(size=400) + rng.normal(size=40)[clusters]
        old = clusters < 30
        return Record(assessed[old], realised[old], clusters=clusters[old]), assessed[~old], realised[~old].mean()

    def naively(rng: np.random.Generator) -> tuple[Record, Floats, float]:
        record, new, realised = draw(rng)
        return replace(record, clusters=None), new, realised

    assert 0.92 <= covered(draw) <= 0.985
    assert covered(naively, 200) < 0.8


def test_a_level_that_is_drawn_anew_for_every_block_is_covered() -> None:
    def draw(rng: np.random.Generator) -> tuple[Record, Floats, float]:
        assessed = rng.normal(size=440)
        realised = assessed + rng.normal(size=440) + np.repeat(rng.normal(size=11), 40)
        return Record(assessed[:400], realised[:400], time_ordered=True), assessed[400:], realised[400:].mean()

    assert 0.92 <= covered(draw) <= 0.985


# Trends


def trending(slope: float, n: int = 300, folds: int = 0) -> Record:
    """Rows in time order whose level rises by ``slope`` from the first row to the last."""
    assessed, realised = pairs(n, 4)
    number = in_a_row(n, folds) if folds else None
    return Record(assessed, realised + slope * np.linspace(-0.5, 0.5, n), time_ordered=True, folds=number)


def block_levels(record: Record) -> tuple[Floats, Floats]:
    """The middles of the ten blocks, and their levels."""
    blocks, left = np.array_split(np.arange(len(record.realised)), 10), residuals(record)
    return np.array([block.mean() for block in blocks]), np.array([left[block].mean() for block in blocks])


@pytest.mark.parametrize("n", [300, 307])
@pytest.mark.parametrize("folds", [0, 5, 10])
@pytest.mark.parametrize("slope", [6.0, -6.0])
def test_a_steady_trend_is_followed_to_the_last_row_and_may_go_on_or_stop(slope: float, folds: int, n: int) -> None:
    record = trending(slope, n, folds)
    fit = stats.linregress(*block_levels(record))
    # without its own rows a fold is told a level that lies 1/K of the way too far on the other side
    rise = fit.slope * (1 - 1 / folds if folds else 1.0)
    plain_line = line(record)
    np.testing.assert_allclose(record.correct(NEW), plain_line(NEW) + rise * n / 2, rtol=1e-9)
    promise, m = record.promise(NEW), len(NEW)
    stops, goes_on = (plain_line(NEW).mean() + rise * (n + further) / 2 for further in (0, m))
    assert promise.mean == pytest.approx((stops + goes_on) / 2, rel=1e-9)
    half = np.hypot(record.half_width(NEW), stats.t.ppf(0.975, 8) * fit.stderr * (n + m) / 2)
    assert promise.high == pytest.approx(max(stops, goes_on) + half, rel=1e-9)
    assert promise.low == pytest.approx(min(stops, goes_on) - half, rel=1e-9)
    way = "rising" if slope > 0 else "falling"
    assert promise.note == f"the level has been {way} steadily, which may go on or stop"


@pytest.mark.parametrize("folds", [0, 10])
def test_what_a_trend_explains_is_not_taken_for_a_random_walk(folds: int) -> None:
    record = trending(6.0, folds=folds)
    when, level = block_levels(record)
    fit = stats.linregress(when, level)
    blocks = float(np.square(level - fit.intercept - fit.slope * when).sum()) / 8
    assert record.half_width(NEW) == pytest.approx(half_in_time(record, NEW, blocks), rel=1e-9)
    assert float(np.var(level, ddof=1)) > 5 * blocks


def is_steady(record: Record) -> tuple[bool, bool]:
    """Three standard errors; and what the line leaves goes up and down as noise does (Durbin and Watson)."""
    when, level = block_levels(record)
    fit = stats.linregress(when, level)
    left = level - fit.intercept - fit.slope * when
    return abs(fit.slope) > 3 * fit.stderr, bool(np.square(np.diff(left)).sum() >= WHITE * np.square(left).sum())


def test_a_random_walk_is_not_taken_for_a_trend() -> None:
    followed: dict[str, list[bool]] = {"wandering": [], "steady": []}
    tempting = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        assessed, noise = rng.normal(size=(2, 300))
        steps = 0.15 * rng.normal(size=300)
        for kind, level in (("wandering", np.cumsum(steps)), ("steady", 0.01 * np.arange(300))):
            record = Record(assessed, assessed + noise + level, time_ordered=True)
            assert (record.trend[0] != 0) == all(is_steady(record))
            followed[kind].append(record.trend[0] != 0)
            tempting += kind == "wandering" and is_steady(record)[0]
    assert sum(followed["wandering"]) < tempting
    assert np.mean(followed["steady"]) > 0.8


@pytest.mark.parametrize("count", [5, 10])
def test_folds_make_a_trend_look_as_much_steeper_as_is_taken_off(count: int) -> None:
    """Assessments hold the level of the other folds, which goes against the fold's own."""
    rng, folds = np.random.default_rng(0), in_a_row(2000, count)
    signal, noise = rng.normal(size=(2, 2000))
    realised = 3 * np.linspace(0, 1, 2000) + signal + 0.2 * noise
    assessed = signal + out_of_fold_mean(realised, folds)
    assert Record(assessed, realised, time_ordered=True, folds=folds).trend[0] * 2000 == pytest.approx(3, rel=0.05)
    assert Record(assessed, realised, time_ordered=True).trend[0] * 2000 > 3.3


@pytest.mark.parametrize("m", [20, 100])
@pytest.mark.parametrize("then", [1.0, 0.0], ids=["goes on", "stops"])
def test_a_steady_trend_is_covered_whether_it_goes_on_or_stops(m: int, then: float) -> None:
    def draw(rng: np.random.Generator) -> tuple[Record, Floats, float]:
        n = 300
        assessed, noise = rng.normal(size=(2, n + m))
        steps = np.where(np.arange(n + m) < n, 1.0, then)
        realised = assessed + noise + rng.choice([-6, 6]) * np.cumsum(steps) / n
        return Record(assessed[:n], realised[:n], time_ordered=True), assessed[n:], realised[n:].mean()

    def blindly(rng: np.random.Generator) -> tuple[Record, Floats, float]:
        record, new, realised = draw(rng)
        return replace(record, time_ordered=False), new, realised

    assert covered(draw, 300) >= 0.92
    assert covered(blindly, 60) < 0.1


def test_an_insignificant_slope_is_not_a_trend() -> None:
    record = trending(0.0)
    promise = record.promise(NEW)
    assert promise.mean == pytest.approx(record.correct(NEW).mean(), rel=1e-12)
    assert promise.note == ""
    assert replace(trending(6.0), time_ordered=False).promise(NEW).note == ""


# Senses


def test_the_limit_to_rely_on_is_the_worse_one() -> None:
    promise, cost = plain().promise(NEW), plain(sign=-1.0).promise(NEW)
    assert promise.rely_on == promise.low
    assert cost.rely_on == cost.high
    assert (cost.low, cost.high) == (promise.low, promise.high)


@given(seed=st.integers(0, 30), time_ordered=st.booleans(), curse=st.sampled_from([0.0, 0.7]), clustered=st.booleans())
def test_costs_are_the_mirror_of_payoffs(seed: int, time_ordered: bool, curse: float, clustered: bool) -> None:
    assessed, realised = pairs(100, seed)
    rows: dict[str, Any] = {"time_ordered": time_ordered, "curse": curse}
    rows["clusters"] = np.arange(100) // 4 if clustered else None
    payoff = Record(assessed, realised, sign=1.0, **rows).promise(NEW)
    cost = Record(-assessed, -realised, sign=-1.0, **rows).promise(-NEW)
    assert (cost.mean, cost.low, cost.high) == (-payoff.mean, -payoff.high, -payoff.low)
    assert cost.rely_on == -payoff.rely_on
    assert cost.unlike == payoff.unlike


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_selection_bias_lowers_the_promise(sign: float) -> None:
    fair, flattered = plain(sign=sign), plain(sign=sign, curse=0.3)
    assert flattered.promise(NEW).mean == pytest.approx(fair.promise(NEW).mean - sign * 0.3, rel=1e-12)
    np.testing.assert_allclose(flattered.correct(NEW), fair.correct(NEW) - sign * 0.3)
    assert flattered.half_width(NEW) == fair.half_width(NEW)


# Further rows


def test_an_extended_record_is_the_record_of_all_rows() -> None:
    assessed, realised = pairs(300)
    old = Record(assessed[:200], realised[:200], time_ordered=True, sign=-1.0)
    whole = Record(assessed, realised, time_ordered=True, sign=-1.0)
    assert old.extend(assessed[200:], realised[200:]).promise(NEW) == whole.promise(NEW)
    assert old.extend(assessed[200:], realised[200:]).clusters is None


def test_further_rows_are_judged_by_what_all_folds_taught_and_make_a_fold_of_their_own() -> None:
    assessed, realised = pairs(300)
    old = Record(assessed[:200], realised[:200], folds=in_a_row(200, 10))
    longer = old.extend(assessed[200:250], realised[200:250]).extend(assessed[250:], realised[250:])
    whole = Record(assessed, realised, folds=np.concatenate([in_a_row(200, 10), 10 + in_a_row(100, 2)]))
    assert longer.promise(NEW) == whole.promise(NEW)


def test_further_rows_are_of_the_clusters_they_are_said_to_be_of() -> None:
    assessed, realised = pairs(60)
    first, further = np.repeat([0, 1], 20), np.repeat([1, 2], 10)
    longer = Record(assessed[:40], realised[:40], clusters=first).extend(assessed[40:], realised[40:], further)
    whole = Record(assessed, realised, clusters=np.concatenate([first, further]))
    assert longer.clusters is not None
    np.testing.assert_array_equal(longer.clusters, [*first, *further])
    assert longer.promise(NEW) == whole.promise(NEW)


def test_further_rows_that_are_said_to_be_of_no_cluster_are_each_their_own() -> None:
    assessed, realised = pairs(60)
    first = np.repeat([0, 1], 20)
    alone = Record(assessed[:40], realised[:40], clusters=first).extend(assessed[40:], realised[40:])
    assert alone.clusters is not None
    np.testing.assert_array_equal(alone.clusters, [*first, *range(2, 22)])


def test_extending_leaves_the_old_record_as_it_was() -> None:
    record = plain()
    before = record.promise(NEW)
    record.extend(NEW, NEW + 100)
    assert record.promise(NEW) == before


def test_the_selection_bias_belongs_to_the_rows_of_the_selection_alone() -> None:
    record = plain(curse=0.4)
    further = pairs(600, seed=1)
    fair = replace(record, curse=0.0).extend(*further)
    longer = record.extend(*further)
    assert longer.level == pytest.approx(fair.level - 0.4 * 200 / 800, rel=1e-9)


# Text


def test_a_record_is_told_from_others_by_identity_and_shown_in_short() -> None:
    first, second = plain(1500), plain(1500)
    assert first != second
    assert len({first, second}) == 2
    b, _ = np.polyfit(first.assessed, first.realised, 1)
    assert repr(first) == f"Record(1,500 rows, {first.realised.mean():.4g} realised, slope {b:.3g})"


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+\.\d+", text)]


def test_a_promise_in_words() -> None:
    promise = Promise(2.41, 2.2, 2.6, rows=1, rely_on=2.2)
    assert numbers(str(promise)) == [2.41, 2.2, 2.6]
    assert str(promise).endswith("on average over 1 row")
    late = str(replace(promise, rows=1200, time_ordered=True, note="mind the gap"))
    assert numbers(late) == [2.41, 2.2, 2.6, 2.2]
    assert "rely on" in late
    assert late.endswith("on average over 1,200 rows (mind the gap)")


def test_a_promise_on_a_page_is_its_words_with_nothing_to_run() -> None:
    promise = Promise(2.41, 2.2, 2.6, rows=1200, rely_on=2.2, note="a < b & <script>")
    page = promise._repr_html_()
    assert "<script>" not in page
    assert str(replace(promise, note="")) in page
    assert promise.note in unescape(page)


# Nothing is certain


RECORDS_WITHOUT_NOISE = {
    "a perfect member": (np.linspace(-3.0, 9.0, 200), np.linspace(-3.0, 9.0, 200)),
    "a constant payoff": (np.full(200, 5.0), np.full(200, 5.0)),
    "a constant payoff, assessed otherwise": (np.zeros(200), np.full(200, -3.0)),
    "no payoff at all": (np.zeros(200), np.zeros(200)),
    "a payoff that is hardly a number": (np.full(200, 1e-60), np.full(200, 1e-60)),
    "a payoff that is nearly always the same": (np.zeros(200), np.arange(200.0) == 7),
}


@pytest.mark.parametrize("name", RECORDS_WITHOUT_NOISE)
@pytest.mark.parametrize("time_ordered", [False, True])
@pytest.mark.parametrize("clustered", [False, True])
def test_no_interval_is_without_width(name: str, time_ordered: bool, clustered: bool) -> None:
    assessed, realised = (np.asarray(each, dtype=np.float64) for each in RECORDS_WITHOUT_NOISE[name])
    clusters = np.arange(200) // 4 if clustered else None
    record = Record(assessed, realised, time_ordered=time_ordered, clusters=clusters)
    promise = record.promise(assessed[50:150])
    assert promise.low < promise.mean < promise.high
    low, high = record.limits(assessed)
    assert (low < high).all()
    assert (low <= record.correct(assessed)).all()
    assert (record.correct(assessed) <= high).all()


@pytest.mark.parametrize("n", [100, 1000])
def test_ordinary_intervals_are_far_wider(n: int) -> None:
    """Self-assessments that explain three quarters of the payoffs' variance are better than most."""
    rng = np.random.default_rng(0)
    assessed = rng.normal(size=n)
    record = Record(assessed, assessed + rng.normal(scale=3**-0.5, size=n))
    assert record.half_width(rng.normal(size=10_000)) > 3 * 3 * record.realised.std() / n
