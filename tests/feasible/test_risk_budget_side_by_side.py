"""Small risk budgets: rows that are tried side by side have the bits that they have alone, whatever the hint."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble._core.lanes import LANES
from optensemble.feasible import RiskBudget

Floats = npt.NDArray[np.float64]


def random_budget(rng: np.random.Generator, d: int, rank: int) -> RiskBudget:
    """Return a budget that binds; a low rank makes the covariance singular."""
    root = rng.normal(size=(rank, d))
    covariance = root.T @ root + 1e-3 * np.eye(d) * (rank >= d)
    least = RiskBudget(covariance, 1e9).least_variance
    return RiskBudget(covariance, least + rng.uniform(0.05, 0.95) * (float(np.diag(covariance).min()) - least) + 1e-6)


def odd_rows(rng: np.random.Generator, n: int, d: int) -> Floats:
    """Return rows of all kinds: tied, equal, zero, of extreme size, and with one entry far ahead."""
    C = rng.normal(size=(n, d))
    C[::5] = np.rint(C[::5])
    C[1::7] *= 1e120
    C[2::7] *= 1e-120
    C[3::11] = 0.0
    C[4::11] = 2.5
    C[5::6, 0] += 50.0
    return C


@given(seed=st.integers(0, 2**32 - 1), d=st.integers(2, 8), rank=st.integers(1, 9), n=st.integers(LANES, 3 * LANES + 1))
def test_rows_side_by_side_have_the_bits_of_rows_alone(seed: int, d: int, rank: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    omega, C = random_budget(rng, d, rank), odd_rows(rng, n, d)
    together = omega.argmax(C)
    np.testing.assert_array_equal(together, np.concatenate([omega.argmax(C[i : i + 1]) for i in range(n)]))
    for hint in (together, omega.argmax(rng.permutation(C)), np.roll(together, 1, axis=1)):
        np.testing.assert_array_equal(omega.argmax(C, hint), together)


@pytest.mark.parametrize("d", [2, 4, 8])
def test_actions_are_feasible_and_no_other_is_worth_more(d: int) -> None:
    rng = np.random.default_rng(d)
    omega, C = random_budget(rng, d, d + 2), rng.normal(size=(200, d))
    actions = omega.argmax(C)
    assert (omega.violation(actions) <= omega.tolerance).all()
    others = rng.dirichlet(np.ones(d), size=2000)
    inside = others[omega.violation(others) <= omega.tolerance]
    assert ((C * actions).sum(axis=1)[:, None] >= C @ inside.T - 1e-9).all()
