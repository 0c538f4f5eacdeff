"""RiskBudget: the search by what is out, and elimination in blocks, whose ways leave no trace in an action."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from optensemble.feasible._batches import run_kernel
from optensemble.feasible._solvers.risk_budget.elimination import ROOM, eliminate, substitute_back
from tests.feasible.risk_budgets import tight
from tests.sample_sets import Floats

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]


def conditioned(d: int, digits: float, rng: np.random.Generator) -> Floats:
    """A covariance whose eigenvalues span some orders of magnitude."""
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    matrix: Floats = (basis * 10.0 ** -np.linspace(0.0, digits, d)) @ basis.T
    return (matrix + matrix.T) / 2


@njit
def solve_at(matrix, places, sides, M, known):  # type: ignore[no-untyped-def]
    n = len(places)
    side = n + -n % 4
    for i in range(n):
        for j in range(i - i % 4, n):
            M[i, j] = matrix[places[i], places[j]]
        M[i, side], M[i, side + 1] = sides[0, places[i]], sides[1, places[i]]
    eliminate(M, side)
    substitute_back(M, known, n)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.floats(0.0, 1.0), st.integers(0, 10**6))
def test_elimination_solves_at_any_places(d: int, share: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix, sides = conditioned(d, 3.0, rng), rng.normal(size=(2, d))
    places = np.sort(rng.permutation(d)[: max(1, round(share * d))])
    known, n = np.full((2, d), np.nan), len(places)
    solve_at(matrix, places, sides, np.full((2 * d + 6, d + ROOM), np.nan), known)
    expected = np.linalg.solve(matrix[np.ix_(places, places)], sides[:, places].T).T
    np.testing.assert_allclose(known[:, :n], expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@settings(max_examples=25, deadline=None)
@given(st.integers(9, 40), st.floats(0.0, 8.0), st.floats(1.05, 10.0), st.integers(0, 10**6))
def test_the_search_the_line_and_hints_lead_to_the_same_bits(d: int, digits: float, times: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    omega = tight(conditioned(d, digits, rng), times)
    C = rng.normal(size=(12, d))
    actions = omega.argmax(C)
    for hint in (actions, actions[::-1].copy(), np.where(rng.random(C.shape) < 0.3, 0.0, actions)):
        np.testing.assert_array_equal(omega.argmax(C, hint=hint), actions)
    by_line, status = run_kernel(omega._line, C)
    np.testing.assert_array_equal(by_line[status == 0], actions[status == 0])
