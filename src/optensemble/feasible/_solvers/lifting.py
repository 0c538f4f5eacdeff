"""Linear constraints on more coordinates than the action, brought to a form that a polytope can take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble.exceptions import EmptySetError
from optensemble.feasible._solvers.affine import Affine
from optensemble.feasible._solvers.cvxpy_program import Program
from optensemble.feasible._solvers.implied_bounds import Bounds

_MOST_ENTRIES = 8_000_000
"""Larger problems are not brought to this form: it is dense on the way."""

_ZERO = 1e-13
"""Entries no larger, beside the largest of their row, are what elimination leaves of zeros."""

_FEW = 4
"""An action that more coordinates define is not put in their place: that would fill the rows."""

_PIVOT_SHARE = 0.1
"""An equality may be solved for a coordinate whose entry is no smaller than this share of its largest."""

_MISSED = 1e-9
"""A row without coordinates that is missed by more has no solution."""


@dataclass(frozen=True)
class Lifted:
    """``A_ub y <= b_ub``, ``A_eq y = b_eq`` and bounds, at a cost of ``y'Py / 2 + linear·y + offset``.

    The action comes first in ``y``. Sides and costs have a constant, and a slope by each parameter of a row, in each of
    their rows.
    """

    A_ub: Floats
    b_ub: Floats
    A_eq: Floats
    b_eq: Floats
    bounds: Bounds
    whole: npt.NDArray[np.bool_]
    dimension: int
    P: Floats
    linear: Floats
    map: Floats
    origin: Affine
    """The programme's own coordinates: ``x = map y + origin``."""
    program: Program
    curved: npt.NDArray[np.bool_]
    """Coordinates in constraints that are left out here: curved ones, and those with parameters in their matrix."""
    bounded: bool
    """Whether all coordinates have finite bounds, or would have them by linear programmes."""

    @property
    def complete(self) -> bool:
        """Whether nothing is left out, so that it describes the set and its cost."""
        return self.bounded and not self.curved.any() and not self.program.P.entries.varies

    @property
    def has_cost(self) -> bool:
        """Whether acting costs something that is known."""
        return self.program.has_cost

    def offsets(self, values: Floats) -> Floats:
        """Return the part of the cost that is the same for all actions, for each row of parameters."""
        x, q = self.origin.at(values), self.program.q.at(values)
        offset = self.program.offset.at(values)[:, 0]
        P = self.program.P.fixed.tocoo()
        for j in np.flatnonzero(self.origin.terms.any(axis=1)):
            offset = offset + q[:, j] * x[:, j]
        for i, j, entry in zip(P.row, P.col, P.data, strict=True):
            offset = offset + 0.5 * entry * (x[:, i] * x[:, j])
        return np.asarray(offset, dtype=np.float64)


def lift(program: Program) -> Lifted | None:
    """Return the linear part of a programme in this form, or None if it has none."""
    m, n = program.A.shape
    if (m + 2 * n) * n > _MOST_ENTRIES:
        return None
    reduction = _Reduction(program)
    reduction.merge_actions()
    reduction.solve_for_free()
    return reduction.result() if reduction.clean() else None


class _Reduction:
    """Rows that change as coordinates are eliminated from them."""

    def __init__(self, program: Program) -> None:
        self.program = program
        A, right = program.A.fixed.toarray(), program.b.terms
        n = A.shape[1]
        fixed, equality = program.linear_rows()
        used = program.A.used.toarray()
        self.curved = used[~fixed].any(axis=0)
        self.E, self.E_right = A[fixed & equality], right[fixed & equality]
        rows, sides = [A[fixed & ~equality]], [right[fixed & ~equality]]
        for sign, bound in ((-1.0, program.lower), (1.0, program.upper)):
            terms = bound.terms
            given = np.flatnonzero(np.isfinite(bound.constant))
            rows.append(sign * np.eye(n)[given])
            sides.append(sign * terms[given])
        self.U, self.U_right = np.concatenate(rows), np.concatenate(sides)
        self.action = np.zeros(n, dtype=np.bool_)
        self.action[program.columns] = True
        self.alive = np.ones(n, dtype=np.bool_)
        self.whole = program.whole.copy()
        # x = map y + origin, of the coordinates y that are alive
        self.map, self.origin = np.eye(n), np.zeros((n, right.shape[1]))

    def merge_actions(self) -> None:
        """Express coordinates by the action, where it is defined by few of them.

        So ``x`` is the action itself where that equals it, and ``x = a + z`` where the action is ``x - z``: costs and
        constraints of ``x - z`` then are seen to be those of the action.
        """
        for t in np.flatnonzero(self.action):
            for i in np.flatnonzero(self.E[:, t]):
                others = np.flatnonzero((self.E[i] != 0.0) & ~self.action)
                if 0 < len(others) <= _FEW and self._may_leave(int(i), int(t), others):
                    uses = np.count_nonzero(self.U[:, others], axis=0) + np.count_nonzero(self.E[:, others], axis=0)
                    uses = uses + np.where(self.whole[others], len(self.E) + len(self.U), 0)
                    self._eliminate(int(i), int(others[uses.argmin()]))
                    break

    def _may_leave(self, i: int, t: int, others: Indices) -> bool:
        """Return whether an equality can be solved for one of these; a whole number only if the action is one then."""
        if not self.whole[others].all():
            return True
        ratio, shift = self.E[i, others[0]] / self.E[i, t], self.E_right[i] / self.E[i, t]
        alone = len(others) == 1 and np.count_nonzero(self.E[i]) == 2
        if not alone or abs(ratio) != 1.0 or shift[1:].any() or shift[0] != np.rint(shift[0]):
            return False
        self.whole[t] = True
        return True

    def solve_for_free(self) -> None:
        """Solve equalities for coordinates without bounds, except for the action."""
        for _ in range(len(self.E)):
            single = self.U[np.count_nonzero(self.U, axis=1) == 1]
            bounded = single.any(axis=0) if len(single) else np.zeros_like(self.alive)
            free = np.flatnonzero(self.alive & ~self.action & ~bounded & ~self.whole & self.E.any(axis=0))
            if not free.size:
                return
            k = int(free[0])
            size = np.abs(self.E[:, k])
            rows = np.flatnonzero(size >= _PIVOT_SHARE * size.max())
            self._eliminate(int(rows[np.count_nonzero(self.E[rows], axis=1).argmin()]), k)

    def _eliminate(self, i: int, k: int) -> None:
        """Solve equality i for coordinate k, and put that into all other rows."""
        row, right = -self.E[i] / self.E[i, k], self.E_right[i] / self.E[i, k]
        row[k] = 0.0
        for matrix, sides in ((self.E, self.E_right), (self.U, self.U_right)):
            factor = matrix[:, k].copy()
            touched = np.flatnonzero(factor)
            matrix[touched] += np.outer(factor[touched], row)
            matrix[touched, k] = 0.0
            sides[touched] -= np.outer(factor[touched], right)
            size = np.abs(matrix[touched]).max(axis=1, initial=0.0, keepdims=True)
            matrix[touched] = np.where(np.abs(matrix[touched]) <= _ZERO * size, 0.0, matrix[touched])
        factor = self.map[:, k].copy()
        self.curved |= self.curved[k] & (row != 0.0)
        self.map += np.outer(factor, row)
        self.map[:, k] = 0.0
        self.origin += np.outer(factor, right)
        self.E, self.E_right = np.delete(self.E, i, axis=0), np.delete(self.E_right, i, axis=0)
        self.alive[k] = False

    def clean(self) -> bool:
        """Leave out rows without coordinates; return whether none of them is a condition on parameters alone."""
        for name in ("E", "U"):
            matrix, sides = getattr(self, name), getattr(self, f"{name}_right")
            empty = ~matrix.any(axis=1)
            missed = np.abs(sides[empty, 0]) if name == "E" else -sides[empty, 0]
            if np.abs(sides[empty, 1:]).max(initial=0.0) > _MISSED:
                return False
            if missed.max(initial=0.0) > _MISSED:
                raise EmptySetError("no action satisfies all constraints of the problem. Relax them, or check them.")
            setattr(self, name, matrix[~empty])
            setattr(self, f"{name}_right", sides[~empty])
        return True

    def result(self) -> Lifted:
        """Return the form, with bounds apart."""
        P = self.program.P.fixed.toarray()
        linear = self.map.T @ (self.program.q.terms + P @ self.origin)
        P = self.map.T @ P @ self.map
        bounds = self._bounds()
        self._leave_out_idle(bounds, linear, P)
        order = np.concatenate([np.flatnonzero(self.action), np.flatnonzero(self.alive & ~self.action)])
        bounds = _reordered(bounds, order)
        U, E = self.U[:, order], self.E[:, order]
        return Lifted(
            bounded=_bounded(bounds, U, self.U_right, E, self.E_right, self._kept(U, E, linear[order], bounds, order)),
            curved=self.curved[order],
            A_ub=U,
            b_ub=self.U_right,
            A_eq=E,
            b_eq=self.E_right,
            bounds=bounds,
            whole=self.whole[order],
            dimension=int(self.action.sum()),
            P=P[np.ix_(order, order)],
            linear=linear[order],
            map=self.map[:, order],
            origin=Affine.of(self.origin),
            program=self.program,
        )

    def _kept(self, U: Floats, E: Floats, linear: Floats, bounds: Bounds, order: Indices) -> Indices:
        """Return coordinates without a bound on a side that costs keep them from, and on which no row keeps them."""
        known, sign = bounds.known, self.program.is_positive
        alone = ~E.any(axis=0) & ~self.curved[order]
        up = ~known[1] & (U <= 0).all(axis=0) & [sign(terms) for terms in linear]
        down = ~known[0] & (U >= 0).all(axis=0) & [sign(-terms) for terms in linear]
        return np.flatnonzero(alone & (up | down))

    def _bounds(self) -> Bounds:
        """Take rows of a single entry for bounds."""
        n = len(self.alive)
        bounds = Bounds(np.full(n, -np.inf), np.full(n, np.inf))
        single = np.count_nonzero(self.U, axis=1) == 1
        for row, sides in zip(self.U[single], self.U_right[single], strict=True):
            j = int(np.flatnonzero(row)[0])
            terms = sides / row[j] + 0.0
            if terms[1:].any():
                (bounds.above if row[j] > 0 else bounds.below).append((j, terms))
            elif row[j] > 0:
                bounds.upper[j] = min(bounds.upper[j], terms[0])
            else:
                bounds.lower[j] = max(bounds.lower[j], terms[0])
        self.U, self.U_right = self.U[~single], self.U_right[~single]
        return bounds

    def _leave_out_idle(self, bounds: Bounds, linear: Floats, P: Floats) -> None:
        """Leave out coordinates that may go to infinity at no cost, with the rows that they satisfy there."""
        idle = True
        while idle:
            idle = False
            known = bounds.known
            for j in np.flatnonzero(self.alive & ~self.action & ~known.all(axis=0) & ~self.E.any(axis=0)):
                column = self.U[:, j]
                if self.curved[j]:
                    continue
                free = (not known[1, j] and (column <= 0).all()) or (not known[0, j] and (column >= 0).all())
                if free and not (linear[j].any() or P[j].any()):
                    self.U, self.U_right = self.U[column == 0], self.U_right[column == 0]
                    self.alive[j], idle = False, True


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
