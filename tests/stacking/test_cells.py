"""The cells of rows: every level set has a number of its own, whichever way it is found."""

from __future__ import annotations

import numpy as np
import pytest

from optensemble._core.buckets import EDGE, Buckets
from optensemble.stacking.cells import Levels, fill_groups, fill_levels


@pytest.mark.parametrize("d", [1, 4, 7, 8, 13, 48])
@pytest.mark.parametrize("rows", [1, 8, 35])
def test_cells_are_level_sets_counted_from_the_first_of_their_column(d: int, rows: int) -> None:
    rng = np.random.default_rng(d)
    members, start, first, count = 3, 2, 5, 10
    lower = rng.normal(size=d)
    upper = lower + rng.uniform(1, 3, size=d)
    upper[0] = lower[0]  # a fixed coordinate has one level set
    share = rng.choice(
        [0.0, 0.1, 0.1 - EDGE / 100, 0.55, 0.999, 1.0, 1.0 + 1e-9, -1e-9], size=(members, start + rows, d)
    )
    actions = lower + share * (upper - lower)
    offsets = np.cumsum(rng.integers(1, 20, size=first + members * d + 1))
    columns = np.full((rows, first + members * d), -1, dtype=np.int32)
    buckets = Buckets(lower, upper, count)
    fill_levels(actions, start, Levels.of(buckets), offsets, columns, first)
    expected = np.concatenate([buckets(each[start:]) for each in actions], axis=1) + offsets[first:-1]
    np.testing.assert_array_equal(columns[:, first:], expected)
    assert (columns[:, :first] == -1).all()


def test_values_learned_later_are_in_the_last_part() -> None:
    groups = np.array([[9, 0, 1, 2], [9, 1, 0, 7]], dtype=np.int32)
    columns = np.full((3, 3), -1, dtype=np.int32)
    fill_groups(groups, 1, np.array([0, 4, 6, 9]), columns, 1)
    np.testing.assert_array_equal(columns, [[-1, 4, 7], [-1, 5, 6], [-1, 5, 8]])
