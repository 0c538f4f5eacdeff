from __future__ import annotations

import itertools

import numpy as np
import pytest

from optensemble.exceptions import EmptySetError, InputError, UnboundedSetError
from optensemble.feasible import Box
from tests.sample_sets import hard_rows


@pytest.mark.parametrize("d", [1, 3])
def test_it_is_the_best_corner(d: int) -> None:
    omega = Box(lower=-0.5, upper=np.arange(1.0, d + 1))
    corners = np.array(list(itertools.product(*zip(omega.lower, omega.upper, strict=True))))
    C = hard_rows(d)
    np.testing.assert_array_equal((omega.argmax(C) * C).sum(axis=1), (corners[:, None] * C).sum(axis=2).max(axis=0))


def test_ties_go_to_the_lower_bound() -> None:
    np.testing.assert_array_equal(Box(dimension=2).argmax([[0.0, -0.0]]), [[0.0, 0.0]])


def test_violation_is_the_largest_excess() -> None:
    np.testing.assert_allclose(Box(dimension=2).violation(np.array([[0.5, 1.0], [-0.1, 1.3]])), [0.0, 0.3])


def test_errors_say_what_to_do() -> None:
    with pytest.raises(InputError, match="Give dimension="):
        Box()
    with pytest.raises(InputError, match="at least 1; got 0"):
        Box(dimension=0)
    with pytest.raises(InputError, match=r"positive integer; got 2\.5"):
        Box(dimension=2.5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="each of the 3 coordinates"):
        Box(lower=[0, 0], dimension=3)
    with pytest.raises(InputError, match="lower must be numeric"):
        Box(lower="low", dimension=3)
    with pytest.raises(InputError, match="upper must not hold NaN"):
        Box(upper=[1, np.nan])
    with pytest.raises(EmptySetError, match="coordinate 1 has lower bound 2 above its upper bound 1"):
        Box(lower=[0, 2])
    with pytest.raises(UnboundedSetError, match="coordinate 1 lies in"):
        Box(upper=[1, np.inf])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_all_rows_that_are_not_finite_are_named_wherever_in_a_large_batch(bad: float) -> None:
    C = np.ones((20_000, 2))
    C[[3, 9_000, 19_999], 1] = bad  # in different pieces of what the kernel is given
    with pytest.raises(InputError, match="NaN or infinity in rows 3, 9000, 19999 of 20000"):
        Box(dimension=2).argmax(C)
