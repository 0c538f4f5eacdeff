"""The linear part of a cone programme, brought to a form that a polytope can take."""

from __future__ import annotations

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble.feasible._solvers.affine import Affine
from optensemble.feasible._solvers.cvxpy_program import Program
from optensemble.feasible._solvers.implied_bounds import Bounds
from optensemble.feasible._solvers.lifted_form import Lifted
from optensemble.feasible._solvers.reduction import Reduction

_MOST_ENTRIES = 8_000_000
"""Larger problems are not brought to this form: it is dense on the way."""


def lift(program: Program) -> Lifted | None:
    """Return the linear part of a programme in this form, or None if it has none."""
    m, n = program.A.shape
    if (m + 2 * n) * n > _MOST_ENTRIES:
        return None
    reduction = Reduction(program)
    reduction.merge_actions()
    reduction.solve_for_free()
    if reduction.by_row:
        reduction.bound_actions()
        reduction.solve_for_free(bounded=True)
    return _result(reduction) if reduction.clean() else None


def _result(reduced: Reduction) -> Lifted:
    """Return the form, with bounds apart."""
    P = reduced.program.P.fixed.toarray()
    linear = reduced.map.T @ (reduced.program.q.terms + P @ reduced.origin)
    P = reduced.map.T @ P @ reduced.map
    bounds = reduced.take_bounds()
    reduced.leave_out_idle(bounds, linear, P)
    order = np.concatenate([np.flatnonzero(reduced.action), np.flatnonzero(reduced.alive & ~reduced.action)])
    bounds = _reordered(bounds, order)
    U, E = reduced.U[:, order], reduced.E[:, order]
    return Lifted(
        bounded=_bounded(
            bounds, U, reduced.U_right, E, reduced.E_right, _kept(reduced, U, E, linear[order], bounds, order)
        ),
        curved=reduced.curved[order],
        A_ub=U,
        b_ub=reduced.U_right,
        A_eq=E,
        b_eq=reduced.E_right,
        bounds=bounds,
        whole=reduced.whole[order],
        dimension=int(reduced.action.sum()),
        P=P[np.ix_(order, order)],
        linear=linear[order],
        map=reduced.map[:, order],
        origin=Affine.of(reduced.origin),
        program=reduced.program,
    )


def _kept(reduced: Reduction, U: Floats, E: Floats, linear: Floats, bounds: Bounds, order: Indices) -> Indices:
    """Return coordinates without a bound on a side that costs keep them from, and on which no row keeps them."""
    known, sign = bounds.known, reduced.program.is_positive
    alone = ~E.any(axis=0) & ~reduced.curved[order]
    up = ~known[1] & (U <= 0).all(axis=0) & [sign(terms) for terms in linear]
    down = ~known[0] & (U >= 0).all(axis=0) & [sign(-terms) for terms in linear]
    return np.flatnonzero(alone & (up | down))


def _bounded(
    bounds: Bounds,
    U: Floats,
    U_right: Floats,
    E: Floats,
    E_right: Floats,
    kept: Indices,
) -> bool:
    """Bound all coordinates as far as rows and costs do; return whether nothing is left that only costs may bound."""
    rows, sides = np.concatenate([U, E, -E]), np.concatenate([U_right, E_right, -E_right])
    others = np.ones(U.shape[1], dtype=np.bool_)
    others[kept] = False
    by_row = bool(sides[:, 1:].any() or bounds.varying.any())
    # Where nothing differs between rows, the polytope finds the tightest bounds by itself.
    known = bounds if by_row else Bounds(bounds.lower.copy(), bounds.upper.copy())
    known.imply(rows, sides, others)
    for j in kept:
        above = not known.known[1, j]
        if not known.need(U, U_right, int(j), above):
            return False
        known.imply(rows, sides, np.arange(U.shape[1]) == j)
    if by_row:
        return bool(known.known.all())
    low, high = known.at(np.zeros((1, sides.shape[1] - 1)))
    bounds.lower[kept], bounds.upper[kept] = low[0, kept], high[0, kept]
    return True


def _reordered(bounds: Bounds, order: Indices) -> Bounds:
    place = {int(j): at for at, j in enumerate(order)}
    return Bounds(
        bounds.lower[order],
        bounds.upper[order],
        [(place[j], terms) for j, terms in bounds.below if j in place],
        [(place[j], terms) for j, terms in bounds.above if j in place],
    )
