"""What sets of linear constraints share: right-hand sides and bounds that may come from the row."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble.exceptions import EmptySetError, SolverError, UnboundedSetError
from optensemble.feasible._base import FeasibleSet
from optensemble.feasible._batches import Unsolved
from optensemble.feasible._binding import (
    BINDS,
    MOST_NAMED,
    name_bounds,
    name_broken_bounds,
    name_broken_rows,
    name_constraint,
)
from optensemble.feasible._row_parameters import from_rows, row_parameters
from optensemble.feasible._solvers.constraints import Sparse, as_matrix, as_rows, find_dimension, rows_spec, scaled
from optensemble.feasible._solvers.nearest import nearest_points

_MOST_DENSE = 1_000_000
"""Constraints with more entries than this are not made dense to find nearest points."""


class LinearSet(FeasibleSet):
    """``A_ub a <= b_ub``, ``A_eq a = b_eq``, ``lower <= a <= upper``, and perhaps more; the matrices are fixed."""

    _ub: tuple[Sparse, Floats]
    _eq: tuple[Sparse, Floats]
    """Matrices with their right-hand sides, which are NaN where they come from the row."""

    def _set_constraints(
        self, A_ub: Any, b_ub: Any, A_eq: Any, b_eq: Any, lower: Any, upper: Any, dimension: int | None
    ) -> bool:
        """Validate and keep constraints and dimension; if some come from the row keep the bounds too, and return True.

        A bound that is infinite would have to follow from the constraints, for each row anew.
        """
        given = as_matrix(A_ub, "A_ub"), as_matrix(A_eq, "A_eq")
        d = self.dimension = find_dimension(given[0], given[1], lower, upper, dimension)
        self._ub, self._eq = as_rows(given[0], b_ub, "ub", d), as_rows(given[1], b_eq, "eq", d)
        self.parameters = row_parameters(b_ub=(b_ub, self._ub[1].shape), b_eq=(b_eq, self._eq[1].shape))
        if not (self.parameters or from_rows(lower) or from_rows(upper)):
            return False
        for name, bound in (("lower", lower), ("upper", upper)):
            if not from_rows(bound) and np.isinf(np.asarray(bound, dtype=np.float64)).any():
                raise UnboundedSetError(
                    f"{name} must be finite where right-hand sides or bounds come from the row: what the constraints "
                    f"imply for it would differ from row to row. Give a finite {name}= that holds in all rows."
                )
        self._set_row_bounds(lower, upper, d)
        return True

    def _right_sides(self) -> tuple[Floats, Floats]:
        """Return the right-hand sides of inequalities and equalities of every row, or in one row if all share them."""
        n = self.row_count or 1
        ub, eq = (
            self._of_rows(f"b_{name}") if self._varies_in(f"b_{name}") else np.broadcast_to(right, (n, len(right)))
            for name, (_, right) in (("ub", self._ub), ("eq", self._eq))
        )
        return ub, eq

    def _every_bound(self) -> tuple[Floats, Floats]:
        """Return the bounds of every row, or in one row if all share them."""
        lower, upper = (np.broadcast_to(side, (self.row_count or 1, self.dimension)) for side in self._row_box())
        return lower, upper

    def _excess(self, actions: Floats) -> tuple[Floats, Floats]:
        """Return by how much actions exceed the right-hand sides of inequalities, and miss those of equalities.

        Rows are scaled to a size near 1.
        """
        right_ub, right_eq = self._right_sides()
        (A_ub, ub), (A_eq, eq) = (scaled(matrix, np.ones(matrix.shape[0])) for matrix, _ in (self._ub, self._eq))
        return actions @ A_ub.T - right_ub * ub, np.abs(actions @ A_eq.T - right_eq * eq)

    def _solve_alone(self, coefficients: Floats) -> Floats:
        """Solve rows by the set that each of them makes alone: slow, and right whatever is the matter with them."""
        actions, reasons = np.zeros_like(coefficients), dict[int, str]()
        arguments = self.spec()
        for row in range(len(coefficients)):
            own = {each.name: self._of_rows(each.name)[row] for each in self.parameters}
            try:
                alone = type(self)(**arguments | own | {"on_failure": "raise", "fallback": None})
                actions[row] = alone._solve_batch(coefficients[row : row + 1], None)[0]
            except Unsolved as unsolved:
                reasons[row] = unsolved.reasons[0]
            except (EmptySetError, SolverError) as error:
                reasons[row] = str(error)
        if reasons:
            raise Unsolved(actions, reasons)
        return actions

    def _nearest(self, actions: Floats, lower: Floats, upper: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Return the nearest points within the constraints and these bounds, and which of them were found."""
        if self.dimension * (len(self._ub[1]) + len(self._eq[1])) > _MOST_DENSE:
            return actions.copy(), np.zeros(len(actions), dtype=np.bool_)
        right_ub, right_eq = self._right_sides()
        A = np.concatenate([self._eq[0].toarray(), self._ub[0].toarray()])[None]
        b = np.concatenate([right_eq, right_ub], axis=1)
        return nearest_points(actions, A, b, right_eq.shape[1], lower, upper)

    def _nearest_by_highs(self, actions: Floats, whole: npt.NDArray[np.bool_]) -> Floats:
        """Return points within the constraints that are nearest in their largest coordinate, one by one."""
        from optensemble.feasible._solvers.projection import Projection, Sides

        sides = Sides(*self._right_sides(), *self._every_bound())
        projection = Projection(self._ub[0], self._eq[0], self.dimension, whole)
        return np.clip(projection.nearest(actions, sides), *self._every_bound())

    def _broken(self, action: Floats, slack: float) -> list[str]:
        above, off = (excess[0] for excess in self._excess(action[None]))
        right_ub, right_eq = (right[0] for right in self._right_sides())
        found = name_broken_rows(self, "ub", self._ub[0] @ action, right_ub, above > slack)
        found += name_broken_rows(self, "eq", self._eq[0] @ action, right_eq, off > slack)
        return [*found, *name_broken_bounds(self, action, slack)]

    def binding(self, action: Floats) -> list[str]:
        """Return the constraints that bind at an action of the only row that the set is bound to, or of a fixed set."""
        rows = np.flatnonzero(np.abs(self._excess(action[None])[0][0]) <= BINDS)
        right = self._right_sides()[0][0]
        limits = [f"A_ub[{j}]: {name_constraint(self, 'b_ub', float(right[j]), int(j))}" for j in rows]
        own, shared = name_bounds(self, action)
        ordered = [*limits, *own] if self._varies_in("b_ub") or not own else [*own, *limits]
        return [*ordered, *shared][:MOST_NAMED]

    def spec(self) -> dict[str, Any]:
        """Return the keyword arguments that make this set again."""
        rows = rows_spec(self._ub, self._eq)
        return {
            **{name: self._argument(name, fixed) for name, fixed in rows.items()},
            **self._bounds_spec(),
            "dimension": self.dimension,
            **self._failure_spec(),
        }
