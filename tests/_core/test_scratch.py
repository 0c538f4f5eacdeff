"""Room on the stack: arrays like any other, while the function that made them runs."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from optensemble._core.scratch import scratch
from tests.problems import Floats


@njit
def running_totals(rows):  # type: ignore[no-untyped-def]
    # each row by a room that the next one finds again
    totals = np.empty_like(rows)
    whole, small = scratch(4, np.float64), scratch(3, np.int16)
    for i in range(len(rows)):
        small[:] = i
        whole[0] = rows[i, 0]
        for j in range(1, 4):
            whole[j] = whole[j - 1] + rows[i, j]
        totals[i] = whole[: rows.shape[1]]
        totals[i, -1] += small[0] + small[1] + small[2] - 3 * i
    return totals


def test_rooms_hold_what_is_written_and_do_not_overlap() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 4))
    totals: Floats = running_totals(rows)
    np.testing.assert_allclose(totals, rows.cumsum(axis=1), rtol=1e-12)


@njit
def of_any_size(count):  # type: ignore[no-untyped-def]
    return len(scratch(count, np.float64))


def test_the_size_must_be_a_constant() -> None:
    with pytest.raises(TypingError):
        of_any_size(4)
