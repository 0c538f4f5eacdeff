"""Assignments: one column for each row, and none twice."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.validation import require_number
from optensemble.feasible._base import FeasibleSet, checks_actions
from optensemble.feasible._solvers.assignment import assignment_kernel


@final
class Assignment(FeasibleSet):
    """Every row of a matrix gets one column, and no column is given twice; 1 where it is given, and 0 elsewhere.

    Coefficients and actions are matrices laid out row by row: row ``i`` and column ``j`` meet at ``i * columns + j``.
    Where there are more rows than columns, every column gets one row, and no row is given twice.

    Solved by shortest augmenting paths (Jonker and Volgenant) in integers: coefficients are rounded to 2**-50 of the
    largest magnitude among them, and from 256 rows on less finely. Coefficients so far below the others that no best
    assignment holds them, such as -1e12 for a forbidden pair among values near 1, do not count in this.

    Assignments of the same value are tied, also where rounding or noise sets them apart: prices that prove one of them
    the best leave every row of the others within 1e-12 of the largest magnitude. Row 0 takes the lowest column that it
    has in any of them, then row 1 among those left, and so on; where columns are fewer, column 0 takes the lowest row.

    Parameters
    ----------
    rows
        The number of rows: workers, say.
    columns
        The number of columns: jobs, say. As many as rows unless given.

    Examples
    --------
    >>> Assignment(2, 3).argmax([[5.0, 4.0, 1.0, 4.0, 1.0, 1.0]]).reshape(2, 3)
    array([[0., 1., 0.],
           [1., 0., 0.]])
    """

    def __init__(self, rows: int, columns: int | None = None) -> None:
        for name, value in (("rows", rows), ("columns", rows if columns is None else columns)):
            require_number(value, name, at_least=1, whole=True)
        self.rows, self.columns = int(rows), int(rows if columns is None else columns)
        self._set_bounds(0.0, 1.0, self.rows * self.columns)
        self.kernel = assignment_kernel(self.rows, self.columns)

    @checks_actions
    def violation(self, actions: Floats) -> Floats:
        """Return for each row the largest distance to whole numbers in [0, 1] and to the right sums."""
        matrices = actions.reshape(-1, self.rows, self.columns)
        by_row, by_column = matrices.sum(axis=2) - 1.0, matrices.sum(axis=1) - 1.0
        if self.rows <= self.columns:
            by_row = np.abs(by_row)
        if self.rows >= self.columns:
            by_column = np.abs(by_column)
        fractions = np.abs(actions - np.rint(actions))
        largest: Floats = np.concatenate([fractions, by_row, by_column], axis=1).max(axis=1)
        return np.maximum(largest, self._outside_box(actions))

    def spec(self) -> dict[str, Any]:
        """Return the keyword arguments that make this set again."""
        return {"rows": self.rows, "columns": self.columns}
