from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog

import optensemble as oe
from optensemble.exceptions import EmptySetError, FallbackWarning, InfeasibleActionError, InputError, SolverError
from optensemble.feasible import Box, ByKey, FeasibleSet, Knapsack, Oracle, Polytope, Simplex, Vertices
from optensemble.feasible._batches import Unsolved
from optensemble.feasible.assignment import Assignment
from optensemble.feasible.product import Product
from optensemble.feasible.top_k import TopK
from tests.sample_sets import Floats, hard_rows, top_one


class Stubborn(FeasibleSet):
    """A set that solves no row with a negative first coefficient, and remembers its hint."""

    hint: Floats | None = None

    def __init__(self) -> None:
        self._set_bounds(-1.0, 1.0, 2)

    def argmax(self, C: Any, hint: Any = None) -> Floats:
        self.hint = hint
        return super().argmax(C)

    def _argmax(self, coefficients: Floats) -> Floats:
        failed = np.flatnonzero(coefficients[:, 0] < 0)
        if failed.size:
            raise Unsolved(np.sign(coefficients), {int(row): "it is stubborn." for row in failed})
        return np.sign(coefficients)

    def violation(self, actions: Floats) -> Floats:
        return self._outside_box(actions)

    def spec(self) -> dict[str, Any]:
        return {}


def mixed_blocks() -> list[FeasibleSet]:
    return [
        Simplex(3),
        Polytope(A_ub=[[1, 1]], b_ub=[0.5]),
        Product([TopK(4, 2), Assignment(2, 3)]),
        Box(lower=-1, upper=[2.0, 3.0]),
        Vertices([[5.0], [7.0]]),
    ]


def test_each_block_is_solved_on_its_own() -> None:
    blocks = mixed_blocks()
    omega = Product(blocks)
    assert omega.dimension == 3 + 2 + 10 + 2 + 1
    C = hard_rows(omega.dimension)
    actions = omega.argmax(C)
    cuts = np.cumsum([block.dimension for block in blocks])[:-1]
    for block, part, c in zip(blocks, np.split(actions, cuts, axis=1), np.split(C, cuts, axis=1), strict=True):
        np.testing.assert_array_equal(part, block.argmax(c))
    assert omega.violation(actions).max() <= 1e-9
    np.testing.assert_array_equal(omega.lower, [0.0] * 15 + [-1.0, -1.0, 5.0])
    np.testing.assert_array_equal(omega.upper, [1.0] * 15 + [2.0, 3.0, 7.0])


def test_rows_hints_and_copies_do_not_matter() -> None:
    omega = Product(mixed_blocks())
    C = hard_rows(omega.dimension, n=20)
    actions = omega.argmax(C)
    np.testing.assert_array_equal(np.concatenate([omega.argmax(row[None]) for row in C]), actions)
    for hint in (actions, actions[::-1], np.random.default_rng(0).normal(size=C.shape)):
        np.testing.assert_array_equal(omega.argmax(C, hint=hint), actions)
    for twin in (copy.deepcopy(omega), pickle.loads(pickle.dumps(omega))):
        np.testing.assert_array_equal(twin.argmax(C), actions)
    assert omega.argmax(np.empty((0, omega.dimension))).shape == (0, omega.dimension)


def test_hints_are_cut_and_handed_on() -> None:
    stubborn = Stubborn()
    Product([Simplex(1), stubborn]).argmax(np.ones((2, 3)), hint=[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    np.testing.assert_array_equal(stubborn.hint, [[2.0, 3.0], [5.0, 6.0]])
    with pytest.raises(InputError, match="one action for each of the 2 rows; got 3"):
        Product([Simplex(1), stubborn]).argmax(np.ones((2, 3)), hint=np.ones((3, 3)))


def test_violation_is_the_largest_of_a_block() -> None:
    omega = Product([Simplex(2), Box(dimension=1)])
    np.testing.assert_allclose(
        omega.violation(np.array([[1.0, 0.0, 1.0], [0.5, 0.2, 1.1], [1.0, 0.0, 3.0]])), [0, 0.3, 2]
    )


def test_the_spec_names_kinds() -> None:
    assert Product([Simplex(2), Product([TopK(3, 1)])]).spec() == {
        "blocks": [
            {"kind": "Simplex", "spec": {"dimension": 2}},
            {
                "kind": "Product",
                "spec": {"blocks": [{"kind": "TopK", "spec": {"dimension": 3, "k": 1, "at_most": False}}]},
            },
        ]
    }
    assert Product([Simplex(2), Product([Oracle(top_one, dimension=2)])]).spec() is None


def test_failures_name_the_block() -> None:
    omega = Product([Simplex(2), Product([Stubborn()])])
    C = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, -1.0, 1.0]])
    message = (
        r"in block 1, Product\(dimension=2\): in block 0, Stubborn\(dimension=2\): row 1 could not be solved: it is"
    )
    with pytest.raises(SolverError, match=message):
        omega.argmax(C)
    with pytest.raises(InfeasibleActionError, match=r"in block 0, Oracle\(dimension=1\): the oracle left the bounds"):
        Product([Oracle(lambda C: C + 9.0, dimension=1)]).argmax([[1.0]])


def test_errors_say_what_to_do() -> None:
    with pytest.raises(EmptySetError, match="Give at least one feasible set"):
        Product([])
    with pytest.raises(InputError, match="blocks must be a list of feasible sets; got Simplex"):
        Product(Simplex(3))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="block 1 is of type int"):
        Product([Simplex(3), 4])  # type: ignore[list-item]
    with pytest.raises(InputError, match="must have 3 columns"):
        Product([Simplex(3)]).argmax(np.zeros((1, 4)))


# Parameters from the row


def by_row(n: int = 1_200) -> tuple[Product, pd.DataFrame]:
    """Bounds, a budget and a fixed set side by side."""
    rng = np.random.default_rng(5)
    rows = pd.DataFrame(rng.uniform(0, 5, (n, 3)), columns=["free_0", "free_1", "budget"])
    blocks = [
        Box(upper=oe.Columns("free_*"), dimension=2),
        Simplex(2),
        Knapsack([1, 2, 3], capacity=oe.Columns("budget")),
    ]
    return Product(blocks), rows


@pytest.mark.no_cover
def test_blocks_take_their_parameters_from_the_row() -> None:
    omega, rows = by_row()
    C = np.random.default_rng(6).normal(size=(len(rows), omega.dimension))
    bound = omega.for_rows(rows)
    actions = bound.argmax(C)
    for (left, right, budget), c, action in zip(rows.to_numpy().tolist(), C, actions, strict=True):
        bounds = [(0, left), (0, right), *[(0, 1)] * 5]
        found = linprog(-c, [[0, 0, 0, 0, 1, 2, 3]], [budget], [[0, 0, 1, 1, 0, 0, 0]], [1.0], bounds)
        assert c @ found.x - c @ action == pytest.approx(0.0, abs=1e-9 * max(1.0, abs(c @ found.x)))
    assert bound.violation(actions).max() <= 1e-9
    assert [parameter.name for parameter in omega.parameters] == ["blocks[0].upper", "blocks[2].capacity"]
    np.testing.assert_array_equal(bound._of_rows("blocks[2].capacity")[:, 0], rows["budget"])
    upper = [*rows[["free_0", "free_1"]].max(), 1, 1, 1, 1, 1]
    np.testing.assert_array_equal(bound.upper, upper)


def test_bad_rows_name_the_block() -> None:
    omega, rows = by_row(4)
    rows.loc[2, "budget"] = -1.0
    message = r"blocks\[2\].capacity of a knapsack must not be negative; in row 2 of 4 it is -1 \(column 'budget'\)"
    with pytest.raises(InputError, match=message):
        omega.for_rows(rows)
    with pytest.raises(InputError, match="X has no column 'budget'"):
        omega.for_rows(rows.drop(columns="budget"))
    whole = Product(omega.blocks, on_failure="fallback", fallback=np.zeros(7))
    with pytest.warns(FallbackWarning, match="1 of 4 rows"):
        bound = whole.for_rows(rows)
    actions = bound.argmax(np.ones((4, 7)))
    np.testing.assert_array_equal(actions[2], 0.0)
    assert (actions[[0, 1, 3], 2] == 1.0).all()
    bag = Knapsack([1, 2, 3], capacity=oe.Columns("budget"), on_failure="fallback", fallback=[0, 0, 0])
    with pytest.warns(FallbackWarning, match="1 of 4 rows"):
        settled = Product([*omega.blocks[:2], bag]).for_rows(rows)
    actions = settled.argmax(np.ones((4, 7)))
    np.testing.assert_array_equal(actions[2], [rows["free_0"][2], rows["free_1"][2], 1, 0, 0, 0, 0])


def test_a_fallback_for_rows_that_a_block_cannot_solve() -> None:
    class Unwilling(Stubborn):
        argmax = FeasibleSet.argmax

    omega = Product([Simplex(2), Unwilling()], on_failure="fallback", fallback=[0, 1, 0, 0])
    with pytest.warns(FallbackWarning, match=r"row 1 could not be solved: in block 1, Unwilling.* it is stubborn"):
        actions = omega.argmax([[1.0, 0.0, 1.0, 1.0], [1.0, 0.0, -1.0, 1.0]])
    np.testing.assert_array_equal(actions, [[1, 0, 1, 1], [0, 1, 0, 0]])


def test_rows_of_a_product_are_taken_joined_and_reordered() -> None:
    omega, rows = by_row(9)
    C = np.random.default_rng(0).normal(size=(9, 7))
    bound = omega.for_rows(rows)
    actions, order = bound.argmax(C), np.random.default_rng(1).permutation(9)
    joined = bound.joined([omega.for_rows(rows[:4]), omega.for_rows(rows[4:])])
    np.testing.assert_array_equal(joined.argmax(C), actions)
    room = omega.unfilled(9)
    room.take(slice(4)).fill(omega.for_rows(rows[:4]))
    room.take(slice(4, 9)).fill(omega.for_rows(rows[4:]))
    np.testing.assert_array_equal(room.argmax(C), actions)
    room.reorder(slice(9), order)
    np.testing.assert_array_equal(room.argmax(C[order]), actions[order])
    np.testing.assert_array_equal(omega.bind(bound.values).argmax(C), actions)
    known = omega.enveloped(np.zeros(7), np.ones(7)).for_rows(rows)
    np.testing.assert_array_equal(known.beyond(), (rows[["free_0", "free_1"]] > 1 + 1e-7).any(axis=1))


def test_blocks_that_are_bound_already_are_refused() -> None:
    omega, rows = by_row(4)
    with pytest.raises(InputError, match=r"blocks\[0\] is bound to rows already. Give the set itself"):
        Product([omega.blocks[0].for_rows(rows)])


class Costly(FeasibleSet):
    """Some of each, with a known cost for each unit."""

    has_cost = True

    def __init__(self) -> None:
        self._set_bounds(0.0, 1.0, 2)

    def _argmax(self, coefficients: Floats) -> Floats:
        return np.where(coefficients > 0.5, 1.0, 0.0)

    def cost(self, actions: Floats) -> Floats:
        total: Floats = 0.5 * actions.sum(axis=1)
        return total

    def violation(self, actions: Floats) -> Floats:
        return self._outside_box(actions)

    def spec(self) -> dict[str, Any]:
        return {}


def test_known_costs_of_blocks_add_up() -> None:
    omega = Product([Costly(), Simplex(2), Costly()])
    C = np.array([[1.0, 0.2, 3.0, 4.0, 0.7, 0.8]])
    actions = omega.argmax(C)
    np.testing.assert_array_equal(actions, [[1, 0, 0, 1, 1, 1]])
    assert omega.has_cost
    np.testing.assert_allclose(omega.cost(actions), [1.5])
    np.testing.assert_allclose(omega.value(actions, C), [1.0 + 4.0 + 1.5 - 1.5])
    keyed = ByKey("key", {"a": Costly(), "b": Simplex(2)}).for_rows(pd.DataFrame({"key": ["b", "a"]}))
    np.testing.assert_allclose(keyed.cost(np.ones((2, 2))), [0.0, 1.0])
