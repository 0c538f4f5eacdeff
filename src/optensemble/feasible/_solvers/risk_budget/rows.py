"""The linear constraints of portfolios: scaled, checked, and without those that others imply."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

from optensemble._core.arrays import Floats
from optensemble._core.validation import as_floats
from optensemble.exceptions import EmptySetError, InputError
from optensemble.feasible._solvers.risk_budget.cone import PortfolioRows

Rows = tuple[Floats, Floats]
"""Rows of a matrix, and their right-hand sides."""

_ROOM = 1e-10
"""Constraints, scaled to a largest entry of 1, that leave no more room than this leave none."""

_EXCESS = 1e-9
"""Constraints that must be missed by more than this contradict each other; less may be SciPy's tolerance."""


def collect_rows(ub_rows: Rows, eq_rows: Rows, upper: Floats) -> PortfolioRows:
    """Return all linear constraints, scaled and without redundant ones, or raise ``EmptySetError``."""
    if upper.sum() < 1.0:
        raise EmptySetError(
            f"no portfolio is feasible: the weights must sum to 1, and the caps upper= to only "
            f"{upper.sum():.6g}. Raise upper=."
        )
    A, b = np.ones((1, len(upper))), np.ones(1)
    for row, right in zip(*scaled_rows(*eq_rows), strict=True):
        if np.linalg.matrix_rank(np.vstack([A, row])) > len(A):
            A, b = np.vstack([A, row]), np.append(b, right)
    (ub, b_ub), (eq, b_eq) = scaled_rows(*ub_rows), scaled_rows(*eq_rows)
    excess = _least_excess(np.vstack([ub, eq, -eq]), np.concatenate([b_ub, b_eq, -b_eq]), upper)
    if excess > _EXCESS:
        raise EmptySetError(
            "no portfolio satisfies A_ub, b_ub, A_eq, b_eq, the caps upper= and a sum of 1 together: some "
            f"constraint is missed by at least {excess:.3g} (rows scaled to a largest entry of 1). Check their "
            "signs, and that the sectors leave room for weights that sum to 1."
        )
    always, needed = _sort_out(ub, b_ub, A, b, upper)
    for row, right in zip(ub[always], b_ub[always], strict=True):
        if np.linalg.matrix_rank(np.vstack([A, row])) > len(A):
            A, b = np.vstack([A, row]), np.append(b, right)
    return PortfolioRows(np.vstack([A, ub[needed]]), np.concatenate([b, b_ub[needed]]), len(b), upper)


def as_dense_rows(A: npt.ArrayLike | None, b: npt.ArrayLike | None, name: str, d: int) -> tuple[Floats, Floats]:
    if (A is None) != (b is None):
        raise InputError(f"A_{name} and b_{name} go together; only one of them is given.")
    if A is None or b is None:
        return np.empty((0, d)), np.empty(0)
    matrix, right = np.atleast_2d(as_floats(A, f"A_{name}")), np.atleast_1d(as_floats(b, f"b_{name}"))
    if matrix.ndim != 2 or matrix.shape[1] != d or right.shape != (len(matrix),):
        raise InputError(
            f"A_{name} must have {d} columns, one for each coordinate, and b_{name} one entry for each of its rows; "
            f"got arrays of shape {matrix.shape} and {right.shape}."
        )
    return matrix, right + 0.0  # negative zero is zero


def scaled_rows(A: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Divide each row by its largest entry; a row of zeros stays as it is."""
    size = np.abs(A).max(axis=1, initial=0.0)
    size[size == 0.0] = 1.0
    return A / size[:, None], b / size


def _least_excess(A: Floats, b: Floats, upper: Floats) -> float:
    """Return the least excess over ``A a <= b`` of weights between 0 and their caps that sum to 1."""
    if not len(b):
        return 0.0
    d = len(upper)
    columns, cost = np.column_stack([A, -np.ones(len(b))]), np.append(np.zeros(d), 1.0)
    total, bounds = np.append(np.ones(d), 0.0)[None], [*((0.0, cap) for cap in upper), (0.0, None)]
    return float(linprog(cost, A_ub=columns, b_ub=b, A_eq=total, b_eq=[1.0], bounds=bounds)["fun"])


def _sort_out(A: Floats, b: Floats, A_eq: Floats, b_eq: Floats, upper: Floats) -> tuple[list[int], list[int]]:
    """Return which of ``A a <= b`` always bind, and which of the others the rest does not imply.

    Interior-point and active-set methods fail where a constraint leaves no room, or repeats others.
    """

    def least(row: Floats, rows: list[int]) -> float:
        bounds = [(0.0, cap) for cap in upper]
        if not rows:
            return float(linprog(row, A_eq=A_eq, b_eq=b_eq, bounds=bounds)["fun"])
        return float(linprog(row, A_ub=A[rows], b_ub=b[rows], A_eq=A_eq, b_eq=b_eq, bounds=bounds)["fun"])

    everything = list(range(len(b)))
    always = [i for i in everything if least(A[i], everything) >= b[i] - _ROOM]
    A_eq, b_eq = np.vstack([A_eq, A[always]]), np.concatenate([b_eq, b[always]])
    needed = [i for i in everything if i not in always]
    for i in list(needed):
        others = [j for j in needed if j != i]
        if -least(-A[i], others) <= b[i] + _ROOM:
            needed = others
    return always, needed
