"""The audit: every number recomputed by plain numpy and scipy, every outcome in words."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from threadpoolctl import threadpool_limits

from optensemble._core.number_format import figures
from optensemble.evaluation.audit import Audit, Observed, audit
from optensemble.evaluation.promise import Promise
from optensemble.exceptions import InputError
from optensemble.members.fingerprints import count_seen, fingerprints, marks

Floats = npt.NDArray[np.float64]

N, K, D = 400, 3, 2
FRAMES = ["summary", "by_choice", "cells", "lift", "swap", "conditional"]


def promise(mean: float, low: float, high: float, rows: int = N) -> Promise:
    return Promise(mean, low, high, rows, low)


def observe(seed: int = 0, n: int = N, **changes: Any) -> Observed:
    """Make up an ensemble of three arms and two rivals, on cells of two partitions."""
    rng = np.random.default_rng(seed)
    arms = 2 + rng.normal(size=(K, n))
    chosen = rng.choice(K, size=n, p=[0.7, 0.25, 0.05])
    realised = arms[chosen, np.arange(n)]
    observed = Observed(
        promised=2.1 + 0.5 * rng.normal(size=n),
        realised=realised,
        interval=promise(2.1, 1.9, 2.3, n),
        names=["a", "b", "c"],
        chosen=chosen,
        arms=arms,
        rivals={"average": arms.mean(axis=0), "ridge": realised + rng.normal(0.1, 0.3, size=n)},
        residuals=rng.normal(size=(n, D)) * [1.0, 3.0],
        partitions=[
            (["low", "middle", "high"], rng.integers(3, size=n)),
            (["left", "right", "nowhere"], rng.integers(2, size=n)),
        ],
    )
    return replace(observed, **changes)


def same(ours: Audit, theirs: Audit) -> bool:
    frames = all(getattr(ours, name).equals(getattr(theirs, name)) for name in FRAMES)
    return frames and all(
        getattr(ours, f.name) == getattr(theirs, f.name) for f in fields(Audit) if f.name not in FRAMES
    )


def student(values: Floats) -> tuple[float, float]:
    low, high = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    return float(low), float(high)


# Promised and realised


def test_the_summary_of_independent_rows_is_that_of_student() -> None:
    observed = observe()
    row = audit(observed).summary.iloc[0]
    assert (row["rows"], row["seen"]) == (N, 0)
    assert row["promised"] == pytest.approx(observed.promised.mean())
    assert row["realised"] == pytest.approx(observed.realised.mean())
    assert (row["promise"], row["low"], row["high"]) == (2.1, 1.9, 2.3)
    assert (row["gap_low"], row["gap_high"]) == pytest.approx(student(observed.promised - observed.realised))
    low, high = student(observed.realised)
    assert row["half_width"] == pytest.approx((high - low) / 2)


def test_the_summary_of_clusters_of_one_size_is_that_of_their_means() -> None:
    shuffled = np.random.default_rng(1).permutation(N)
    observed = observe(clusters=shuffled % 40 + 7)
    gap = observed.promised - observed.realised
    of_clusters = np.array([gap[observed.clusters == c].mean() for c in range(7, 47)])
    row = audit(observed).summary.iloc[0]
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
    row = audit(observed).summary.iloc[0]
    assert (row["gap_high"] - row["gap_low"]) / 2 == pytest.approx(half)


def test_the_summary_in_time_order_is_that_of_block_means() -> None:
    observed = observe(n=1000, time_ordered=True)
    found = audit(observed)
    assert found.block_length == 10  # independent rows: the cube root of their number
    gap = (observed.promised - observed.realised).reshape(100, 10)
    row = found.summary.iloc[0]
    assert (row["gap_low"], row["gap_high"]) == pytest.approx(student(gap.mean(axis=1)))


def test_persistent_rows_in_time_order_leave_more_doubt() -> None:
    slow = np.repeat(np.random.default_rng(0).normal(size=100), 10)
    observed = observe(n=1000, realised=slow)
    plain, ordered = audit(observed), audit(replace(observed, time_ordered=True))
    assert plain.block_length is None
    assert ordered.block_length is not None
    assert ordered.summary["half_width"].iloc[0] > 2 * plain.summary["half_width"].iloc[0]


def test_one_cluster_says_nothing_of_others() -> None:
    """Wherever the second was followed, that was on one day."""
    observed = observe()
    found = audit(replace(observed, clusters=np.where(observed.chosen == 1, 0, 1 + np.arange(N) // 10)))
    notes = found.by_choice.set_index("chosen")[["note", "low"]]
    assert notes["note"].tolist() == ["", "all rows belong together", "fewer than 30 rows"]
    assert notes["low"].isna().tolist() == [False, True, True]


def test_by_choice_is_the_summary_where_each_was_followed() -> None:
    observed = observe()
    table = audit(observed).by_choice.set_index("chosen")
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


def test_whoever_was_never_followed_has_no_row() -> None:
    observed = observe(chosen=np.zeros(N, dtype=np.int64))
    found = audit(observed)
    assert found.by_choice["chosen"].tolist() == ["a"]
    never = found.swap[found.swap["chosen"] != "a"]
    assert (never["rows"] == 0).all()
    assert (never["gain"] == 0).all()
    assert never[["low", "high"]].isna().all(axis=None)


# Cells


def masks(observed: Observed) -> dict[str, npt.NDArray[np.bool_]]:
    return {name: part == i for names, part in observed.partitions for i, name in enumerate(names)}


def test_cells_are_mean_residuals_with_simultaneous_intervals() -> None:
    observed = observe()
    found = audit(observed)
    cells = found.cells
    assert found.tested == len(cells) == 5 * D  # nobody is nowhere
    assert found.thin == 0
    wanted = brute_force_critical(observed)
    for row in cells.to_dict("records"):
        there = masks(observed)[row["cell"]]
        residual = observed.residuals[there, row["coordinate"]]
        error = residual.std(ddof=1) / np.sqrt(len(residual))
        assert row["rows"] == len(residual)
        assert row["bias"] == pytest.approx(residual.mean())
        assert row["violation"] == pytest.approx(there.mean() * abs(residual.mean()))
        assert row["t"] == pytest.approx(residual.mean() / error)
        assert (row["low"], row["high"]) == pytest.approx(
            (row["bias"] - row["detectable"], row["bias"] + row["detectable"])
        )
        # one critical probability for all, translated by Student's t
        alone = stats.t.sf(row["detectable"] / error, len(residual) - 1)
        assert alone == pytest.approx(wanted, rel=0.35)
        assert row["significant"] == (abs(row["bias"]) > row["detectable"])
    beyond = cells["t"].abs() / (cells["detectable"] / (cells["bias"] / cells["t"]).abs())
    assert (beyond.diff().dropna() <= 1e-12).all()


def brute_force_critical(observed: Observed, draws: int = 20_000) -> float:
    """How improbable alone is what the largest exceeds by chance once in twenty times: by textbook multipliers."""
    multipliers = np.random.default_rng(99).normal(size=(draws, len(observed.realised)))
    largest = np.zeros(draws)
    for there in masks(observed).values():
        if there.any():
            centred = observed.residuals[there] - observed.residuals[there].mean(axis=0)
            t = multipliers[:, there] @ centred / np.sqrt((centred**2).sum(axis=0))
            largest = np.maximum(largest, np.abs(t).max(axis=1))
    return float(stats.norm.sf(np.quantile(largest, 0.95)))


def test_a_planted_bias_is_found_where_it_is() -> None:
    observed = observe()
    residuals = observed.residuals.copy()
    residuals[observed.partitions[0][1] == 1, 0] -= 1.0
    found = audit(replace(observed, residuals=residuals))
    worst = found.cells.iloc[0]
    assert (worst["cell"], worst["coordinate"], worst["significant"]) == ("middle", 0, True)
    assert worst["low"] <= -1.0 <= worst["high"]
    assert found.biased == found.cells["significant"].sum() >= 1
    assert "biased, the worst: middle, coordinate 0, by −" in str(found)


def test_thin_cells_are_left_out_and_counted() -> None:
    part = np.repeat([0, 1, 2, 3], [9, 10, 380, 1])
    found = audit(observe(partitions=[(["nine", "ten", "most", "one", "none"], part)]))
    assert set(found.cells["cell"]) == set(found.conditional["cell"]) == {"ten", "most"}
    assert (found.thin, found.tested) == (2, 2 * D)
    assert "2 cells had too few rows" in str(found)


def test_only_the_worst_fifty_cells_are_kept_but_all_count() -> None:
    rng = np.random.default_rng(0)
    partitions = [([f"{p}-{i}" for i in range(3)], rng.integers(3, size=N)) for p in range(20)]
    found = audit(observe(partitions=partitions))
    assert found.tested == 20 * 3 * D
    assert len(found.cells) == 50
    assert len(found.conditional) == 60


def test_a_coordinate_without_noise_is_biased_or_not_beyond_doubt() -> None:
    residuals = np.column_stack(
        [np.full(N, 0.3), np.zeros(N), np.full(N, 1e-17), np.random.default_rng(0).normal(size=N)]
    )
    cells = audit(observe(residuals=residuals)).cells
    known = cells[cells["coordinate"] == 0]
    nothing = cells[cells["coordinate"].isin([1, 2])]
    assert known["significant"].all()
    assert np.allclose(known[["bias", "low", "high"]], 0.3)
    assert not nothing["significant"].any()
    assert (nothing[["bias", "low", "high", "t"]] == 0).all(axis=None)


# Rivals and swaps


def test_lift_is_the_paired_comparison_with_each_rival() -> None:
    observed = observe()
    table = audit(observed).lift.set_index("rival")
    assert table.index.tolist() == ["average", "ridge"]
    for name, payoff in observed.rivals.items():
        assert table.loc[name, "realised"] == pytest.approx(payoff.mean())
        assert table.loc[name, "gain"] == pytest.approx(observed.realised.mean() - payoff.mean())
        assert tuple(table.loc[name, ["low", "high"]]) == pytest.approx(student(observed.realised - payoff))


def test_swaps_are_means_over_all_rows() -> None:
    observed = observe()
    found = audit(observed)
    regret = 0.0
    for i, chosen in enumerate(observed.names):
        gains = []
        for j, instead in enumerate(observed.names):
            gain = np.where(observed.chosen == i, observed.arms[j] - observed.realised, 0.0)
            row = found.swap[(found.swap["chosen"] == chosen) & (found.swap["instead"] == instead)].iloc[0]
            assert row["rows"] == (observed.chosen == i).sum()
            assert row["gain"] == pytest.approx(gain.mean()) == pytest.approx(found.swap_matrix.loc[chosen, instead])
            half, alone = (row["high"] - row["low"]) / 2, gain.std(ddof=1) / np.sqrt(N)
            assert half == 0 if i == j else 1.96 * alone < half < 4.5 * alone
            gains.append(gain.mean())
        regret += max(gains)
    assert found.swap_regret == pytest.approx(regret)
    assert found.swap_matrix.index.tolist() == observed.names == found.swap_matrix.columns.tolist()


def test_a_swap_that_gains_is_seen() -> None:
    observed = observe()
    arms = observed.arms.copy()
    arms[1] = np.where(observed.chosen == 0, observed.realised + 0.5, arms[1])
    row = audit(replace(observed, arms=arms)).swap.iloc[1]
    assert (row["chosen"], row["instead"]) == ("a", "b")
    assert 0 < row["low"] <= 0.5 * (observed.chosen == 0).mean() <= row["high"]


def test_conditional_utility_is_against_the_best_rival_of_each_cell() -> None:
    observed = observe(rivals={"even": np.arange(N) % 2 * 1.0, "odd": 1.5 - np.arange(N) % 2})
    observed = replace(observed, partitions=[(["even", "odd"], np.arange(N) % 2)])
    table = audit(observed).conditional
    assert set(table["cell"]) == {"even", "odd"}
    for row in table.to_dict("records"):
        there = masks(observed)[row["cell"]]
        best = max(observed.rivals, key=lambda name: observed.rivals[name][there].mean())
        gain = (observed.realised - observed.rivals[best])[there]
        assert (row["rival"], row["rows"]) == (best, there.sum())
        assert row["realised"] == pytest.approx(observed.realised[there].mean())
        assert row["rival_realised"] == pytest.approx(observed.rivals[best][there].mean())
        assert row["gain"] == pytest.approx(gain.mean())
        low, high = student(gain)
        assert row["low"] < low
        assert row["high"] > high
    assert table["gain"].is_monotonic_increasing


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
    ours, theirs = audit(observed), audit(costs)
    assert ours.kept == theirs.kept
    assert ours.gap == pytest.approx(-theirs.gap)
    for frame in ("lift", "swap", "conditional"):
        columns = ["gain", "low", "high"]
        assert np.allclose(getattr(ours, frame)[columns], getattr(theirs, frame)[columns], equal_nan=True)
    assert np.allclose(ours.lift["realised"], -theirs.lift["realised"])
    assert np.allclose(ours.conditional["rival_realised"], -theirs.conditional["rival_realised"])
    assert ours.conditional["rival"].tolist() == theirs.conditional["rival"].tolist()
    assert theirs.verdict.startswith("promised a cost of ")


# Words


def exact(mean: float, half: float = 0.07, n: int = 3000) -> Floats:
    """Rows of this mean, the interval of which has this half-width."""
    values = np.random.default_rng(0).normal(size=n)
    values = (values - values.mean()) / values.std(ddof=1)
    return np.asarray(mean + values * half * np.sqrt(n) / stats.t.ppf(0.975, n - 1))


@pytest.mark.parametrize(
    ("interval", "mean", "half", "sign", "words"),
    [
        ((2.41, 2.3, 2.5), 2.38, 0.07, 1, "promised 2.41, earned 2.38 ± 0.07 on 3,000 new rows: kept"),
        (
            (2.52, 2.4, 2.6),
            -0.36,
            0.11,
            1,
            "promised 2.52 (2.40 to 2.60), earned −0.36 ± 0.11 on 3,000 new rows: not kept, it promised too much",
        ),
        (
            (2.0, 1.9, 2.1),
            2.4,
            0.2,
            1,
            "promised 2.00 (1.90 to 2.10), earned 2.40 ± 0.20 on 3,000 new rows: "
            "not kept, it earned more than promised",
        ),
        ((2.41, 2.3, 2.5), 2.38, 0.07, -1, "promised a cost of 2.41, came to 2.38 ± 0.07 on 3,000 new rows: kept"),
        (
            (2.0, 1.9, 2.1),
            2.4,
            0.05,
            -1,
            "promised a cost of 2.00 (1.90 to 2.10), came to 2.40 ± 0.05 on 3,000 new rows: "
            "not kept, it cost more than promised",
        ),
        (
            (2.0, 1.9, 2.1),
            1.4,
            0.05,
            -1,
            "promised a cost of 2.00 (1.90 to 2.10), came to 1.40 ± 0.05 on 3,000 new rows: "
            "not kept, it cost less than promised",
        ),
        (
            (2.0, -np.inf, np.inf),
            1.4,
            0.05,
            1,
            "promised 2.00 without limits, earned 1.40 ± 0.05 on 3,000 new rows: there was no promise to keep",
        ),
        (
            (12_345_678.0, 12e6, 13e6),
            12_400_000,
            5_000,
            1,
            "promised 12,345,678 (12,000,000 to 13,000,000), earned 12,400,000 ± 5,000 on 3,000 new rows: kept",
        ),
        (
            (12_345_678.0, 12e6, 13e6),
            12_348_000,
            5_000,
            1,
            "promised 12,345,678, earned 12,348,000 ± 5,000 on 3,000 new rows: kept",
        ),
        (
            (1.2e-3, 1e-3, 2e-3),
            1.4e-3,
            1e-4,
            1,
            "promised 0.00120 (0.00100 to 0.00200), earned 0.00140 ± 0.00010 on 3,000 new rows: kept",
        ),
        ((1.2e-3, 1e-3, 2e-3), 1.25e-3, 1e-4, 1, "promised 0.00120, earned 0.00125 ± 0.00010 on 3,000 new rows: kept"),
        (
            (2.41, 2.40, 2.4235),
            2.4236,
            0.07,
            1,
            "promised 2.4100 (2.4000 to 2.4235), earned 2.4236 ± 0.0700 on 3,000 new rows: "
            "not kept, it earned more than promised",
        ),
    ],
)
def test_the_verdict(interval: tuple[float, float, float], mean: float, half: float, sign: float, words: str) -> None:
    observed = observe(
        n=3000,
        realised=exact(mean, half),
        promised=np.full(3000, interval[0]),
        interval=promise(*interval),
        sign=float(sign),
    )
    found = audit(observed)
    assert found.verdict == words
    assert found.kept is (None if np.isinf(interval[1]) else interval[1] <= mean <= interval[2])
    assert repr(found) == f"Audit({words!r})"
    assert str(found).splitlines()[0] == words


def test_the_verdict_tells_of_rows_that_boast_more_than_the_promise() -> None:
    verdict = audit(
        observe(n=3000, realised=exact(0.1), promised=np.full(3000, 2.5), interval=promise(0.0, -1, 1))
    ).verdict
    assert verdict.endswith(": kept (but row by row it assessed itself at 2.50)")


def test_rows_that_were_fitted_on_prove_nothing() -> None:
    with pytest.warns(UserWarning, match=r"1,200 of these 3,000 rows .* proves nothing. Give rows it has not seen"):
        found = audit(observe(n=3000, seen=1200))
    assert found.verdict.endswith("on 3,000 rows, of which 1,200 were fitted on: this proves nothing")
    assert found.summary["seen"].iloc[0] == 1200
    assert found.kept is None


def test_a_few_rows_that_were_fitted_on_are_told_but_not_warned_of() -> None:
    found = audit(observe(n=3000, realised=exact(2.1), seen=30))
    assert found.verdict.endswith("on 3,000 rows, of which 30 were fitted on: kept")
    assert found.kept is True


@given(
    st.lists(st.floats(-1e12, 1e12, allow_subnormal=False), min_size=2, max_size=4),
    st.floats(1e-6, 1e6),
)
def test_figures_are_the_numbers_to_the_digits_shown(values: list[float], doubt: float) -> None:
    written = figures([*values, doubt])
    read = [float(text.replace("−", "-").replace(",", "")) for text in written]
    assert np.allclose(read[:-1], values, rtol=1e-5, atol=doubt)
    assert read[-1] == pytest.approx(doubt, rel=0.3)
    for a, b in pairwise(values):
        if abs(a - b) > doubt:
            assert figures([a, b, doubt])[0] != figures([a, b, doubt])[1]


def test_figures_without_any_doubt_or_size() -> None:
    assert figures([2.0, 2.0, 0.0]) == ["2.000", "2.000", "0.000"]
    assert figures([0.0, 0.0, 0.0]) == ["0", "0", "0"]
    assert figures([1e20, 2e20, 1e18]) == ["1e+20", "2e+20", "1e+18"]
    assert figures([1e-20, -2e-20, 1e-21]) == ["1e−20", "−2e−20", "1e−21"]


def test_the_page_shows_every_table_and_escapes_names() -> None:
    evil = "<script>alert(1)</script>"
    observed = observe(names=[evil, "b", "c"], rivals={evil: np.zeros(N)})
    observed = replace(observed, partitions=[([evil], np.zeros(N, dtype=np.int64))])
    found = audit(observed)
    page = found._repr_html_()
    assert "<script>" not in page
    assert page.count("&lt;script&gt;") >= 5
    assert found.verdict in page
    assert page.count("<table") == 5
    assert len(page) < 20_000


def test_the_page_leaves_out_tables_that_have_no_rows() -> None:
    page = audit(observe(rivals={}, partitions=[]))._repr_html_()
    assert page.count("<table") == 2


def test_the_page_lists_only_swaps_that_would_have_gained_the_largest_first() -> None:
    observed = observe()
    arms = observed.arms.copy()
    # instead of b, a would have been better and c better still; instead of a and c, nobody
    followed = observed.chosen
    for number, (a, b, c) in enumerate([(0.0, -1.0, -2.0), (1.0, 0.0, 2.0), (-1.0, -1.0, 0.0)]):
        arms[:, followed == number] = observed.realised[followed == number] + np.array([[a], [b], [c]])
    found = audit(replace(observed, arms=arms))
    title = "Swaps that would have gained"
    page = found._repr_html_().split(title)[1].split("</table>")[0]
    listed = re.findall(r"<td>(a|b|c)</td>\s*<td>(a|b|c)</td>", page)
    assert listed == [("b", "c"), ("b", "a")]
    none = audit(
        replace(observed, arms=np.tile(observed.realised, (K, 1)) - 1e-3 * (np.arange(K)[:, None] != followed))
    )
    assert title not in none._repr_html_()


# Few rows, bad rows


@pytest.mark.parametrize("n", [2, 5, 20])
@pytest.mark.parametrize("kind", ["rows", "clusters", "time"])
def test_few_rows_one_arm_and_no_rival_will_do(n: int, kind: str) -> None:
    observed = observe(n=n, time_ordered=kind == "time", clusters=np.arange(n) % 2 if kind == "clusters" else None)
    alone = replace(observed, names=["a"], chosen=np.zeros(n, dtype=np.int64), arms=observed.realised[None], rivals={})
    for one in (alone, replace(alone, partitions=[]), observed):
        found = audit(one)
        assert np.isfinite(found.summary["half_width"].iloc[0])
        assert found._repr_html_()
        assert str(found)
    swap = audit(alone).swap
    assert swap["gain"].tolist() == [0.0]
    assert len(audit(alone).lift) == len(audit(alone).conditional) == 0
    if kind == "rows":
        row = found.summary.iloc[0]
        assert (row["gap_low"], row["gap_high"]) == pytest.approx(student(observed.promised - observed.realised))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"realised": np.zeros(1)}, "at least 2 rows are needed; got 1"),
        ({"promised": np.zeros(3)}, f"promised must have one entry for each of the {N} rows; got 3"),
        ({"residuals": np.full((N, 1), np.nan)}, "residuals must be finite"),
        ({"rivals": {"r": np.zeros(3)}}, "the payoff of 'r' must have one entry"),
        ({"clusters": np.zeros(3, dtype=np.int64)}, "clusters must have one entry"),
        ({"names": ["a"]}, r"arms must have shape \(1, 400\); got \(3, 400\)"),
        ({"chosen": np.full(N, 3)}, "chosen must number 3 names from 0; got 3 to 3"),
        ({"partitions": [(["x"], np.full(N, -1))]}, r"the partition into \['x'\] must number 1 names"),
        ({"clusters": np.full(N, 3)}, "all rows are in one group, so that nothing can be compared. Leave groups out"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        observe(**changes)


# The same bits


def test_the_same_rows_and_seed_give_the_same_bits_on_one_thread_or_many() -> None:
    observed = observe(n=3000)
    with threadpool_limits(1):
        one = audit(observed, random_state=3)
    with threadpool_limits(2):
        many = audit(observed, random_state=3)
    assert same(one, many)
    other = audit(observed, random_state=4)
    assert not same(one, other)
    pd.testing.assert_frame_equal(one.lift, other.lift)
    pd.testing.assert_frame_equal(one.summary, other.summary)


# Fingerprints


@given(st.integers(0, 2**32 - 1))
def test_rows_have_the_same_fingerprint_where_all_their_numbers_are_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = rng.integers(3, size=(80, 2)).astype(float), rng.integers(3, size=80).astype(float)
    prints = fingerprints(left, right)
    table = np.column_stack([left, right])
    equal = (table[:, None] == table[None]).all(axis=2)
    assert prints.dtype == np.uint64
    assert np.array_equal(prints[:, None] == prints[None], equal)


def test_a_fingerprint_sees_the_last_bit_and_the_order_but_not_the_sign_of_zero() -> None:
    row = np.array([[0.1, 0.2, 0.0]])
    assert fingerprints(row) != fingerprints(np.nextafter(row, 1.0))
    assert fingerprints(row) != fingerprints(row[:, [1, 0, 2]])
    assert fingerprints(row) == fingerprints(row * [1, 1, -1])
    assert fingerprints(row) == fingerprints(row[:, :2], row[:, 2]) == fingerprints(row.reshape(1, 3, 1))


def test_fingerprints_of_many_rows_do_not_collide() -> None:
    rows = np.arange(200_000, dtype=float)
    assert len(np.unique(fingerprints(rows))) == 200_000


def test_fingerprints_are_the_same_in_another_process() -> None:
    code = (
        "import numpy as np; from optensemble.evaluation.audit import fingerprints; "
        "print(fingerprints(np.arange(6.0).reshape(3, 2)).tolist())"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == str(fingerprints(np.arange(6.0).reshape(3, 2)).tolist())


def test_fingerprints_of_arrays_that_do_not_match_are_refused() -> None:
    with pytest.raises(InputError, match=r"same number of rows; got \[2, 3\]"):
        fingerprints(np.zeros(2), np.zeros(3))
    with pytest.raises(InputError, match="got none"):
        fingerprints()
    assert len(fingerprints(np.zeros((0, 2)))) == 0


# Rows known again


@given(st.integers(0, 2**32 - 1), st.integers(0, 60), st.integers(0, 60))
def test_rows_that_were_fitted_on_are_counted_each(seed: int, new: int, old: int) -> None:
    rng = np.random.default_rng(seed)
    fitted, fresh = rng.normal(size=(100, 2)), rng.normal(size=(new, 2))
    again = fitted[rng.integers(100, size=old)]  # the same one may come several times
    rows = rng.permutation(np.concatenate([fresh, again]))
    assert count_seen(fingerprints(rows), marks(fitted)) == old


@pytest.mark.parametrize(("values", "known"), [(50, False), (51, True)])
def test_rows_of_few_values_are_not_known_again(values: int, known: bool) -> None:
    """Fifty different values of every column, however many rows: new rows are like old ones by chance."""
    left = np.stack([np.arange(400) % values, np.arange(400) % 3], axis=1).astype(float)
    right = (np.arange(400) % 7).astype(float)[:, None]
    found = marks(left, right)
    assert len(found) == (400 if known else 0)
    assert count_seen(fingerprints(left, right), found) == (400 if known else 0)
    if known:
        np.testing.assert_array_equal(found, fingerprints(left, right))


def test_an_honest_audit_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        audit(observe())
