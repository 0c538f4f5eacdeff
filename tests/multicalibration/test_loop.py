"""Debiasing and its replay: schedules, compiled rounds, least squares on overlapping cells."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from numba import njit

from optensemble import feasible
from optensemble._core.arrays import Floats
from optensemble._core.buckets import Buckets
from optensemble._core.kernel import make_kernel
from optensemble.multicalibration import cell_tables
from optensemble.multicalibration import update as algorithm_1
from optensemble.multicalibration.corrections import replay
from optensemble.multicalibration.events import Cells, black_box, white_box
from optensemble.multicalibration.least_squares import least_squares
from optensemble.multicalibration.loop import debias
from optensemble.multicalibration.schedules import Debiasing
from optensemble.multicalibration.state import Situation
from tests.problems import Problem, random_problem

pytestmark = pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")


def situation_of(problem: Problem) -> Situation:
    return Situation(problem.P.copy(), problem.omega, buckets_of(problem))


def buckets_of(problem: Problem) -> Buckets:
    return Buckets(problem.omega.lower, problem.omega.upper, 4)


@pytest.mark.parametrize("schedule", ["frozen", "joint", "round-robin"])
def test_the_log_replayed_is_the_fit_to_the_last_bit(schedule: str) -> None:
    problem = random_problem(3)
    how = Debiasing(white_box(buckets_of(problem), 3), schedule, alpha=0.02, max_rounds=200)
    fitted, fresh = situation_of(problem), situation_of(problem)
    run = debias(fitted, problem.Y, how)
    assert len(run.log.rounds) > 5
    replay(fresh, run.log)
    for name in ("predictions", "actions", "assessed", "winner"):
        np.testing.assert_array_equal(getattr(fresh, name), getattr(fitted, name))


@pytest.mark.parametrize("schedule", ["frozen", "joint", "round-robin"])
def test_replay_on_other_rows_treats_each_by_itself(schedule: str) -> None:
    problem = random_problem(4)
    other = random_problem(5, n=200)
    how = Debiasing(white_box(buckets_of(problem), 3), schedule, alpha=0.02, max_rounds=200)
    run = debias(situation_of(problem), problem.Y, how)
    whole = situation_of(other)
    replay(whole, run.log)
    for rows in (slice(0, 1), slice(17, 90)):
        part = Situation(other.P[:, rows].copy(), other.omega, buckets_of(other))
        replay(part, run.log)
        np.testing.assert_array_equal(part.predictions, whole.predictions[:, rows])


class Stubborn(feasible.FeasibleSet):
    """A set whose kernel gives up every row with a first coefficient above zero."""

    def __init__(self, inner: feasible.FeasibleSet, rows_at_once: int = 8192) -> None:
        assert inner.kernel is not None
        self.inner, self.kernel = inner, make_kernel(give_up_half, rows_at_once=rows_at_once)
        self._set_bounds(inner.lower, inner.upper, inner.dimension)

    def _argmax(self, coefficients: Floats) -> Floats:
        return self.inner.argmax(coefficients)

    def violation(self, actions: Floats) -> Floats:
        return self.inner.violation(actions)

    def spec(self) -> None:
        return None


@njit
def give_up_half(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    for i in range(len(C)):
        status[i] = C[i, 0] > 0.0
        best = 0
        for j in range(C.shape[1]):
            if C[i, j] > C[i, best]:
                best = j
        actions[i] = 0.0
        actions[i, best] = 1.0


@pytest.mark.parametrize("black", [False, True])
@pytest.mark.parametrize("sense", ["max", "min"])
@pytest.mark.parametrize("min_cell", [1, 9])
def test_rounds_are_the_same_whoever_solves_the_rows(black: bool, sense: str, min_cell: int) -> None:
    """By the set's kernel inside compiled code, by the set when the kernel gives up, or by a set that has none."""
    problem, omega = random_problem(15, n=120), feasible.Simplex(3)
    sets = [omega, Stubborn(omega), Stubborn(omega, rows_at_once=5), feasible.Oracle(omega.argmax, 3)]
    groups = problem.X % 3
    fits = []
    for solver in sets:
        fit = Problem(problem.X, problem.Y, problem.P, solver)
        make = fit.black_box if black else fit.white_box
        options = {"schedule": "round-robin", "sense": sense, "max_rounds": 150, "min_cell": min_cell}
        fits.append(make(subgroups=lambda X: groups[X], **options))
    first, *others = fits
    assert first.n_rounds_ > 20
    for other in others:
        pd.testing.assert_frame_equal(other.history_, first.history_, check_exact=True)
        for mine, theirs in zip(other.log_[0].rounds, first.log_[0].rounds, strict=True):
            assert [patch.cells.tolist() for patch in mine] == [patch.cells.tolist() for patch in theirs]
            assert [patch.delta.tolist() for patch in mine] == [patch.delta.tolist() for patch in theirs]
        np.testing.assert_array_equal(other.predict(problem.X), first.predict(problem.X))
        np.testing.assert_array_equal(other.n_patches_, first.n_patches_)


SMALL_FIT = """
import numpy as np, warnings
import optensemble as oe
from optensemble import feasible
from optensemble.multicalibration.compiled_rounds import run_rounds
warnings.simplefilter("ignore")
Y = np.random.default_rng(0).normal(size=(40, 2))
for omega in (feasible.Simplex(2), feasible.Box(dimension=2), feasible.Oracle(feasible.Box(dimension=2).argmax, 2)):
    options = {"schedule": "round-robin", "max_rounds": 5, "validation": None}
    oe.WhiteBoxEnsemble([("a", lambda X: 0 * X)], omega, **options).fit(Y, Y)
print(sum(run_rounds.stats.cache_hits.values()), sum(run_rounds.stats.cache_misses.values()))
"""


@pytest.mark.slow
@pytest.mark.no_cover
def test_the_compiled_loop_is_compiled_once_for_all_sets_and_processes(tmp_path: Path) -> None:
    """A kernel handed over as a function pointer, unlike one typed by its identity, leaves the cache usable."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", SMALL_FIT]
    found = [subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(2)]
    assert [process.stdout for process in found] == ["0 1\n", "1 0\n"]


@pytest.mark.parametrize("schedule", ["frozen", "joint"])
def test_without_the_table_of_overlaps_the_rows_are_swept(schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit Algorithm 1 goes column by column, and least squares by conjugate gradients."""
    problem = random_problem(6)
    with_table = problem.white_box(schedule=schedule, alpha=0.02, bucket_width=0.25)
    monkeypatch.setattr(cell_tables, "TABLE_LIMIT", 0)
    swept = problem.white_box(schedule=schedule, alpha=0.02, bucket_width=0.25)
    assert swept.converged_
    assert swept.guarantees_["holds"].all()
    assert (swept.n_patches_ > 0).all()
    if schedule == "joint":  # the same solution by another road
        np.testing.assert_allclose(
            swept.predict_members(problem.X), with_table.predict_members(problem.X), rtol=0, atol=1e-8
        )


@pytest.mark.parametrize("shrinkage", [0.0, 3.0])
@pytest.mark.parametrize("limit", [0, 2048])
def test_joint_is_the_smallest_least_squares_solution(
    shrinkage: float, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell_tables, "TABLE_LIMIT", limit)
    problem = random_problem(8)
    layout = white_box(buckets_of(problem), 3)
    cells, residual = situation_of(problem).cells(0, layout), problem.Y - problem.P[0]
    table = cell_tables.tabulate(cells, residual)
    found = least_squares(cells, residual, table, shrinkage)
    Z = dense(cells, len(residual))
    ridge = np.sqrt(shrinkage) * np.eye(layout.count)
    stacked, right = np.vstack([Z, ridge]), np.vstack([residual, np.zeros((layout.count, 3))])
    expected = np.linalg.lstsq(stacked, right, rcond=None)[0]
    np.testing.assert_allclose(found.delta, expected[table.kept], atol=1e-9)
    np.testing.assert_array_equal(table.kept, np.flatnonzero(Z.any(axis=0)))
    delta = np.zeros((layout.count, 3))
    delta[table.kept] = found.delta
    before, after = (residual**2).sum(), ((residual - Z @ delta) ** 2).sum()
    assert found.drop == pytest.approx((before - after) / len(residual), abs=1e-9)


def dense(cells: Cells, n: int) -> npt.NDArray[np.float64]:
    Z = np.zeros((n, cells.layout.count))
    for event in range(len(cells.layout.events)):
        Z[np.arange(n), cells.column(event)] = 1
    return Z


def test_overlaps_of_shards_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(9)
    cells = situation_of(problem).cells(1, white_box(buckets_of(problem), 3))
    kept = cell_tables.tabulate(cells, problem.Y).kept
    monkeypatch.setattr(cell_tables, "_SHARD", 7)
    Z = dense(cells, len(problem.Y))[:, kept]
    np.testing.assert_array_equal(cell_tables.count_overlaps(cells, kept), Z.T @ Z)


def test_a_long_update_looks_up_between_batches_of_patches(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(10)
    whole = problem.white_box(alpha=0.02)
    monkeypatch.setattr(algorithm_1, "_PATCHES_AT_ONCE", 40)
    np.testing.assert_array_equal(problem.white_box(alpha=0.02).n_patches_, whole.n_patches_)


def test_only_rows_that_moved_are_solved_again() -> None:
    problem = random_problem(11, n=200)
    ensemble = problem.white_box(schedule="round-robin", max_rounds=100, bucket_width=0.1)
    assert ensemble.n_solves_ < 200 * 3 + 100 * 200 / 3


def test_a_consistent_start_needs_no_round() -> None:
    problem = random_problem(12)
    perfect = Problem(problem.X, problem.Y, np.stack([problem.Y] * 2), problem.omega)
    ensemble = perfect.white_box()
    assert (ensemble.n_rounds_, ensemble.converged_, len(ensemble.history_)) == (0, True, 1)


def test_conditional_cells_are_many_and_swept() -> None:
    problem = random_problem(13, n=120, d=4, k=3)
    ensemble = problem.black_box(conditional=True, alpha=0.02)
    assert ensemble.log_[0].layout.count == black_box(Buckets(np.zeros(4), np.ones(4), 10), 3, conditional=True).count
    assert ensemble.converged_
    assert ensemble.conditional_["holds"].all()


def test_conditional_cells_are_named_as_the_user_knows_them() -> None:
    problem = random_problem(14, omega="box")
    colours = np.array(["red", "green"])[problem.X % 2]
    table = problem.black_box(bucket_width=0.5, alpha=0.05, subgroups=lambda X: colours[X]).conditional_
    low, high = problem.omega.lower[0], problem.omega.upper[0]
    above = table.set_index("cell").loc[f"action[0] of m1 in [{(low + high) / 2:.4g}, {high:.4g}]"]
    assert above["rows"] == (problem.actions[1][:, 0] == high).sum()
    assert table.set_index("cell").loc["group=red", "rows"] == (colours == "red").sum()
