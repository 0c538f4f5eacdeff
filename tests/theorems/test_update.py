"""Lemmas 1, 2, 5 and 6: every patch lowers the squared error by a known amount, so the rounds are bounded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import optensemble as oe
from optensemble import guarantees
from optensemble._core.buckets import Buckets
from optensemble.multicalibration import events
from optensemble.multicalibration.cell_tables import tabulate
from optensemble.multicalibration.state import Situation
from optensemble.multicalibration.update import patch_worst
from tests.problems import Floats, Problem, bucket, random_problem

pytestmark = [pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning"), pytest.mark.no_cover]

seeds = st.integers(0, 2**32 - 1)
sets = st.sampled_from(["polytope", "simplex", "vertices", "box", "risk"])
senses = st.sampled_from(["max", "min"])


def squared_error(h: Floats, Y: Floats) -> float:
    return float(((h - Y) ** 2).sum(axis=1).mean())


def patched_cells(problem: Problem, h: Floats, ensemble: Any, round_: int, sense: str) -> list[tuple[Any, Floats]]:
    """The rows and step of every patch of a round, with cells found anew from the predictions before it."""
    (patch,) = ensemble.log_[0].rounds[round_]
    sign = 1.0 if sense == "max" else -1.0
    actions = np.stack([problem.omega.argmax(sign * p) for p in h])
    assessed = sign * (actions * h).sum(axis=2)
    best = assessed.max(axis=0)
    winner = (assessed >= best - 1e-9 * np.abs(best)).argmax(axis=0)
    own = bucket(actions[patch.member], problem.omega, 4)
    k = len(h)
    found = []
    for cell, step in zip(patch.cells, patch.delta, strict=True):
        coordinate, rest = divmod(int(cell), 4 * k)
        found.append(((own[:, coordinate] == rest // k) & (winner == rest % k), step))
    return found


@given(seed=seeds, omega=sets, sense=senses, rounds=st.integers(0, 60))
def test_lemma_1_each_patch_lowers_squared_error_by_its_amount(seed: int, omega: str, sense: str, rounds: int) -> None:
    """Fit to one round before and one round after a visit; the difference is the lemma's."""
    problem = random_problem(seed, n=40, omega=omega)
    options: dict[str, Any] = {"schedule": "round-robin", "bucket_width": 0.25, "alpha": 1e-9, "sense": sense}
    later = problem.white_box(max_rounds=rounds + 1, **options)
    if not later.log_[0].rounds[-1]:  # an empty visit patches nothing
        return
    before = problem.white_box(max_rounds=rounds, **options).predict_members(problem.X)
    after = later.predict_members(problem.X)
    member = later.log_[0].rounds[-1][0].member
    h = before[member].copy()
    for rows, step in patched_cells(problem, before, later, rounds, sense):
        previous = squared_error(h, problem.Y)
        np.testing.assert_allclose(step, (problem.Y - h)[rows].mean(axis=0), atol=1e-10)
        h[rows] += step
        amount = guarantees.lemma_1(rows.mean(), float(step @ step))
        assert previous - squared_error(h, problem.Y) == pytest.approx(amount, abs=1e-10)
    np.testing.assert_allclose(h, after[member], atol=1e-12)


@given(seed=seeds, steps=st.integers(1, 40))
def test_lemma_1_holds_on_the_table(seed: int, steps: int) -> None:
    """Algorithm 1 never looks at the rows, yet foretells what its patches do to them."""
    problem = random_problem(seed, n=50, d=2)
    buckets = Buckets(problem.omega.lower, problem.omega.upper, 4)
    layout = events.white_box(buckets, 3)
    situation = Situation(problem.P.copy(), problem.omega, buckets)
    cells, residual = situation.cells(0, layout), problem.Y - problem.P[0]
    table = tabulate(cells, residual)
    Z = np.zeros((50, layout.count))
    for event in range(len(layout.events)):
        Z[np.arange(50), cells.column(event)] = 1
    np.testing.assert_array_equal(table.kept, np.flatnonzero(Z.any(axis=0)))
    Z = Z[:, table.kept]
    np.testing.assert_array_equal(table.counts, Z.sum(axis=0))
    np.testing.assert_allclose(table.sums, Z.T @ residual, atol=1e-12)
    delta, sums = np.zeros_like(table.sums), table.sums.copy()
    before = squared_error(problem.P[0], problem.Y)
    made, drop = patch_worst(sums, Z.sum(axis=0), Z.T @ Z, delta, 1e-3, steps)
    after = squared_error(problem.P[0] + Z @ delta, problem.Y)
    assert 0 < made <= steps
    assert before - after == pytest.approx(drop / 50, abs=1e-10)
    np.testing.assert_allclose(sums, Z.T @ (residual - Z @ delta), atol=1e-10)


@given(
    seed=seeds,
    omega=sets,
    sense=senses,
    schedule=st.sampled_from(["frozen", "joint", "round-robin"]),
    k=st.integers(1, 4),
)
def test_lemmas_2_5_and_6_bound_patches_and_rounds(seed: int, omega: str, sense: str, schedule: str, k: int) -> None:
    problem, alpha = random_problem(seed, n=60, k=k, omega=omega), 0.05
    ensemble = problem.white_box(alpha=alpha, bucket_width=0.25, schedule=schedule, sense=sense)
    bounds = [squared_error(p, problem.Y) / alpha**2 for p in problem.P]
    assert (ensemble.n_patches_ <= bounds).all()
    if schedule != "round-robin":  # whose rounds may find nothing to patch
        assert ensemble.n_rounds_ <= sum(bounds)
        assert ensemble.converged_
    assert ensemble.n_rounds_ <= guarantees.lemma_6(alpha, [squared_error(p, problem.Y) for p in problem.P])


@given(seed=seeds, M=st.floats(0.1, 10), d=st.integers(1, 3))
def test_the_papers_bound_is_the_case_of_labels_and_predictions_in_range(seed: int, M: float, d: int) -> None:
    rng = np.random.default_rng(seed)
    Y, P = rng.uniform(0, M, size=(50, d)), rng.uniform(0, M, size=(2, 50, d))
    problem, alpha = Problem(np.arange(50), Y, P, oe.feasible.Simplex(d)), 0.05 * M
    ensemble = problem.white_box(alpha=alpha, M=M)
    assert ensemble.n_patches_.max() <= guarantees.paper_lemma_2(alpha, d, M)
    assert ensemble.n_rounds_ <= guarantees.paper_lemma_6(alpha, 2, d, M)


@given(seed=seeds, schedule=st.sampled_from(["frozen", "joint", "round-robin"]))
def test_squared_error_never_rises(seed: int, schedule: str) -> None:
    history = random_problem(seed).white_box(schedule=schedule, bucket_width=0.25, alpha=0.05).history_
    errors = history.filter(like="squared_error").to_numpy()
    assert (np.diff(errors, axis=0) <= 1e-9).all()
