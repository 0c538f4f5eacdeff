"""The audit's summary, recomputed by plain numpy and scipy; few rows, bad rows, the same bits."""

from __future__ import annotations

import warnings
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from threadpoolctl import threadpool_limits

from optensemble.evaluation.audit import Audit, make_audit
from optensemble.evaluation.audit_inputs import AuditInputs
from optensemble.exceptions import InputError
from tests.evaluation.observations import Floats, N, cell_names, observe, promise, student

FRAMES = ["summary", "by_choice", "cells", "lift", "swap", "conditional"]


def same(ours: Audit, theirs: Audit) -> bool:
    frames = all(getattr(ours, name).equals(getattr(theirs, name)) for name in FRAMES)
    return frames and all(
        getattr(ours, f.name) == getattr(theirs, f.name) for f in fields(Audit) if f.name not in FRAMES
    )


# Promised and realised


def gaps(observed: AuditInputs) -> Floats:
    """Differences row by row, about the gap between the promise of the mean and what was realised."""
    return np.asarray(observed.promised - observed.realised + (observed.interval.mean - observed.promised.mean()))


def test_the_summary_of_independent_rows_is_a_t_interval() -> None:
    observed = observe()
    row = make_audit(observed).summary.iloc[0]
    assert (row["rows"], row["seen"]) == (N, 0)
    assert row["promised"] == pytest.approx(observed.promised.mean())
    assert row["realised"] == pytest.approx(observed.realised.mean())
    assert (row["promise"], row["low"], row["high"]) == (2.1, 1.9, 2.3)
    assert (row["gap_low"], row["gap_high"]) == pytest.approx(student(gaps(observed)))
    low, high = student(observed.realised)
    assert row["half_width"] == pytest.approx((high - low) / 2)


def test_the_summary_of_clusters_of_one_size_is_that_of_their_means() -> None:
    shuffled = np.random.default_rng(1).permutation(N)
    observed = observe(clusters=shuffled % 40 + 7)
    gap = gaps(observed)
    of_clusters = np.array([gap[observed.clusters == c].mean() for c in range(7, 47)])
    row = make_audit(observed).summary.iloc[0]
    assert (row["gap_low"], row["gap_high"]) == pytest.approx(student(of_clusters))


def test_the_summary_of_clusters_of_unequal_sizes_is_by_the_textbook() -> None:
    clusters = np.repeat(np.arange(4), [10, 20, 30, 340])
    observed = observe(clusters=clusters)
    gap = observed.promised - observed.realised
    sizes = np.bincount(clusters).astype(float)
    sums = np.array([(gap - gap.mean())[clusters == c].sum() for c in range(4)])
    # E[Σ S²] if the sum over a cluster varies as its size, by brute force: S = (I − s1'/n) u, Var u = diag(s²)
    centring = np.eye(4) - np.outer(sizes, np.ones(4)) / N
    expected = np.trace(centring @ np.diag(sizes**2) @ centring.T)
    error = np.sqrt((sums**2).sum() * (sizes**2).sum() / expected) / N
    half = stats.t.ppf(0.975, max(sizes.sum() ** 2 / (sizes**2).sum() - 1, 1)) * error
    row = make_audit(observed).summary.iloc[0]
    assert (row["gap_high"] - row["gap_low"]) / 2 == pytest.approx(half)


def test_the_summary_in_time_order_is_that_of_block_means() -> None:
    observed = observe(n=1000, time_ordered=True)
    found = make_audit(observed)
    assert found.block_length == 10  # independent rows: the cube root of their number
    gap = gaps(observed).reshape(100, 10)
    row = found.summary.iloc[0]
    assert (row["gap_low"], row["gap_high"]) == pytest.approx(student(gap.mean(axis=1)))


def test_autocorrelated_rows_in_time_order_widen_the_interval() -> None:
    slow = np.repeat(np.random.default_rng(0).normal(size=100), 10)
    observed = observe(n=1000, realised=slow)
    plain, ordered = make_audit(observed), make_audit(replace(observed, time_ordered=True))
    assert plain.block_length is None
    assert ordered.block_length is not None
    assert ordered.summary["half_width"].iloc[0] > 2 * plain.summary["half_width"].iloc[0]


def test_a_choice_made_in_one_cluster_has_no_interval() -> None:
    """Wherever the second was followed, that was on one day."""
    observed = observe()
    found = make_audit(replace(observed, clusters=np.where(observed.chosen == 1, 0, 1 + np.arange(N) // 10)))
    notes = found.by_choice.set_index("chosen")[["note", "low"]]
    assert notes["note"].tolist() == ["", "all rows belong together", "fewer than 30 rows"]
    assert notes["low"].isna().tolist() == [False, True, True]


def test_by_choice_is_the_summary_where_each_was_followed() -> None:
    observed = observe()
    table = make_audit(observed).by_choice.set_index("chosen")
    assert table["rows"].sum() == N
    for number, name in enumerate(observed.names):
        there = observed.chosen == number
        gap = (observed.promised - observed.realised)[there]
        row = table.loc[name]
        assert row["rows"] == there.sum()
        assert row["gap"] == pytest.approx(gap.mean()) == pytest.approx(row["promised"] - row["realised"])
        if there.sum() >= 30:
            assert (row["low"], row["high"]) == pytest.approx(student(gap))
            assert row["note"] == ""
        else:
            assert np.isnan(row["low"])
            assert np.isnan(row["high"])
            assert row["note"] == "fewer than 30 rows"
    assert (table["rows"] < 30).any()  # so that both kinds were seen


def test_a_candidate_never_followed_has_no_row_by_choice() -> None:
    observed = observe(chosen=np.zeros(N, dtype=np.int64))
    found = make_audit(observed)
    assert found.by_choice["chosen"].tolist() == ["a"]
    never = found.swap[found.swap["chosen"] != "a"]
    assert (never["rows"] == 0).all()
    assert (never["gain"] == 0).all()
    assert never[["low", "high"]].isna().all(axis=None)


# Senses


@given(st.integers(0, 2**32 - 1), st.sampled_from(["rows", "clusters", "time"]))
def test_an_audit_of_costs_mirrors_that_of_payoffs(seed: int, kind: str) -> None:
    clusters = np.arange(60) // 3 if kind == "clusters" else None
    observed = observe(seed, n=60, time_ordered=kind == "time", clusters=clusters)
    costs = replace(
        observed,
        promised=-observed.promised,
        realised=-observed.realised,
        interval=promise(-2.1, -2.3, -1.9),
        arms=-observed.arms,
        rivals={name: -payoff for name, payoff in observed.rivals.items()},
        sign=-1.0,
    )
    ours, theirs = make_audit(observed), make_audit(costs)
    assert (ours.kept, ours.grade) == (theirs.kept, theirs.grade)
    assert ours.gap == pytest.approx(-theirs.gap)
    for frame in ("lift", "swap", "conditional"):
        columns = ["gain", "low", "high"]
        assert np.allclose(getattr(ours, frame)[columns], getattr(theirs, frame)[columns], equal_nan=True)
    assert np.allclose(ours.lift["realised"], -theirs.lift["realised"])
    assert np.allclose(ours.conditional["rival_realised"], -theirs.conditional["rival_realised"])
    assert ours.conditional["rival"].tolist() == theirs.conditional["rival"].tolist()
    assert theirs.verdict.startswith("promised a cost of ")


# Few rows and bad input


@pytest.mark.parametrize("n", [2, 5, 20])
@pytest.mark.parametrize("kind", ["rows", "clusters", "time"])
def test_an_audit_works_with_few_rows_one_candidate_and_no_baseline(n: int, kind: str) -> None:
    observed = observe(n=n, time_ordered=kind == "time", clusters=np.arange(n) % 2 if kind == "clusters" else None)
    alone = replace(observed, names=["a"], chosen=np.zeros(n, dtype=np.int64), arms=observed.realised[None], rivals={})
    for one in (alone, replace(alone, partitions=[]), observed):
        found = make_audit(one)
        assert np.isfinite(found.summary["half_width"].iloc[0])
        assert found._repr_html_()
        assert str(found)
    swap = make_audit(alone).swap
    assert swap["gain"].tolist() == [0.0]
    assert len(make_audit(alone).lift) == len(make_audit(alone).conditional) == 0
    if kind == "rows":
        row = found.summary.iloc[0]
        assert (row["gap_low"], row["gap_high"]) == pytest.approx(student(gaps(observed)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"realised": np.zeros(0)}, "at least 1 row is needed; got 0"),
        ({"promised": np.zeros(3)}, f"promised must have one entry for each of the {N} rows; got 3"),
        ({"residuals": np.full((N, 1), np.nan)}, "residuals must be finite"),
        ({"rivals": {"r": np.zeros(3)}}, "the payoff of 'r' must have one entry"),
        ({"clusters": np.zeros(3, dtype=np.int64)}, "clusters must have one entry"),
        ({"names": ["a"]}, r"arms must have shape \(1, 400\); got \(3, 400\)"),
        ({"chosen": np.full(N, 3)}, "chosen must number 3 names from 0; got 3 to 3"),
        ({"partitions": [(cell_names("x"), np.full(N, -1))]}, r"the partition into \['x'\] must number 1 names"),
        ({"clusters": np.full(N, 3)}, "all rows are in one group, so that nothing can be compared. Leave groups out"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        observe(**changes)


# Reproducibility


def test_the_same_rows_and_seed_give_the_same_bits_on_one_thread_or_many() -> None:
    observed = observe(n=3000)
    with threadpool_limits(1):
        one = make_audit(observed, random_state=3)
    with threadpool_limits(2):
        many = make_audit(observed, random_state=3)
    assert same(one, many)
    other = make_audit(observed, random_state=4)
    assert not same(one, other)
    pd.testing.assert_frame_equal(one.lift, other.lift)
    pd.testing.assert_frame_equal(one.summary, other.summary)


def test_an_honest_audit_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_audit(observe())
