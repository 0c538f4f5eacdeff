"""Events: families of cells, their numbers, and the order in which they are visited."""

from __future__ import annotations

import numpy as np

from optensemble import feasible
from optensemble._core.buckets import Buckets
from optensemble.members.subgroups import Grouping
from optensemble.multicalibration.events import Cells, Event, Layout, Partitions, Visit, black_box, white_box
from optensemble.multicalibration.state import Situation


def unit(d: int, count: int) -> Buckets:
    return Buckets(np.zeros(d), np.ones(d), count)


def test_white_box_cells_are_level_sets_times_winners() -> None:
    layout = white_box(unit(2, 3), 4)
    assert layout.count == 2 * 3 * 4
    assert layout.events == (Event(0, (0, 2)), Event(1, (1, 2)))
    parts = [np.array([2]), np.array([0]), np.array([3])]
    cells = Cells(layout, parts)
    assert cells.column(0).tolist() == [2 * 4 + 3]
    assert cells.column(1).tolist() == [12 + 0 * 4 + 3]


def test_a_cycle_goes_through_models_then_buckets_then_coordinates() -> None:
    cycle = white_box(unit(2, 2), 3).visits(3)
    assert cycle[:7] == [Visit(m, 0, 0) for m in range(3)] + [Visit(m, 0, 1) for m in range(3)] + [Visit(0, 1, 0)]
    assert len(cycle) == len(set(cycle)) == 2 * 2 * 3


def test_a_black_box_cycle_goes_through_policies_then_itself() -> None:
    layout = black_box(unit(2, 2), 2)
    first = [layout.events[visit.event].partitions for visit in layout.visits(1)[:3]]
    assert first == [(3,), (5,), (0,)]  # coordinate 0 of policy 0, of policy 1, and of its own


def test_group_cells_come_last_in_a_cycle_and_values_never_seen_are_not_visited() -> None:
    grouping = Grouping(()).learn([["a", "b", "a"]])
    assert grouping.sizes == (3,)
    layout = white_box(unit(1, 2), 2, grouping.sizes)
    assert layout.visits(2)[-4:] == [Visit(0, 1, 0), Visit(1, 1, 0), Visit(0, 1, 1), Visit(1, 1, 1)]


def test_a_group_that_came_later_is_in_the_last_part_of_an_earlier_layout() -> None:
    early = white_box(unit(1, 1), 1, (2,))
    situation = Situation(
        np.zeros((1, 3, 1)), feasible.Box(dimension=1), unit(1, 1), groups=np.array([[0, 1, 2]], dtype=np.int32)
    )
    np.testing.assert_array_equal(situation.cells(0, early).parts[2], [0, 1, 1])


def test_conditional_adds_every_product_of_two_level_sets_and_of_groups_with_them() -> None:
    d, policies, count = 2, 2, 4
    plain = black_box(unit(d, count), policies, (3,))
    crossed = black_box(unit(d, count), policies, (3,), conditional=True)
    levels = (policies + 1) * d
    assert plain.count == levels * count + 3
    assert crossed.count == plain.count + levels * (levels - 1) // 2 * count**2 + levels * 3 * count


def test_exact_ties_go_to_the_lowest_index() -> None:
    same = np.tile([[1.0, 2.0]], (3, 5, 1))
    for sign in (1.0, -1.0):
        situation = Situation(same.copy(), feasible.Simplex(2), unit(2, 10), sign=sign)
        np.testing.assert_array_equal(situation.winner, 0)
    nearly = same * np.array([1.0, 1 + 1e-14, 1 - 1e-14])[:, None, None]
    np.testing.assert_array_equal(Situation(nearly, feasible.Simplex(2), unit(2, 10)).winner, 0)
    clearly = same * np.array([1.0, 1 + 1e-6, 1.0])[:, None, None]
    np.testing.assert_array_equal(Situation(clearly, feasible.Simplex(2), unit(2, 10)).winner, 1)


def test_resolving_some_rows_is_the_same_as_solving_all_anew() -> None:
    rng = np.random.default_rng(0)
    omega = feasible.Polytope(A_ub=[[1, 1, 0]], b_ub=[0.7])
    situation = Situation(rng.normal(size=(3, 40, 3)), omega, unit(3, 10))
    rows = np.array([3, 17, 18])
    situation.predictions[1, rows] += rng.normal(size=(3, 3))
    situation.resolve(1, rows)
    fresh = Situation(situation.predictions.copy(), omega, unit(3, 10))
    for name in ("actions", "level", "assessed", "winner", "choice"):
        np.testing.assert_array_equal(getattr(situation, name), getattr(fresh, name))
    assert situation.solves == 3 * 40 + 3


def test_a_layout_counts_its_cells_from_definitions() -> None:
    layout = Layout(Partitions(levels=(10,), leaders=3), events=(Event(0, (0,)), Event(0, (0, 1))))
    assert layout.sizes == (10, 3)
    assert layout.offsets.tolist() == [0, 10, 40]
