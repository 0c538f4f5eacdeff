"""Definition 1: at convergence every cell is within alpha, recomputed row by row from what the ensemble returns."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.problems import black_box_masks, level_set_masks, random_problem, violation, white_box_masks

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning"),
    pytest.mark.no_cover,
]

seeds = st.integers(0, 2**32 - 1)
sets = st.sampled_from(["polytope", "simplex", "vertices", "box", "risk"])
senses = st.sampled_from(["max", "min"])
schedules = st.sampled_from(["frozen", "joint", "round-robin"])
buckets = st.sampled_from([1, 2, 4, 5, 10])
ROUNDING = 1e-9


@given(seed=seeds, omega=sets, sense=senses, schedule=schedules, count=buckets)
def test_the_white_box_is_consistent_on_its_cells(seed: int, omega: str, sense: str, schedule: str, count: int) -> None:
    problem = random_problem(seed, omega=omega)
    ensemble = problem.white_box(alpha=0.03, bucket_width=1 / count, sense=sense, schedule=schedule)
    worst = max(
        violation(mask, problem.Y - h)
        for h, masks in zip(ensemble.predict_members(problem.X), white_box_masks(ensemble, problem, count), strict=True)
        for mask in masks
    )
    assert worst == pytest.approx(ensemble.worst_violation_, abs=ROUNDING)
    assert ensemble.converged_ == (ensemble.worst_violation_ <= 0.03)
    assert ensemble.converged_ or schedule == "round-robin"


@given(seed=seeds, omega=sets, sense=senses, schedule=schedules, count=buckets)
def test_the_black_box_is_consistent_on_its_cells(seed: int, omega: str, sense: str, schedule: str, count: int) -> None:
    problem = random_problem(seed, omega=omega)
    ensemble = problem.black_box(alpha=0.03, bucket_width=1 / count, sense=sense, schedule=schedule)
    residual = problem.Y - ensemble.predict(problem.X)
    worst = max(violation(mask, residual) for mask in black_box_masks(ensemble, problem, count))
    assert worst == pytest.approx(ensemble.worst_violation_, abs=ROUNDING)
    assert ensemble.converged_ == (ensemble.worst_violation_ <= 0.03)
    assert ensemble.converged_ or schedule == "round-robin"


@given(seed=seeds, sense=senses)
def test_conditional_black_box_is_consistent_on_products_of_level_sets(seed: int, sense: str) -> None:
    problem = random_problem(seed, n=80, d=2, k=2)
    ensemble = problem.black_box(alpha=0.03, bucket_width=0.25, sense=sense, conditional=True)
    residual = problem.Y - ensemble.predict(problem.X)
    masks = black_box_masks(ensemble, problem, 4)
    assert ensemble.converged_
    assert max(violation(a & b, residual) for a, b in combinations(masks, 2)) <= 0.03 + ROUNDING


@given(seed=seeds, schedule=schedules)
def test_groups_are_cells_too(seed: int, schedule: str) -> None:
    problem = random_problem(seed)
    colours = np.random.default_rng(seed).choice(["red", "green", "blue"], size=len(problem.X))
    white = problem.white_box(alpha=0.03, bucket_width=0.25, schedule=schedule, subgroups=lambda X: colours[X])
    black = problem.black_box(alpha=0.03, bucket_width=0.25, schedule=schedule, subgroups=lambda X: colours[X])
    predictions = [*white.predict_members(problem.X), black.predict(problem.X)]
    for h, ensemble in zip(predictions, [white, white, white, black], strict=True):
        for colour in ("red", "green", "blue"):
            limit = max(0.03, ensemble.worst_violation_)
            assert violation(colours == colour, problem.Y - h) <= limit + ROUNDING


@given(seed=seeds)
def test_groups_with_conditional_cross_the_level_sets(seed: int) -> None:
    problem = random_problem(seed, n=80, d=2, k=2)
    odd = np.arange(80) % 2 == 1
    ensemble = problem.black_box(alpha=0.03, bucket_width=0.25, conditional=True, subgroups=lambda X: X % 2)
    residual = problem.Y - ensemble.predict(problem.X)
    for mask in level_set_masks(ensemble.decide(problem.X), problem.omega, 4):
        assert violation(mask & odd, residual) <= 0.03 + ROUNDING
