"""Records of very many rows: totals of all rows and a sample say what the rows themselves say."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble._core.hashing import hash_numbers
from optensemble.evaluation import payoff_record, payoff_totals
from optensemble.evaluation.payoff_record import Record
from optensemble.evaluation.payoff_totals import TIME_BINS, PairTotals, pair_sample
from optensemble.stats.blocks import part_of
from tests.problems import Floats
from tests.stats.clusters import some_clusters

KINDS = ["independent", "in time order", "with a trend", "clustered", "both"]


def pairs(n: int, seed: int, kind: str = "independent") -> tuple[Floats, Floats]:
    """Self-assessed and realised payoff."""
    rng = np.random.default_rng(seed)
    assessed = rng.normal(3.0, 1.0, size=n)
    realised = 1.0 + 0.6 * assessed + rng.normal(scale=0.8, size=n)
    realised += np.repeat(rng.normal(scale=0.3, size=20), -(-n // 20))[:n] if kind == "in time order" else 0.0
    return assessed, realised + (np.linspace(0, 2, n) if kind == "with a trend" else 0.0)


def record_of(n: int, seed: int, kind: str, sign: float = 1.0) -> Record:
    """A record of all rows."""
    clusters = some_clusters(n, n // 20, seed) if kind in ("clustered", "both") else None
    assessed, realised = pairs(n, seed, kind)
    if clusters is not None:
        realised = realised + np.random.default_rng(seed).normal(size=n)[clusters]
    ordered = kind in ("in time order", "with a trend", "both")
    folds = part_of(np.arange(n), n, 5) if ordered else np.random.default_rng(seed).integers(5, size=n)
    return Record(sign * assessed, sign * realised, sign, ordered, clusters, 0.05, folds)


def totals_of(record: Record, parts: int = 1, bins: int = TIME_BINS) -> PairTotals:
    """The totals of a record's rows, which come in parts."""
    n = len(record.assessed)
    assert record.folds is not None
    clusters = None if record.clusters is None else (record.clusters, int(record.clusters.max()) + 1)
    found = [
        PairTotals.of(
            *(record.assessed[rows], record.realised[rows], 2.5, record.folds[rows], int(record.folds.max()) + 1),
            bins=(part_of(rows, n, bins), bins) if record.time_ordered else None,
            clusters=None if clusters is None else (clusters[0][rows], clusters[1]),
        )
        for rows in np.array_split(np.random.default_rng(0).permutation(n), parts)
    ]
    return reduce(add, found)


def sampled(record: Record) -> Record:
    """The same record, of which every other row is kept."""
    kept = np.arange(0, len(record.assessed), 2)
    return replace(
        record,
        assessed=record.assessed[kept],
        realised=record.realised[kept],
        clusters=None,
        folds=None,
        rows=kept,
        totals=totals_of(record, parts=3),
    )


NUMBERS = (
    *("centre", "level", "spread", "slope", "noise", "design_effect", "quantile", "trend"),
    *("_block_variance", "wander", "blocks", "_when"),
)


def close_records(ours: Record, theirs: Record) -> None:
    """All that does not rest on single rows is the same."""
    assert len(ours) == len(theirs)
    for name in NUMBERS if theirs.time_ordered else NUMBERS[:8]:
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-9, atol=1e-9, err_msg=name)
    for name in ("deviation", "farthest"):
        assert getattr(ours._sums, name) == pytest.approx(getattr(theirs._sums, name), rel=1e-9), name
    rng = np.random.default_rng(9)
    for rows in (rng.normal(3.0, 1.0, size=50), rng.normal(6.0, 1.0, size=700), np.array([30.0, 31.0])):
        left, right = (each.promise(theirs.sign * rows) for each in (ours, theirs))
        for field in fields(left):
            value, other = getattr(left, field.name), getattr(right, field.name)
            if isinstance(value, float):
                assert value == pytest.approx(other, rel=1e-9, abs=1e-9), field.name
            else:
                assert value == other, field.name
    np.testing.assert_allclose(ours.correct(np.linspace(-3, 9, 9)), theirs.correct(np.linspace(-3, 9, 9)), atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_totals_say_what_the_rows_say(kind: str, sign: float) -> None:
    record = record_of(10_000, 1, kind, sign)
    found = sampled(record)
    close_records(found, record)
    if kind == "with a trend":
        assert record.trend[0] != 0
    if kind == "in time order":
        assert record.wander > 0
    # limits rest on the rows of the sample
    new = np.linspace(0, 6, 5) * sign
    for ours, theirs in zip(found.limits(new), record.limits(new), strict=True):
        width = np.ptp(record.limits(new)[0] - record.limits(new)[1]) + np.abs(record.limits(new)[1] - new).mean()
        np.testing.assert_allclose(ours, theirs, atol=0.05 * width)


@given(seed=st.integers(0, 50), kind=st.sampled_from(KINDS), parts=st.integers(2, 6))
def test_totals_of_parts_add_up(seed: int, kind: str, parts: int) -> None:
    record = record_of(500, seed, kind)
    whole, found = totals_of(record, bins=50), totals_of(record, parts, bins=50)
    for field in fields(whole):
        ours, theirs = getattr(found, field.name), getattr(whole, field.name)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9, err_msg=field.name)
    about = record.assessed - 2.5
    assert (whole.low, whole.high) == pytest.approx((-about.min(), about.max()), rel=1e-12)
    assert whole.rows == 500
    assert whole.means == pytest.approx((record.assessed.mean(), record.realised.mean()), rel=1e-9)
    assert whole.deviation == pytest.approx(record.assessed.std(), rel=1e-9)
    assert whole.farthest == pytest.approx(np.abs(record.assessed - record.assessed.mean()).max(), rel=1e-9)


@pytest.mark.parametrize("level", [-100.0, 0.0, 100.0])
def test_the_farthest_self_assessment_is_found_wherever_payoffs_lie(level: float) -> None:
    assessed, realised = pairs(200, 0)
    record = Record(assessed, realised + level)
    farthest = np.abs(assessed - assessed.mean()).max()
    assert record._sums.farthest == pytest.approx(farthest, rel=1e-9)
    for times, unlike in ((2.5, False), (3.5, True)):
        assert record.promise(assessed.mean() + np.array([*np.zeros(199), times * farthest])).unlike == unlike


@given(seed=st.integers(0, 50), kind=st.sampled_from(KINDS))
def test_totals_in_the_other_sense_are_those_of_what_is_turned_round(seed: int, kind: str) -> None:
    record = record_of(500, seed, kind)
    turned = replace(record, assessed=5.0 - record.assessed, realised=5.0 - record.realised)
    # 5 − v about 2.5 is −(v − 2.5); and v about −2.5 in the other sense
    ours, theirs = totals_of(record, bins=50).signed(-1.0), totals_of(turned, bins=50)
    assert ours.centre == -2.5
    assert totals_of(record, bins=50).signed(1.0).centre == 2.5
    for name in ("folds", "bins", "clusters", "low", "high"):
        left, right = getattr(ours, name), getattr(theirs, name)
        assert (left is None) == (right is None)
        if left is not None:
            np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9, err_msg=name)


# Further rows


@pytest.mark.parametrize("kind", KINDS)
def test_further_rows_are_added_to_totals_as_to_rows(kind: str) -> None:
    record = record_of(10_000, 2, kind)
    found = sampled(record)
    for seed, m in ((3, 2000), (4, 6000)):  # so many that tenths of time end where parts of time do
        assessed, realised = pairs(m, seed)
        assessed[:2] = [-4.0 - seed, 9.0]  # farther out than any before
        clusters = None
        if record.clusters is not None:  # some are known already, others are not
            clusters = some_clusters(m, 300, seed) + int(record.clusters.max()) - 150
        record, found = (each.extend(assessed, realised, clusters) for each in (record, found))
        close_records(found, record)


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_that_becomes_too_long_is_kept_as_totals_and_a_sample(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payoff_totals, "SAMPLE_ROWS", 3000)
    record = record_of(10_000, 2, kind)
    assessed, realised = pairs(2000, 3)
    clusters = None if record.clusters is None else np.arange(2000) // 4
    exact = record.extend(assessed, realised, clusters)
    for module in (payoff_totals, payoff_record):
        monkeypatch.setattr(module, "EXACT_ROWS", 11_000)
    found = record.extend(assessed, realised, clusters)
    assert exact.totals is None
    assert found.totals is not None
    assert found.rows is not None
    assert found.clusters is None
    close_records(found, exact)
    assert len(found.assessed) == len(found.realised) == len(found.rows) == 3000
    np.testing.assert_array_equal(found.assessed, exact.assessed[found.rows])
    np.testing.assert_array_equal(found.realised, exact.realised[found.rows])
    assert 0.1 < (found.rows >= 10_000).mean() < 0.24  # a sixth is of the new rows
    low, high = (each.limits(np.array([3.0])) for each in (found, exact))
    np.testing.assert_allclose(low, high, atol=0.3)
    again, other = (each.extend(*pairs(4000, 5), clusters=None) for each in (found, exact))
    close_records(again, other)
    assert len(again.assessed) == 3000


def test_where_parts_of_time_lie_across_the_ends_of_tenths_the_record_is_nearly_that_of_the_rows() -> None:
    record = record_of(10_007, 2, "in time order")
    ours, theirs = (each.extend(*pairs(3333, 3)) for each in (sampled(record), record))
    for name in ("slope", "noise", "quantile", "centre", "level"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-9), name
    for name in ("design_effect", "wander"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=0.02), name


def test_rows_without_clusters_each_are_one_where_there_are_clusters() -> None:
    record = record_of(10_000, 2, "clustered")
    found = sampled(record)
    ours, theirs = (each.extend(*pairs(1000, 3)) for each in (found, record))
    close_records(ours, theirs)
    assert ours.totals is not None
    assert ours.totals.clusters is not None
    assert found.totals is not None
    assert found.totals.clusters is not None
    assert len(ours.totals.clusters) == len(found.totals.clusters) + 1000


# The sample


def test_the_sample_is_of_the_rows_with_the_smallest_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payoff_totals, "EXACT_ROWS", 1000)
    monkeypatch.setattr(payoff_totals, "SAMPLE_ROWS", 200)
    numbers, values = np.arange(5000), np.random.default_rng(0).normal(size=(5000, 2))
    expected = np.sort(np.argsort(hash_numbers(numbers))[:200])
    for seed, count in ((0, 1), (1, 2), (2, 7), (3, 60)):
        pieces = np.array_split(np.random.default_rng(seed).permutation(5000), count)
        found: Any = reduce(add, [pair_sample(numbers[rows], values[rows], 5000) for rows in pieces])
        rows, columns = found.in_order()
        np.testing.assert_array_equal(rows, expected)
        np.testing.assert_array_equal(columns, values[expected].T)
    parts = [pair_sample(numbers[rows], values[rows], 1000) for rows in (np.arange(300, 1000), np.arange(300))]
    rows, columns = (parts[0] + parts[1]).in_order()
    np.testing.assert_array_equal(rows, np.arange(1000))
    np.testing.assert_array_equal(columns, values[:1000].T)
