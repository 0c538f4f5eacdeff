from __future__ import annotations

import numpy as np
import pytest

from optensemble.exceptions import InputError
from optensemble.feasible import Simplex
from tests.sample_sets import hard_rows


@pytest.mark.parametrize("d", [1, 4])
def test_the_largest_coefficient_gets_everything(d: int) -> None:
    C = hard_rows(d)
    actions = Simplex(d).argmax(C)
    assert (np.sort(actions, axis=1)[:, -1] == 1.0).all()
    np.testing.assert_allclose((actions * C).sum(axis=1), C.max(axis=1), rtol=1e-11)


def test_ties_go_to_the_lowest_index_whatever_the_noise() -> None:
    np.testing.assert_array_equal(Simplex(3).argmax([[0.0, 0.3, 0.1 + 0.2]]), [[0.0, 1.0, 0.0]])
    np.testing.assert_array_equal(Simplex(3).argmax([[0.0, 0.0, 0.0]]), [[1.0, 0.0, 0.0]])


def test_violation_is_the_distance_from_the_set() -> None:
    np.testing.assert_allclose(Simplex(2).violation(np.array([[0.5, 0.5], [0.5, 0.2], [1.1, -0.1]])), [0.0, 0.3, 0.1])


def test_errors_say_what_to_do() -> None:
    with pytest.raises(InputError, match="at least 1"):
        Simplex(0)


def test_a_forbidding_coefficient_does_not_blur_the_others() -> None:
    np.testing.assert_array_equal(Simplex(3).argmax([[1.0, 1.0 + 1e-6, -1e12]]), [[0, 1, 0]])
