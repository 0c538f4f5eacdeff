"""Assignments: one column for each row, and none twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble._core.validation import require_number
from optensemble.exceptions import EmptySetError
from optensemble.feasible._base import FeasibleSet, checks_actions
from optensemble.feasible._batches import run_kernel
from optensemble.feasible._binding import name_broken_bounds, name_fractions, name_wrong_sum
from optensemble.feasible._bound_rows import Fault
from optensemble.feasible._flags import as_flags, flag_faults
from optensemble.feasible._nearest_whole import nearest_of_zeros_and_ones
from optensemble.feasible._row_parameters import from_rows, row_parameters
from optensemble.feasible._solvers.assignment import assignment_kernel


@final
class Assignment(FeasibleSet):
    """Every row of a matrix gets one column, and no column is given twice; 1 where it is given, and 0 elsewhere.

    Coefficients and actions are matrices laid out row by row: row ``i`` and column ``j`` meet at ``i * columns + j``.
    Where there are more rows than columns, every column gets one row, and no row is given twice.

    Solved by shortest augmenting paths (Jonker and Volgenant) in integers: coefficients are rounded to 2**-50 of the
    largest magnitude among them, and from 256 rows on less finely (where pairs are forbidden, from 32 rows on).
    Forbidden pairs do not count in this, nor do coefficients so far below the others that no best assignment holds
    them, such as -1e12 for a pair that is to be avoided among values near 1.

    Assignments of the same value are tied, also where rounding or noise sets them apart: prices that prove one of them
    the best leave every row of the others within 1e-12 of the largest magnitude. Row 0 takes the lowest column that it
    has in any of them, then row 1 among those left, and so on; where columns are fewer, column 0 takes the lowest row.

    Parameters
    ----------
    rows
        The number of rows: workers, say.
    columns
        The number of columns: jobs, say. As many as rows unless given.
    forbidden
        Pairs that may not be assigned: a 1 for each of them and a 0 for the others, laid out like actions, or a matrix
        of booleans. By row of X as ``Columns`` or a callable of X. A row of X that leaves no assignment cannot be
        solved.
    on_failure, fallback
        What to do with a row that cannot be solved: "raise" an error, or take the "fallback" action and warn.

    Attributes
    ----------
    rows, columns
        As given.
    forbidden
        Zeros and ones, laid out like actions; None if no pair is forbidden, or if they come from the row.

    Examples
    --------
    >>> Assignment(2, 3).argmax([[5.0, 4.0, 1.0, 4.0, 1.0, 1.0]]).reshape(2, 3)
    array([[0., 1., 0.],
           [1., 0., 0.]])

    Today the first of two workers may not have the first of two jobs, tomorrow either may have any:

    >>> import pandas as pd
    >>> from optensemble import Columns
    >>> days = pd.DataFrame({"off_0": [1, 0], "off_1": [0, 0], "off_2": [0, 0], "off_3": [0, 0]})
    >>> shifts = Assignment(2, 2, forbidden=Columns("off_*")).for_rows(days)
    >>> shifts.argmax([[5.0, 1.0, 1.0, 5.0], [5.0, 1.0, 1.0, 5.0]])
    array([[0., 1., 1., 0.],
           [1., 0., 0., 1.]])
    """

    def __init__(
        self,
        rows: int,
        columns: int | None = None,
        *,
        forbidden: Any = None,
        on_failure: str = "raise",
        fallback: npt.ArrayLike | None = None,
    ) -> None:
        for name, value in (("rows", rows), ("columns", rows if columns is None else columns)):
            require_number(value, name, at_least=1, whole=True)
        self.rows, self.columns = int(rows), int(rows if columns is None else columns)
        pairs = self.rows * self.columns
        self._set_bounds(0.0, 1.0, pairs)
        self.parameters = row_parameters(forbidden=(forbidden, (pairs,)))
        self.forbidden: Floats | None = None
        if forbidden is not None and not from_rows(forbidden):
            self.forbidden = as_flags(forbidden, "forbidden", pairs, "pairs of a row and a column")
        self.kernel = assignment_kernel(self.rows, self.columns, self.forbidden)
        if self.forbidden is not None and run_kernel(self.kernel, np.zeros((1, pairs)))[1].any():
            raise EmptySetError(f"{self._diagnosis(1)} {_told(self.forbidden.reshape(self.rows, self.columns))}")
        self._set_failure(on_failure, fallback)

    def _faults(self) -> Iterator[Fault]:
        yield from super()._faults()
        yield from flag_faults(self._of_rows("forbidden"), "forbidden", "may not be assigned", "may be")

    def _diagnosis(self, status: int) -> str:
        return "no assignment is left by the pairs that are forbidden. Forbid fewer pairs."

    def _row_told(self, row: int) -> str:
        return _told(self._of_rows("forbidden")[row].reshape(self.rows, self.columns))

    def _forbidden(self) -> Floats | None:
        """Return which pairs are forbidden, in all rows or, of shape (rows, pairs), in each; None if none is."""
        return self._of_rows("forbidden") if self.varies and self.row_count is not None else self.forbidden

    def _project(self, actions: Floats) -> Floats:
        return nearest_of_zeros_and_ones(self, actions)

    def _broken(self, action: Floats, slack: float) -> list[str]:
        matrix, found = action.reshape(self.rows, self.columns), list[str]()
        if (forbidden := self._forbidden()) is not None:
            pairs = np.argwhere(np.abs(matrix) * forbidden.reshape(-1, self.rows, self.columns)[0] > slack).tolist()
            found += [f"row {i} may not have column {j}, and has {matrix[i, j]:.6g} of it" for i, j in pairs]
        for name, axis, exact in (("row", 1, self.rows <= self.columns), ("column", 0, self.rows >= self.columns)):
            excess = matrix.sum(axis=axis) - 1.0
            for k in np.flatnonzero((np.abs(excess) if exact else excess) > slack).tolist():
                found.append(name_wrong_sum(1.0 + excess[k], 1.0, f"{name} {k} sums to", at_most=not exact))
        return [*found, *(name_broken_bounds(self, action, slack) or name_fractions(action, slack, "0 or 1"))]

    def binding(self, action: Floats) -> list[str]:
        """Return the forbidden pairs, of the only row that the set is bound to, or of a fixed set."""
        forbidden = self._forbidden()
        if forbidden is None:
            return []
        pairs = np.argwhere(forbidden.reshape(-1, self.rows, self.columns)[0] > 0)
        return [f"row {i} may not have column {j}" for i, j in pairs.tolist()]

    @checks_actions
    def violation(self, actions: Floats) -> Floats:
        """Return for each row the largest distance to 0 or 1, to 0 if forbidden, and to the right sums."""
        matrices = actions.reshape(-1, self.rows, self.columns)
        by_row, by_column = matrices.sum(axis=2) - 1.0, matrices.sum(axis=1) - 1.0
        if self.rows <= self.columns:
            by_row = np.abs(by_row)
        if self.rows >= self.columns:
            by_column = np.abs(by_column)
        fractions = np.abs(actions - np.rint(actions))
        largest: Floats = np.concatenate([fractions, by_row, by_column], axis=1).max(axis=1)
        if (forbidden := self._forbidden()) is not None:
            largest = np.maximum(largest, (np.abs(actions) * forbidden).max(axis=1))
        return np.maximum(largest, self._outside_box(actions))

    def spec(self) -> dict[str, Any]:
        """Return the keyword arguments that make this set again."""
        size: dict[str, Any] = {"rows": self.rows, "columns": self.columns}
        forbidden = self._argument("forbidden", None if self.forbidden is None else self.forbidden.copy())
        if forbidden is not None:
            size["forbidden"] = forbidden
        return size if forbidden is None and self.on_failure == "raise" else {**size, **self._failure_spec()}


def _told(forbidden: Floats) -> str:
    """Return in words how much of a matrix is forbidden, and the rows or columns that have no pair left."""
    told = f"{int(forbidden.sum())} of {forbidden.size} pairs are forbidden"
    rows, columns = forbidden.shape
    for name, axis, must in (("row", 1, rows <= columns), ("column", 0, columns <= rows)):
        blocked = np.flatnonzero(forbidden.all(axis=axis))
        if must and blocked.size:
            return f"{told}, all of {name} {blocked[0]} among them."
    return f"{told}."
