"""The audit's tables of cells, lift and swaps, recomputed by plain numpy and scipy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from optensemble.evaluation.audit import make_audit
from optensemble.evaluation.audit_inputs import AuditInputs
from tests.evaluation.observations import D, N, cell_names, observe, student

# Cells


def masks(observed: AuditInputs) -> dict[str, npt.NDArray[np.bool_]]:
    return {str(name): part == i for names, part in observed.partitions for i, name in enumerate(names)}


def test_cells_are_mean_residuals_with_simultaneous_intervals() -> None:
    observed = observe()
    found = make_audit(observed)
    cells = found.cells
    assert found.tested == len(cells) == 5 * D  # no cell is empty
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


def brute_force_critical(observed: AuditInputs, draws: int = 20_000) -> float:
    """How improbable alone is what the largest exceeds by chance once in twenty times: by textbook multipliers."""
    multipliers = np.random.default_rng(99).normal(size=(draws, len(observed.realised)))
    largest = np.zeros(draws)
    for there in masks(observed).values():
        if there.any():
            centred = observed.residuals[there] - observed.residuals[there].mean(axis=0)
            t = multipliers[:, there] @ centred / np.sqrt((centred**2).sum(axis=0))
            largest = np.maximum(largest, np.abs(t).max(axis=1))
    return float(stats.norm.sf(np.quantile(largest, 0.95)))


def test_the_cells_of_tables_are_there_as_objects_too() -> None:
    observed = observe()
    found = make_audit(observed)
    given = {str(name): name for names, _ in observed.partitions for name in names}
    for table, names in ((found.cells, found.cell_names), (found.conditional, found.conditional_names)):
        assert names == tuple(given[cell] for cell in table["cell"])
    assert make_audit(replace(observed, rivals={})).conditional_names == ()


def test_a_planted_bias_is_found_where_it_is() -> None:
    observed = observe()
    residuals = observed.residuals.copy()
    residuals[observed.partitions[0][1] == 1, 0] -= 1.0
    found = make_audit(replace(observed, residuals=residuals))
    worst = found.cells.iloc[0]
    assert (worst["cell"], worst["coordinate"], worst["significant"]) == ("middle", 0, True)
    assert worst["low"] <= -1.0 <= worst["high"]
    assert found.biased == found.cells["significant"].sum() >= 1
    assert "biased, the worst: middle, coordinate 0, by −" in str(found)


def test_cells_below_min_cell_are_left_out_and_counted() -> None:
    part = np.repeat([0, 1, 2, 3], [9, 10, 380, 1])
    found = make_audit(observe(partitions=[(cell_names("nine", "ten", "most", "one", "none"), part)]))
    assert set(found.cells["cell"]) == set(found.conditional["cell"]) == {"ten", "most"}
    assert (found.thin, found.tested) == (2, 2 * D)
    assert "2 cells had too few rows" in str(found)


def test_only_the_worst_fifty_cells_are_kept_but_all_count() -> None:
    rng = np.random.default_rng(0)
    partitions = [(cell_names(*(f"{p}-{i}" for i in range(3))), rng.integers(3, size=N)) for p in range(20)]
    found = make_audit(observe(partitions=partitions))
    assert found.tested == 20 * 3 * D
    assert len(found.cells) == 50
    assert len(found.conditional) == 60


def test_a_coordinate_without_noise_is_biased_or_not_with_certainty() -> None:
    residuals = np.column_stack(
        [np.full(N, 0.3), np.zeros(N), np.full(N, 1e-17), np.random.default_rng(0).normal(size=N)]
    )
    cells = make_audit(observe(residuals=residuals)).cells
    known = cells[cells["coordinate"] == 0]
    nothing = cells[cells["coordinate"].isin([1, 2])]
    assert known["significant"].all()
    assert np.allclose(known[["bias", "low", "high"]], 0.3)
    assert not nothing["significant"].any()
    assert (nothing[["bias", "low", "high", "t"]] == 0).all(axis=None)


# Baselines and swaps


def test_lift_is_the_paired_comparison_with_each_baseline() -> None:
    observed = observe()
    table = make_audit(observed).lift.set_index("rival")
    assert table.index.tolist() == ["average", "ridge"]
    for name, payoff in observed.rivals.items():
        assert table.loc[name, "realised"] == pytest.approx(payoff.mean())
        assert table.loc[name, "gain"] == pytest.approx(observed.realised.mean() - payoff.mean())
        assert tuple(table.loc[name, ["low", "high"]]) == pytest.approx(student(observed.realised - payoff))


def test_swaps_are_means_over_all_rows() -> None:
    observed = observe()
    found = make_audit(observed)
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
    row = make_audit(replace(observed, arms=arms)).swap.iloc[1]
    assert (row["chosen"], row["instead"]) == ("a", "b")
    assert 0 < row["low"] <= 0.5 * (observed.chosen == 0).mean() <= row["high"]


def test_conditional_utility_is_against_the_best_baseline_of_each_cell() -> None:
    observed = observe(rivals={"even": np.arange(N) % 2 * 1.0, "odd": 1.5 - np.arange(N) % 2})
    observed = replace(observed, partitions=[(cell_names("even", "odd"), np.arange(N) % 2)])
    table = make_audit(observed).conditional
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


def test_on_a_cell_what_decides_there_is_not_compared_with_itself() -> None:
    observed = observe()
    part, (names, _) = observed.partitions[0][1], observed.partitions[0]
    ridge = observed.rivals["ridge"]
    rivals = {
        "average": np.where(part == 1, observed.realised, observed.rivals["average"]),
        "ridge": np.where(part <= 1, observed.realised, ridge),
    }
    observed = replace(observed, rivals=rivals, partitions=[(names, part)])
    table = make_audit(observed).conditional.set_index("cell")
    assert sorted(table.index) == ["high", "low"]  # in the middle both do what the ensemble does
    assert table.loc["low", "rival"] == "average"
    for cell, number in (("low", 0), ("high", 2)):
        row, there = table.loc[cell], part == number
        gain = (observed.realised - rivals[str(row["rival"])])[there].mean()
        assert row["gain"] == pytest.approx(gain)
        assert row["rival_realised"] == pytest.approx(rivals[str(row["rival"])][there].mean())
