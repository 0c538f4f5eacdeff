"""The package agrees with the textbook version of Algorithms 1 to 3, on problems that make it work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests import reference
from tests.problems import Problem, level_set_masks, random_problem

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning"),
    pytest.mark.no_cover,
]

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
@pytest.mark.parametrize(("seed", "grouped"), [(0, False), (1, True), (2, False), (3, True)])
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
@pytest.mark.parametrize(("seed", "grouped"), [(0, False), (1, True), (2, False), (3, True)])
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


# Cells of few rows are left as they are


@pytest.mark.parametrize("options", SCHEDULES, ids=lambda o: "-".join(str(v) for v in o.values()))
@pytest.mark.parametrize("sense", ["max", "min"])
@pytest.mark.parametrize(("seed", "min_cell", "grouped"), [(0, 3, False), (1, 5, True), (2, 8, False)])
def test_white_box_without_cells_of_few_rows(
    seed: int, sense: str, options: dict[str, Any], grouped: bool, min_cell: int
) -> None:
    problem = random_problem(seed)
    groups = problem.X % 3 if grouped else None
    terms: dict[str, Any] = {"sense": sense, "min_cell": min_cell, **options, **COMMON}
    ours = problem.white_box(bucket_width=0.25, subgroups=(lambda X: X % 3) if grouped else None, **terms)
    theirs = reference.white_box(problem.P, problem.Y, reference_actions(problem), width=0.25, groups=groups, **terms)
    assert ours.n_rounds_ == theirs.rounds >= 1
    if options["schedule"] != "joint":
        assert ours.n_patches_.sum() == theirs.patches
    np.testing.assert_allclose(ours.predict_members(problem.X), theirs.predictions, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(ours.choose(problem.X), theirs.winner)
    assert ours.worst_violation_ == pytest.approx(theirs.worst, abs=1e-9)
    assert ours.n_thin_ > 0


@pytest.mark.parametrize("options", SCHEDULES, ids=lambda o: "-".join(str(v) for v in o.values()))
@pytest.mark.parametrize("sense", ["max", "min"])
@pytest.mark.parametrize(("seed", "min_cell", "grouped"), [(0, 3, False), (1, 12, True), (2, 25, False)])
def test_black_box_without_cells_of_few_rows(
    seed: int, sense: str, options: dict[str, Any], grouped: bool, min_cell: int
) -> None:
    problem = random_problem(seed, n=80, k=2)
    groups = problem.X % 3 if grouped else None
    terms: dict[str, Any] = {"sense": sense, "min_cell": min_cell, **options, **COMMON}
    ours = problem.black_box(bucket_width=0.25, subgroups=(lambda X: X % 3) if grouped else None, **terms)
    start, actions = np.tile(problem.Y.mean(axis=0), (80, 1)), reference_actions(problem)
    theirs = reference.black_box(start, problem.actions, problem.Y, actions, width=0.25, groups=groups, **terms)
    assert ours.n_rounds_ == theirs.rounds >= 1
    if options["schedule"] != "joint":
        assert ours.n_patches_.sum() == theirs.patches
    np.testing.assert_allclose(ours.predict(problem.X), theirs.predictions, rtol=0, atol=1e-9)
    np.testing.assert_allclose(ours.decide(problem.X), theirs.actions, rtol=0, atol=1e-9)
    assert ours.worst_violation_ == pytest.approx(theirs.worst, abs=1e-9)


@pytest.mark.parametrize("schedule", ["frozen", "round-robin", "joint"])
@pytest.mark.parametrize("omega", ["polytope", "simplex", "vertices", "box"])
@pytest.mark.parametrize("min_cell", [2, 6, 15])
def test_rows_move_only_in_cells_of_enough_rows(schedule: str, omega: str, min_cell: int) -> None:
    problem = random_problem(3, n=90, omega=omega)
    ensemble = problem.white_box(schedule=schedule, min_cell=min_cell, bucket_width=0.25, alpha=0.01, max_rounds=60)
    before, moved, stayed = problem.P.copy(), 0, 0
    for now in ensemble.retrace(problem.X, range(ensemble.n_rounds_ + 1)):
        actions = np.stack([problem.omega.argmax(h) for h in before])
        claims = np.stack([(a * h).sum(axis=1) for a, h in zip(actions, before, strict=True)])
        highest = (claims >= claims.max(axis=0) - 1e-9 * np.abs(claims.max(axis=0))).argmax(axis=0)
        for member in range(3):
            levels = level_set_masks(actions[member], problem.omega, 4)
            cells = [level & (highest == leader) for level in levels for leader in range(3)]
            large = np.logical_or.reduce([cell for cell in cells if cell.sum() >= min_cell])
            changed = (now.predictions[member] != before[member]).any(axis=1)
            assert not (changed & ~large).any()
            moved, stayed = moved + changed.sum(), stayed + (~large).sum()
        before = now.predictions.copy()
    assert moved > 0
    assert stayed > 0 or min_cell < 15


def test_where_no_cell_has_enough_rows_nothing_moves() -> None:
    problem = random_problem(4)
    for schedule in ("frozen", "round-robin", "joint"):
        ensemble = problem.white_box(schedule=schedule, min_cell=61, max_rounds=50)
        np.testing.assert_array_equal(ensemble.predict_members(problem.X), problem.P)
        assert ensemble.converged_


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
