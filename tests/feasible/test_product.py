from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from optensemble.exceptions import EmptySetError, InfeasibleActionError, InputError, SolverError
from optensemble.feasible import Box, FeasibleSet, Oracle, Polytope, Simplex, Vertices
from optensemble.feasible._base import Unsolved
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
            raise Unsolved(np.zeros_like(coefficients), {int(row): "it is stubborn." for row in failed})
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
