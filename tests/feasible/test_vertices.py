from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from optensemble.exceptions import EmptySetError, InputError
from optensemble.feasible import Vertices
from tests.sample_sets import hard_rows


@pytest.mark.parametrize(("d", "count"), [(1, 1), (1, 3), (4, 30), (24, 300)])
def test_it_is_the_best_by_brute_force(d: int, count: int) -> None:
    array = np.random.default_rng(d).normal(size=(count, d))
    omega = Vertices(array)
    C = hard_rows(d)
    actions = omega.argmax(C)
    np.testing.assert_array_equal(omega.violation(actions), 0.0)
    scale = np.maximum(np.abs(C).max(axis=1, keepdims=True), 1e-320)
    values = (C / scale) @ array.T
    np.testing.assert_allclose(((C / scale) * actions).sum(axis=1), values.max(axis=1), atol=1e-10)


def test_ties_go_to_the_lowest_index_whatever_the_noise() -> None:
    omega = Vertices([[0.1, 0.2], [0.3, 0.0], [0.3, 0.0], [0.0, 0.3]])
    np.testing.assert_array_equal(omega.argmax([[1.0, 1.0]]), [[0.1, 0.2]])
    np.testing.assert_array_equal(omega.argmax([[0.0, 0.0]]), [[0.1, 0.2]])
    np.testing.assert_array_equal(omega.argmax([[1.0, 0.5]]), [[0.3, 0.0]])


def test_bounds_are_the_unit_box_if_it_fits() -> None:
    inside, outside = Vertices([[0.2, 0.5]]), Vertices([[0.2, 3.0], [0.4, -1.0]])
    np.testing.assert_array_equal([inside.lower, inside.upper], [[0, 0], [1, 1]])
    np.testing.assert_array_equal([outside.lower, outside.upper], [[0.2, -1.0], [0.4, 3.0]])
    np.testing.assert_array_equal(Vertices([[0.2, 3.0]], lower=0, upper=5).upper, [5.0, 5.0])


def test_violation_is_the_distance_to_the_nearest() -> None:
    omega = Vertices([[0.0, 0.0], [1.0, 1.0]])
    np.testing.assert_allclose(omega.violation(np.array([[0.1, 0.2], [1.0, 0.7], [1.0, 1.0]])), [0.2, 0.3, 0.0])


def test_the_list_is_a_copy() -> None:
    array = np.eye(2)
    omega = Vertices(array)
    array[:] = 7.0
    np.testing.assert_array_equal(omega.vertices, np.eye(2))


def test_errors_say_what_to_do() -> None:
    empties: list[npt.ArrayLike] = [[], np.empty((0, 3)), np.empty((3, 0))]
    for empty in empties:
        with pytest.raises(EmptySetError, match="at least one action"):
            Vertices(empty)
    with pytest.raises(InputError, match="list all and give available="):
        Vertices(np.zeros((2, 2, 2)))
    with pytest.raises(InputError, match=r"rows 1, 2 of 3 do not\. Widen"):
        Vertices([[0.5, 0.5], [2.0, 0.0], [-1.0, 0.0]], lower=0, upper=1)
    with pytest.raises(InputError, match="must be finite"):
        Vertices([[np.nan]])


def test_a_forbidding_coefficient_does_not_blur_the_others() -> None:
    np.testing.assert_array_equal(Vertices(np.eye(3)).argmax([[1.0, 1.0 + 1e-6, -1e12]]), [[0, 1, 0]])
