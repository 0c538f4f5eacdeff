"""Rows of linear constraints that change as coordinates are eliminated from them."""

from __future__ import annotations

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble.exceptions import EmptySetError
from optensemble.feasible._solvers.cvxpy_program import Program
from optensemble.feasible._solvers.implied_bounds import Bounds

_ZERO = 1e-13
"""Entries no larger, beside the largest of their row, are what elimination leaves of zeros."""

_FEW = 4
"""An action that more coordinates define is not put in their place: that would fill the rows."""

_PIVOT_SHARE = 0.1
"""An equality may be solved for a coordinate whose entry is no smaller than this share of its largest."""

_MISSED = 1e-9
"""A row without coordinates that is missed by more has no solution."""


class Reduction:
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

    @property
    def by_row(self) -> bool:
        """Whether right-hand sides differ between rows."""
        return bool(self.U_right[:, 1:].any() or self.E_right[:, 1:].any())

    def bound_actions(self) -> None:
        """Add the bounds of the action that hold in all rows: fewer coordinates would tell less tight ones."""
        bounds = self._bounds(self.U, self.U_right, {})
        rows, sides = np.concatenate([self.U, self.E, -self.E]), [self.U_right, self.E_right, -self.E_right]
        right = np.concatenate(sides)
        bounds.imply(rows, right, self.alive & ~bounds.varying.any(axis=0))
        same, eye = bounds.known & ~bounds.varying, np.eye(len(self.alive))
        found = bounds.at(np.zeros((1, right.shape[1] - 1)))
        for sign, known, values in zip((-1.0, 1.0), same, found, strict=True):
            for j in np.flatnonzero(self.action & known & np.isfinite(values[0])):
                side = np.append(sign * values[0, j], np.zeros(right.shape[1] - 1))
                self.U, self.U_right = np.vstack([self.U, sign * eye[j]]), np.vstack([self.U_right, side])

    def solve_for_free(self, bounded: bool = False) -> None:
        """Solve equalities for coordinates without bounds, except for the action.

        Where right-hand sides differ between rows, coordinates with bounds should leave too: a polytope would have to
        solve its equalities again for each row.
        """
        for _ in range(len(self.E)):
            single = self.U[np.count_nonzero(self.U, axis=1) == 1]
            stays = single.any(axis=0) if len(single) and not bounded else np.zeros_like(self.alive)
            stays[list(self._pinned())] = True
            free = np.flatnonzero(self.alive & ~self.action & ~stays & ~self.whole & self.E.any(axis=0))
            if not free.size:
                return
            k = int(free[0])
            size = np.abs(self.E[:, k])
            rows = np.flatnonzero(size >= _PIVOT_SHARE * size.max())
            self._eliminate(int(rows[np.count_nonzero(self.E[rows], axis=1).argmin()]), k)

    def _pinned(self) -> dict[int, int]:
        """Return coordinates that an equality sets to a number of the row, with the first such equality."""
        rows = np.flatnonzero((np.count_nonzero(self.E, axis=1) == 1) & self.E_right[:, 1:].any(axis=1))
        return {int(np.flatnonzero(self.E[i])[0]): int(i) for i in rows[::-1]}

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

    def take_bounds(self) -> Bounds:
        """Take rows of a single entry for bounds; of a coordinate that is a number of the row they stay conditions."""
        pinned = self._pinned()
        numbers = {j: self.E_right[i] / self.E[i, j] + 0.0 for j, i in pinned.items()}
        gone = list(pinned.values())
        self.E, self.E_right = np.delete(self.E, gone, axis=0), np.delete(self.E_right, gone, axis=0)
        single = (np.count_nonzero(self.U, axis=1) == 1) & ~self.U[:, list(pinned)].any(axis=1)
        bounds = self._bounds(self.U[single], self.U_right[single], numbers)
        self.U, self.U_right = self.U[~single], self.U_right[~single]
        self._bound_absolute_values(bounds)
        return bounds

    def _bound_absolute_values(self, bounds: Bounds) -> None:
        """Bound coordinates that are at least a function and at least its opposite: by half of what the two sum to."""
        for j in np.flatnonzero(self.alive & ~self.action & ~bounds.known[0]):
            rows = np.flatnonzero(self.U[:, j] < 0.0)
            scale = -self.U[rows, j, None]
            functions, sides, seen = self.U[rows] / scale, self.U_right[rows] / scale, dict[bytes, int]()
            functions[:, j] = 0.0
            for i, function in enumerate(functions):
                opposite = seen.get((-function + 0.0).tobytes())
                total = sides[i] + sides[opposite] if opposite is not None else np.ones(2)
                if not total[1:].any():  # the same in all rows
                    bounds.lower[j] = max(bounds.lower[j], -0.5 * total[0])
                seen[(function + 0.0).tobytes()] = i

    def _bounds(self, U: Floats, right: Floats, numbers: dict[int, Floats]) -> Bounds:
        """Return the bounds that rows of a single entry are, and those of coordinates that are numbers of the row."""
        n = len(self.alive)
        bounds = Bounds(np.full(n, -np.inf), np.full(n, np.inf), list(numbers.items()), list(numbers.items()))
        for i in np.flatnonzero(np.count_nonzero(U, axis=1) == 1):
            j = int(np.flatnonzero(U[i])[0])
            terms = right[i] / U[i, j] + 0.0
            if terms[1:].any():
                (bounds.above if U[i, j] > 0 else bounds.below).append((j, terms))
            elif U[i, j] > 0:
                bounds.upper[j] = min(bounds.upper[j], terms[0])
            else:
                bounds.lower[j] = max(bounds.lower[j], terms[0])
        return bounds

    def leave_out_idle(self, bounds: Bounds, linear: Floats, P: Floats) -> None:
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
