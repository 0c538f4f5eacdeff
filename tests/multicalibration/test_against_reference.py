"""The package agrees with the textbook version of Algorithms 1 to 3, on problems that make it work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests import reference
from tests.problems import Problem, random_problem

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")]

SCHEDULES: list[dict[str, Any]] = [
    {"schedule": "frozen"},
    {"schedule": "round-robin"},
    {"schedule": "joint"},
    {"schedule": "joint", "shrinkage": 2.0},
]
COMMON: dict[str, Any] = {"alpha": 0.02, "max_rounds": 400}


def reference_actions(problem: Problem) -> Any:
    """The reference's own enumeration of the same set."""
    d = problem.Y.shape[1]
    return reference.polytope_vertices([[1.0] * d, [1.0, *[0.0] * (d - 1)]], [0.45 * d, 0.7], d)


@pytest.mark.parametrize("options", SCHEDULES, ids=lambda o: "-".join(str(v) for v in o.values()))
@pytest.mark.parametrize("sense", ["max", "min"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("grouped", [False, True])
def test_the_white_box_agrees_with_the_reference(seed: int, sense: str, options: dict[str, Any], grouped: bool) -> None:
    problem = random_problem(seed)
    groups = problem.X % 3 if grouped else None
    ours = problem.white_box(
        sense=sense, bucket_width=0.25, subgroups=(lambda X: X % 3) if grouped else None, **options, **COMMON
    )
    theirs = reference.white_box(
        problem.P, problem.Y, reference_actions(problem), sense=sense, width=0.25, groups=groups, **options, **COMMON
    )
    assert ours.n_rounds_ == theirs.rounds >= 2
    assert_enough_patches(ours, theirs, options)
    np.testing.assert_allclose(ours.predict_members(problem.X), theirs.predictions, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(ours.choose(problem.X), theirs.winner)
    assert ours.worst_violation_ == pytest.approx(theirs.worst, abs=1e-9)


@pytest.mark.parametrize("options", SCHEDULES, ids=lambda o: "-".join(str(v) for v in o.values()))
@pytest.mark.parametrize("sense", ["max", "min"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("grouped", [False, True])
def test_the_black_box_agrees_with_the_reference(seed: int, sense: str, options: dict[str, Any], grouped: bool) -> None:
    # many rows per policy cell, so that even the joint schedule needs a second round and ten corrections
    problem = random_problem(seed, n=80, k=2)
    groups = problem.X % 3 if grouped else None
    ours = problem.black_box(
        sense=sense, bucket_width=0.25, subgroups=(lambda X: X % 3) if grouped else None, **options, **COMMON
    )
    theirs = reference.black_box(
        np.tile(problem.Y.mean(axis=0), (80, 1)),
        problem.actions,
        problem.Y,
        reference_actions(problem),
        sense=sense,
        width=0.25,
        groups=groups,
        **options,
        **COMMON,
    )
    assert ours.n_rounds_ == theirs.rounds >= 2
    assert_enough_patches(ours, theirs, options)
    np.testing.assert_allclose(ours.predict(problem.X), theirs.predictions, rtol=0, atol=1e-9)
    np.testing.assert_allclose(ours.decide(problem.X), theirs.actions, rtol=0, atol=1e-9)
    assert ours.worst_violation_ == pytest.approx(theirs.worst, abs=1e-9)


def assert_enough_patches(ours: Any, theirs: reference.Result, options: dict[str, Any]) -> None:
    """At least ten patches; the joint schedule makes them all at once, so there its patched cells are counted."""
    patched = sum(len(patch.cells) for patches in ours.log_[0].rounds for patch in patches)
    assert patched >= 10
    if options["schedule"] != "joint":
        assert ours.n_patches_.sum() == theirs.patches >= 10


@pytest.mark.parametrize("schedule", ["frozen", "round-robin", "joint"])
def test_a_set_of_finitely_many_actions_agrees_with_the_reference(schedule: str) -> None:
    """Ω need not be convex."""
    problem = random_problem(7, omega="vertices")
    omega: Any = problem.omega
    options: dict[str, Any] = {"schedule": schedule, **COMMON}
    ours = problem.white_box(bucket_width=0.2, **options)
    theirs = reference.white_box(problem.P, problem.Y, omega.vertices, width=0.2, **options)
    assert ours.n_rounds_ == theirs.rounds >= 2
    np.testing.assert_allclose(ours.predict_members(problem.X), theirs.predictions, rtol=0, atol=1e-9)
