"""Means over members that are present."""

from __future__ import annotations

import numpy as np
import pytest

from optensemble.members.absence import mean_present


@pytest.mark.parametrize("shape", [(1, 3, 2), (2, 1, 4), (5, 70, 3), (12, 9, 48), (150, 2, 7)])
def test_the_mean_of_all_is_that_of_numpy_to_the_bit(shape: tuple[int, int, int]) -> None:
    values = np.random.default_rng(1).normal(size=shape)
    np.testing.assert_array_equal(mean_present(values, None), values.mean(axis=0))
    strided = np.ascontiguousarray(values.transpose(1, 0, 2)).transpose(1, 0, 2)
    np.testing.assert_array_equal(mean_present(strided, None), values.mean(axis=0))


def test_absent_members_are_left_out_of_the_mean() -> None:
    rng = np.random.default_rng(2)
    values, absent = rng.normal(size=(4, 30, 2)), rng.uniform(size=(4, 30)) < 0.5
    means = mean_present(values, absent)
    for row, there in enumerate(~absent.T):
        expected = values[there, row].mean(axis=0) if there.any() else np.zeros(2)
        np.testing.assert_allclose(means[row], expected, atol=1e-12)
