"""The reference on examples which can be worked out by hand, and on the paper's lemmas."""

import numpy as np
import pytest
from scipy.optimize import linprog

from tests.reference import (
    Log,
    Result,
    best_action,
    black_box,
    bucket_of,
    by_winner,
    mean_residual,
    patch,
    polytope_vertices,
    violation,
    white_box,
    winners,
)

NO_OR_YES = [[0.0], [1.0]]


def column(*values: float) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.array(values, dtype=np.float64).reshape(-1, 1)


# --- the parts -------------------------------------------------------------------------------------------


def test_the_first_of_the_best_actions_wins() -> None:
    actions = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert best_action(actions, np.array([2.0, 2.0])).tolist() == [1.0, 0.0]
    assert best_action(actions, np.array([2.0, 3.0])).tolist() == [0.0, 1.0]
    assert best_action(actions, np.array([0.0, -1.0])).tolist() == [0.0, 0.0]
    assert best_action(actions, np.array([1.0, -1.0]), "min").tolist() == [0.0, 1.0]


def test_the_best_self_assessment_wins_and_ties_go_to_the_lowest_index() -> None:
    models = [column(1, 2, 3), column(1, 3, 2)]
    policies = [column(1, 1, 1), column(1, 1, 1)]
    assert winners(models, policies, "max").tolist() == [0, 1, 0]
    assert winners(models, policies, "min").tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("a", "t"), [(0.0, 0), (0.0999, 0), (0.1, 1), (0.3, 3), (0.7, 7), (0.95, 9), (1.0, 9), (-1e-12, 0)]
)
def test_buckets_are_closed_below_and_the_last_one_above(a: float, t: int) -> None:
    assert bucket_of(a, 10) == t


def test_winner_cells_split_a_cell() -> None:
    assert by_winner([0, 2, 3], np.array([1, 0, 0, 1]), 3) == [[2], [0, 3], []]


def test_a_violation_is_weighted_by_the_share_of_rows_and_takes_the_largest_coordinate() -> None:
    h = np.zeros((4, 2))
    y = np.array([[1.0, -4.0], [3.0, -2.0], [9.0, 9.0], [9.0, 9.0]])
    assert mean_residual(h, y, [0, 1]).tolist() == [2.0, -3.0]
    assert violation(h, y, [0, 1]) == 1.5
    assert violation(h, y, []) == 0.0


def test_a_patch_moves_all_coordinates_and_drops_the_error_by_the_lemma() -> None:
    h = np.zeros((4, 2))
    y = np.array([[1.0, -4.0], [3.0, -2.0], [0.0, 0.0], [0.0, 0.0]])
    log = Log()
    patched = patch(h, y, [0, 1], 1.0, log)
    assert patched.tolist() == [[2.0, -3.0], [2.0, -3.0], [0.0, 0.0], [0.0, 0.0]]
    assert h.tolist() == np.zeros((4, 2)).tolist()
    assert log == Log(1, [(6.5, 6.5)])  # (1 + 16 + 9 + 4) / 4 before, 4 / 4 after; 1/2 * (4 + 9)
    assert patch(h, y, [], 1.0, log) is h
    assert len(log.drops) == 1


# --- white box ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["frozen", "joint", "round-robin"])
def test_a_cell_of_too_few_rows_is_neither_patched_nor_judged(schedule: str) -> None:
    # three rows are acted on, with mean residual 1; the fourth is not, and is off by 8
    options = {"schedule": schedule, "alpha": 0.1, "width": 0.5, "max_rounds": 9}
    whole, most = (
        white_box([column(1, 1, 1, -1)], column(3, 2, 1, -9), NO_OR_YES, min_cell=least, **options)  # type: ignore[arg-type]
        for least in (1, 2)
    )
    assert whole.predictions[0].ravel().tolist() == pytest.approx([2, 2, 2, -9])
    assert most.predictions[0].ravel().tolist() == pytest.approx([2, 2, 2, -1])
    assert most.worst == pytest.approx(0)
    given = [column(1, 1, 1, 0)]
    black = black_box(column(1, 1, 1, -1), given, column(3, 2, 1, -9), NO_OR_YES, min_cell=2, **options)  # type: ignore[arg-type]
    assert black.predictions.ravel().tolist() == pytest.approx([2, 2, 2, -1])


def test_white_box_frozen_one_model_one_patch() -> None:
    # rows 0 and 1 are acted on, with mean residual 1 and violation 2/4; rows 2 and 3 are right.
    result = white_box(
        [column(1, 1, -1, -1)],
        column(3, 1, -1, -1),
        NO_OR_YES,
        schedule="frozen",
        alpha=0.1,
        width=0.5,
        max_rounds=9,
    )
    assert result.predictions[0].ravel().tolist() == [2, 2, -1, -1]
    assert result.actions[0].ravel().tolist() == [1, 1, 0, 0]
    assert result.winner is not None
    assert result.winner.tolist() == [0, 0, 0, 0]
    assert (result.rounds, result.patches, result.worst, result.drops) == (1, 1, 0.0, [(0.5, 0.5)])


def test_white_box_frozen_uses_the_winners_of_the_rounds_beginning() -> None:
    # Both models act on both rows; the first wins row 0, the second row 1. So each has a cell for each row.
    # Once the first is patched it wins both rows, but the second model's cells are still those from before.
    result = white_box(
        [column(3, 1), column(1, 3)],
        column(2, 4),
        NO_OR_YES,
        schedule="frozen",
        alpha=0.1,
        width=0.5,
        max_rounds=1,
    )
    assert result.predictions[:, :, 0].tolist() == [[2, 4], [2, 4]]
    assert result.winner is not None
    assert result.winner.tolist() == [0, 0]
    assert (result.rounds, result.patches, result.worst) == (1, 4, 0.0)
    # the largest violation first: model 0 has residuals -1 and 3, model 1 has 1 and 1
    assert [drop for drop, _ in result.drops] == [4.5, 0.5, 0.5, 0.5]


def test_white_box_min_takes_the_lowest_self_assessment() -> None:
    result = white_box(
        [column(-3, 1), column(-1, -2)],
        column(-3, -2),
        NO_OR_YES,
        schedule="frozen",
        sense="min",
        alpha=10.0,
        width=0.5,
        max_rounds=9,
    )
    assert result.actions[:, :, 0].tolist() == [[1, 0], [1, 1]]
    assert result.winner is not None
    assert result.winner.tolist() == [0, 1]
    assert (result.rounds, result.patches) == (0, 0)
    assert result.worst == 1.5  # model 0, row 1: 1/2 * |-2 - 1|


def test_white_box_frozen_needs_a_second_round_when_the_actions_change() -> None:
    # Acting on both rows, with mean residual -2, lowers them to -1 and 3. Now only row 1 is acted on, and
    # each row is a cell of its own, with residuals -2 and 2.
    def after(rounds: int) -> Result:
        return white_box(
            [column(1, 5)],
            column(-3, 5),
            NO_OR_YES,
            schedule="frozen",
            alpha=0.1,
            width=0.5,
            max_rounds=rounds,
        )

    once, done = after(1), after(9)
    assert once.predictions.ravel().tolist() == [-1, 3]
    assert once.actions.ravel().tolist() == [0, 1]
    assert (once.rounds, once.patches, once.worst) == (1, 1, 1.0)
    assert done.predictions.ravel().tolist() == [-3, 5]
    assert (done.rounds, done.patches, done.worst) == (2, 3, 0.0)


def test_white_box_round_robin_visits_everything_and_stops_after_a_quiet_cycle() -> None:
    # bucket 0 quiet; bucket 1 patched (a violation); bucket 0 quiet; bucket 1 quiet: four visits.
    result = white_box(
        [column(1, 1, -1, -1)],
        column(3, 1, -1, -1),
        NO_OR_YES,
        schedule="round-robin",
        alpha=0.1,
        width=0.5,
        max_rounds=99,
    )
    assert result.predictions.ravel().tolist() == [2, 2, -1, -1]
    assert (result.rounds, result.patches, result.worst) == (4, 1, 0.0)
    assert result.drops == [(0.0, 0.0), (0.5, 0.5), (0.0, 0.0), (0.0, 0.0)]


def test_white_box_round_robin_patches_below_alpha_too() -> None:
    result = white_box(
        [column(1, 1, -1, -1)],
        column(3, 1, -1, -1),
        NO_OR_YES,
        schedule="round-robin",
        alpha=5.0,
        width=0.5,
        max_rounds=99,
    )
    assert result.predictions.ravel().tolist() == [2, 2, -1, -1]
    assert (result.rounds, result.patches, result.worst) == (2, 0, 0.0)


def test_white_box_round_robin_order_is_model_then_bucket_then_coordinate() -> None:
    actions = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    h = np.array([[[2.0, 1.0]], [[1.0, 2.0]]])  # model 0 takes coordinate 0, model 1 coordinate 1
    y = np.array([[2.0, 2.0]])

    def after(visits: int) -> list[list[float]]:
        result = white_box(h, y, actions, schedule="round-robin", alpha=0.1, width=0.5, max_rounds=visits, sense="max")
        assert result.rounds == visits
        values: list[list[float]] = result.predictions[:, 0].tolist()
        return values

    assert after(0) == after(1) == [[2, 1], [1, 2]]  # coordinate 0, bucket 0, model 0: it took 1
    assert after(2) == [[2, 1], [2, 2]]  # the same cell of model 1, which now takes coordinate 0 also
    assert after(3) == [[2, 2], [2, 2]]  # coordinate 0, bucket 1, model 0


def test_white_box_round_robin_visits_groups_last() -> None:
    # No action is taken: the level sets are all rows (bucket 0) and none (bucket 1). Groups: rows {0, 2}, {1, 3}.
    def after(visits: int) -> list[list[float]]:
        result = white_box(
            [column(-9, -9, -9, -9), column(-8, -8, -8, -8)],
            column(-9, -7, -9, -7),
            NO_OR_YES,
            schedule="round-robin",
            alpha=0.1,
            width=0.5,
            max_rounds=visits,
            groups=[-3, 5, -3, 5],
        )
        values: list[list[float]] = result.predictions[:, :, 0].tolist()
        return values

    assert after(4) == [[-8, -8, -8, -8], [-8, -8, -8, -8]]
    assert after(5) == [[-9, -8, -9, -8], [-8, -8, -8, -8]]
    assert after(6) == [[-9, -8, -9, -8], [-9, -8, -9, -8]]
    assert after(7) == [[-9, -7, -9, -7], [-9, -8, -9, -8]]
    assert after(8) == after(99) == [[-9, -7, -9, -7], [-9, -7, -9, -7]]


def test_white_box_joint_equals_frozen_where_the_cells_are_disjoint() -> None:
    result = white_box(
        [column(1, 1, -1, -1)],
        column(3, 1, -1, -1),
        NO_OR_YES,
        schedule="joint",
        alpha=0.1,
        width=0.5,
        max_rounds=9,
    )
    assert result.predictions.ravel() == pytest.approx([2, 2, -1, -1])
    assert (result.rounds, result.patches, result.drops) == (1, 0, [])


def test_white_box_joint_with_shrinkage() -> None:
    # the cell of rows 0 and 1 has residual sum 2: delta = 2 / (2 + 2)
    result = white_box(
        [column(1, 1, -1, -1)],
        column(3, 1, -1, -1),
        NO_OR_YES,
        schedule="joint",
        alpha=0.1,
        width=0.5,
        max_rounds=1,
        shrinkage=2.0,
    )
    assert result.predictions.ravel() == pytest.approx([1.5, 1.5, -1, -1])
    assert result.worst == pytest.approx(0.25)


# --- black box ---------------------------------------------------------------------------------------------


def test_black_box_frozen_follows_the_policy() -> None:
    # h acts nowhere; the given policy's two cells have residual sums -2 and 6, all rows together 4.
    result = black_box(
        column(-1, -1, -1, -1),
        [column(0, 0, 1, 1)],
        column(-2, -2, 2, 2),
        NO_OR_YES,
        schedule="frozen",
        alpha=0.1,
        width=0.5,
        max_rounds=9,
    )
    assert result.predictions.ravel().tolist() == [-2, -2, 2, 2]
    assert result.actions.ravel().tolist() == [0, 0, 1, 1]
    assert result.winner is None
    # first rows 2, 3 (violation 6/4), then rows 0, 1 (2/4, tied with all rows, which come later)
    assert result.drops == [(4.5, 4.5), (0.5, 0.5)]
    assert (result.rounds, result.patches, result.worst) == (1, 2, 0.0)


def test_black_box_round_robin_order_is_source_then_bucket() -> None:
    def after(visits: int) -> list[float]:
        result = black_box(
            column(-1, -1, -1, -1),
            [column(0, 0, 1, 1), column(1, 0, 1, 1)],
            column(-2, -2, 2, 2),
            NO_OR_YES,
            schedule="round-robin",
            alpha=0.1,
            width=0.5,
            max_rounds=visits,
        )
        values: list[float] = result.predictions.ravel().tolist()
        return values

    assert after(1) == [-2, -2, -1, -1]  # policy 0, bucket 0
    assert after(2) == [-2, -2, -1, -1]  # policy 1, bucket 0: row 1, right by now
    assert after(3) == [-0.5, -0.5, 0.5, 0.5]  # h itself, which acts nowhere: all rows, mean residual 3/2
    assert after(4) == [-0.5, -0.5, 2, 2]  # policy 0, bucket 1
    assert after(5) == [-1, -0.5, 1.5, 1.5]  # policy 1, bucket 1: rows 0, 2, 3, mean residual -1/2
    assert after(6) == [-1, -0.5, 2, 2]  # h itself, bucket 1: rows 2, 3


def test_black_box_round_robin_groups_are_one_visit_each() -> None:
    result = black_box(
        column(-9, -9),
        np.zeros((0, 2, 1)),
        column(-9, -7),
        NO_OR_YES,
        schedule="round-robin",
        alpha=0.1,
        width=0.5,
        max_rounds=99,
        groups=[1, 0],
    )
    # visits: all rows (to -8), none, group 0 (row 1 to -7), group 1 (row 0 to -9), and then four quiet ones
    assert result.predictions.ravel().tolist() == [-9, -7]
    assert (result.rounds, result.patches, len(result.drops)) == (8, 3, 6)


def test_black_box_joint_solves_overlapping_cells_at_once() -> None:
    # cells: rows {0, 1}, {2, 3} of the policy and {0, 2}, {1, 3} of h itself; y is in their span.
    result = black_box(
        column(-1, 1, -1, 1),
        [column(0, 0, 1, 1)],
        column(-3, -2, 4, 5),
        NO_OR_YES,
        schedule="joint",
        alpha=0.01,
        width=0.5,
        max_rounds=9,
    )
    assert result.predictions.ravel() == pytest.approx([-3, -2, 4, 5])
    assert result.rounds == 1
    assert result.worst == pytest.approx(0.0, abs=1e-12)


def test_black_box_joint_shrinkage_counts_equal_cells_twice() -> None:
    # the policy and h itself both have the one cell of all rows: two columns, each delta = 4 / (2 * 2 + 4)
    result = black_box(
        column(-9, -9),
        [column(0, 0)],
        column(-7, -7),
        NO_OR_YES,
        schedule="joint",
        alpha=0.01,
        width=0.5,
        max_rounds=1,
        shrinkage=4.0,
    )
    assert result.predictions.ravel() == pytest.approx([-8, -8])


def test_the_first_of_nearly_equal_violations_is_patched() -> None:
    def first_drop(excess: float) -> float:
        result = black_box(
            column(0, 0, 0),
            [column(0, 0, 1)],
            column(-1.5, -1.5, 3 + excess),
            NO_OR_YES,
            schedule="frozen",
            alpha=0.1,
            width=0.5,
            max_rounds=1,
        )
        return result.drops[0][1]

    assert first_drop(1e-6) == pytest.approx(3.0)
    assert first_drop(1e-12) == pytest.approx(1.5)


# --- feasible sets -----------------------------------------------------------------------------------------


def test_vertices_of_a_triangle_and_of_the_cube() -> None:
    assert polytope_vertices([[1.0, 1.0]], [0.5], 2).tolist() == [[0, 0], [0, 0.5], [0.5, 0]]
    assert polytope_vertices([], [], 2).tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    simplex = polytope_vertices([[1, 1, 1], [-1, -1, -1]], [1, -1], 3)
    assert simplex.tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
    with pytest.raises(ValueError, match="empty"):
        polytope_vertices([[1.0]], [-1.0], 1)


@pytest.mark.parametrize("seed", range(10))
def test_the_best_vertex_is_the_linear_programs_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 5))
    A, b = rng.normal(size=(3, d)), rng.uniform(0.1, 1.0, size=3)
    vertices = polytope_vertices(A, b, d)
    for coefficients in rng.normal(size=(10, d)):
        value = float(best_action(vertices, coefficients) @ coefficients)
        optimum = linprog(-coefficients, A_ub=A, b_ub=b, bounds=(0, 1))
        assert optimum.fun is not None
        assert value == pytest.approx(-optimum.fun, abs=1e-9)


def test_the_papers_linear_constraints() -> None:
    vertices = polytope_vertices([[1, 1, 0, 0], [0, 1, 1, 0]], [0.5, 0.6], 4)
    # (0, 0, 0), (0, 0, .6), (0, .5, 0), (0, .5, .1), (.5, 0, 0), (.5, 0, .6), each with 0 or 1 appended
    assert len(vertices) == 12
    assert best_action(vertices, np.array([1.0, 1.5, 1.0, 1.0])).tolist() == pytest.approx([0.5, 0, 0.6, 1])
    assert best_action(vertices, np.array([1.0, 3.0, 1.0, -1.0])).tolist() == pytest.approx([0, 0.5, 0.1, 0])


# --- the paper's lemmas on random data ---------------------------------------------------------------------


@pytest.mark.parametrize("sense", ["max", "min"])
@pytest.mark.parametrize("schedule", ["frozen", "joint", "round-robin"])
@pytest.mark.parametrize("kind", ["white", "black"])
@pytest.mark.parametrize("with_groups", [False, True])
def test_runs_end_consistent_and_every_patch_drops_the_error(
    kind: str, schedule: str, sense: str, with_groups: bool
) -> None:
    rng = np.random.default_rng(7)
    k, n, d, alpha, width = 3, 24, 2, 0.05, 0.25
    y = rng.uniform(-1, 1, size=(n, d))
    models = y + rng.normal(scale=0.7, size=(k, n, d)) + 0.3
    vertices = polytope_vertices([[1.0, 1.0]], [1.2], d)
    groups = rng.integers(0, 3, size=n) if with_groups else None
    result: Result
    if kind == "white":
        result = white_box(
            models,
            y,
            vertices,
            schedule=schedule,
            sense=sense,
            alpha=alpha,
            width=width,
            max_rounds=3000,
            groups=groups,
        )
        start = models
    else:
        policies = np.array([[best_action(vertices, row, sense) for row in model] for model in models])
        start = np.tile(y.mean(axis=0), (n, 1))
        result = black_box(
            start,
            policies,
            y,
            vertices,
            schedule=schedule,
            sense=sense,
            alpha=alpha,
            width=width,
            max_rounds=3000,
            groups=groups,
        )
    assert result.rounds < 3000
    assert result.worst <= alpha or schedule == "round-robin"  # its patches go on while it waits
    for observed, by_the_lemma in result.drops:
        assert observed == pytest.approx(by_the_lemma, abs=1e-12)
    before, after = float(((start - y) ** 2).sum() / n), float(((result.predictions - y) ** 2).sum() / n)
    assert result.patches <= before / alpha**2
    if schedule == "joint":
        assert after < before
        assert (result.patches, result.drops) == (0, [])
    else:
        assert before - after == pytest.approx(sum(drop for drop, _ in result.drops))


def test_wrong_parameters_are_refused() -> None:
    for schedule, sense, alpha in [("greedy", "max", 0.1), ("frozen", "most", 0.1), ("frozen", "max", 0.0)]:
        with pytest.raises(ValueError, match=r"must be|alpha"):
            white_box(
                [column(1)],
                column(1),
                NO_OR_YES,
                schedule=schedule,
                sense=sense,
                alpha=alpha,
                width=0.5,
                max_rounds=1,
            )
