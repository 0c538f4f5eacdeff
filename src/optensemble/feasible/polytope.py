"""Polytopes: linear inequalities, equalities and bounds."""

from __future__ import annotations

from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from optensemble._core.arrays import Floats
from optensemble._core.kernel import Kernel
from optensemble.feasible._base import checks_actions
from optensemble.feasible._batches import Unsolved, run_kernel, try_again
from optensemble.feasible._bounds import as_bounds
from optensemble.feasible._linear import LinearSet
from optensemble.feasible._solvers.constraints import Equilibrated, equilibrate, scaled
from optensemble.feasible._solvers.dual_simplex import (
    EMPTY,
    GAVE_UP,
    refine_vertices,
    simplex_kernel,
    simplex_kernel_by_row,
)
from optensemble.feasible._solvers.enumeration import enumerate_vertices, is_small, snap
from optensemble.feasible._solvers.highs import NO_ACTION, SATISFIED, LinearModel, LinearProgram
from optensemble.feasible._solvers.scale import normalised
from optensemble.feasible._solvers.standard_form import Rows, dense_rows, standard_form
from optensemble.feasible._solvers.vertex_list import vertex_kernel

_MOST_DENSE = 1_000_000
"""Constraints with more entries than this are never made dense: their tableau would be too large in any case."""

_MOST_TABLEAU = 150_000
"""With a larger tableau than this HiGHS is faster, because it leaves out zeros."""


@final
class Polytope(LinearSet):
    """``A_ub a <= b_ub``, ``A_eq a = b_eq``, ``lower <= a <= upper``: a linear programme for each row.

    Where at most 50,000 candidates for vertices are to be tried, the set is *small*: of tied actions the lowest in
    lexicographic order wins. If it is fixed and has at most 256 vertices, they are listed once, in that order, and
    every row takes the best of them: values within 1e-12 of the best, relative to the terms that add up to it, are
    tied.

    Otherwise each row is solved by a compiled dual simplex method, always from the same basis. Its reduced costs are
    tied if they are within 1e-12 of 0, beside coefficients scaled to 1; if the set is not small, the action of least
    ``sum_j exp(-2 j / d) a_j`` wins among those tied: small actions, and zeros in the first coordinates before zeros in
    the last. Rows that rounding keeps it from solving, and sets with more than 150,000 numbers in their tableau, are
    left to HiGHS, which starts from one basis too; tied rows then take a vertex that depends on the set and the row
    alone.

    If right-hand sides or bounds come from the row, each row's own tableau is laid out by the same code, and the row
    gets the bits of a fixed set with its numbers. A row whose constraints contradict each other has no action: that is
    an error which names the row, or it takes the ``fallback``.

    Rows are scaled to a size near 1, and coordinates to ranges near 1 where they are far from it. Rows that all actions
    miss by 1e-9 at most are taken for rounding; if they miss them by more than 1e-7 the set is empty, and in between it
    is refused as badly scaled.

    HiGHS (highspy) is loaded only if bounds are infinite, if there is no compiled solver for the set, or if a row or
    the question whether there are actions at all is left to it.

    Parameters
    ----------
    A_ub, b_ub
        Inequalities: a matrix (a SciPy sparse one too) with a column for each coordinate, and its right-hand
        sides, which may come from the row: ``Columns``, a callable of X, or a list of these and numbers.
    A_eq, b_eq
        Equalities, likewise. Redundant rows are fine.
    lower, upper
        Numbers, or one for each coordinate, or by row. An infinite bound is replaced by the tightest one that the
        constraints imply; if they imply none the set is unbounded. Bounds must be finite if anything comes from the
        row.
    dimension
        The number of coordinates, if neither constraints nor bounds tell.
    on_failure, fallback
        What to do with a row that cannot be solved: "raise" an error, or take the "fallback" action and warn.

    Examples
    --------
    >>> Polytope(A_ub=[[1, 1, 0], [0, 1, 1]], b_ub=[0.5, 0.6]).argmax([[1.0, 3.0, 1.0], [1.0, -1.0, 2.0]])
    array([[0. , 0.5, 0.1],
           [0.5, 0. , 0.6]])

    Two days of different room:

    >>> import pandas as pd
    >>> from optensemble import Columns
    >>> omega = Polytope(A_ub=[[1, 1, 0], [0, 1, 1]], b_ub=[Columns("room"), 0.6])
    >>> omega.for_rows(pd.DataFrame({"room": [0.5, 0.2]})).argmax([[1.0, 3.0, 1.0], [1.0, 3.0, 1.0]])
    array([[0. , 0.5, 0.1],
           [0. , 0.2, 0.4]])
    """

    convex = True

    def __init__(
        self,
        A_ub: Any = None,
        b_ub: Any = None,
        A_eq: Any = None,
        b_eq: Any = None,
        lower: Any = 0.0,
        upper: Any = 1.0,
        dimension: int | None = None,
        on_failure: str = "raise",
        fallback: npt.ArrayLike | None = None,
    ) -> None:
        by_row = self._set_constraints(A_ub, b_ub, A_eq, b_eq, lower, upper, dimension)
        self._vertices: Floats | None = None
        if by_row:
            if self._is_dense():
                self.kernel = simplex_kernel_by_row(*self._lay_out(), _MOST_TABLEAU)
        else:
            self._set_bounds(*self._tighten(*as_bounds(lower, upper, self.dimension)), self.dimension)
            self._scaled = equilibrate(self._ub, self._eq, self.lower, self.upper)
            if self._is_dense():
                self._compile()
            self._require_an_action()
        self._set_failure(on_failure, fallback)

    @property
    def vertices(self) -> Floats | None:
        """The vertices in ascending lexicographic order, or None where they are too many to list, or differ by row."""
        return None if self._vertices is None else self._vertices.copy()

    def _is_dense(self) -> bool:
        """Whether the constraints are few enough to be made dense."""
        return self.dimension * (len(self._ub[1]) + len(self._eq[1])) <= _MOST_DENSE

    def _lay_out(self) -> tuple[Rows, bool]:
        """Return the constraints as compiled code takes them, and whether they are few enough to list the vertices."""
        rows = dense_rows(self._ub[0].toarray(), self._eq[0].toarray())
        A_eq, _ = scaled(*self._eq)
        return rows, is_small(len(self._ub[1]), A_eq.toarray())

    def _require_an_action(self) -> None:
        """Raise an error for an empty set.

        An action of the kernel's that HiGHS would accept is proof enough. HiGHS is then left out until a row needs it:
        it takes time to build, and there are processes that cannot load it.
        """
        if self.kernel is not None:
            actions, status = run_kernel(self.kernel, np.zeros((1, self.dimension)))
            if status[0] == 0 and self._scaled.excess(actions)[0] <= SATISFIED:
                return
        self._program = _linear_program(self._scaled)

    @property
    def dear(self) -> bool:
        """Whether solves take long: they do unless vertices are listed."""
        return self._vertices is None

    @cached_property
    def _program(self) -> LinearProgram:
        """HiGHS's model; to build it raises an error for an empty set."""
        return _linear_program(self._scaled)

    def _argmax(self, coefficients: Floats) -> Floats:
        if self.row_count is not None:
            return self._solve_alone(coefficients)
        z = self._scaled
        found, reasons = self._program.try_argmax(normalised(coefficients) * z.unit)
        actions = z.restore(np.clip(snap(found, z.lower, z.upper), z.lower, z.upper)) + 0.0
        if reasons:
            raise Unsolved(actions, reasons)
        return actions

    def _by_kernel(self, kernel: Kernel, coefficients: Floats, hint: Floats | None) -> Floats:
        if self.row_count is None:
            return super()._by_kernel(kernel, coefficients, hint)
        actions, status = run_kernel(kernel, coefficients, hint, self._own())
        failed = np.flatnonzero(status == GAVE_UP)
        reasons = {int(row): NO_ACTION for row in np.flatnonzero(status == EMPTY)}
        actions[status != 0] = 0.0
        try:
            try_again(self.take(failed)._argmax, coefficients, actions, failed)
        except Unsolved as unsolved:
            reasons |= unsolved.reasons
        if reasons:
            raise Unsolved(actions, reasons)
        return actions

    def _pack(self) -> Floats:
        return np.concatenate([*self._right_sides(), *self._every_bound()], axis=1) + 0.0  # negative zero is zero

    @checks_actions
    def violation(self, actions: Floats) -> Floats:
        """Return for each row its largest excess over a bound, or over a row scaled to a size near 1."""
        excess = np.concatenate(self._excess(actions), axis=1)
        largest: Floats = np.maximum(self._outside_box(actions), excess.max(axis=1, initial=0.0))
        return largest

    def _project(self, actions: Floats) -> Floats:
        found, solved = self._nearest(actions, *self._every_bound())
        others = np.flatnonzero(~solved | ~(self.violation(found) <= self.tolerance))
        if others.size:
            nothing_whole = np.zeros(self.dimension, dtype=np.bool_)
            found[others] = self.take(others)._nearest_by_highs(actions[others], nothing_whole)
        return found

    def _tighten(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        if np.isfinite(lower).all() and np.isfinite(upper).all():
            return lower, upper
        z = equilibrate(self._ub, self._eq, lower.copy(), upper.copy())
        program = _linear_program(z)
        for bound, sign in ((lower, -1.0), (upper, 1.0)):
            for j in np.flatnonzero(np.isinf(bound)):
                found = z.base[j] + z.unit[j] * program.extent(int(j), sign)
                # Rounded, because this becomes the edge of a bucket and 0.9999999999999998 means 1.
                bound[j] = float(f"{found:.13g}")
        return lower, np.maximum(lower, upper)

    def _compile(self) -> None:
        """List the vertices, or lay out the tableau, if they are small enough."""
        z = self._scaled
        constraints = z.A_ub.toarray(), z.b_ub, z.A_eq.toarray(), z.b_eq, z.lower, z.upper
        rows, small = self._lay_out()
        form = standard_form(rows, np.concatenate([self._ub[1], self._eq[1]]), self.lower, self.upper)
        points = enumerate_vertices(*constraints) if small else None
        if points is not None:
            self._vertices = refine_vertices(form, self.lower, self.upper, z.restore(points))
            self.kernel = vertex_kernel(self._vertices)
        elif form.matrix.size <= _MOST_TABLEAU:
            self.kernel = simplex_kernel(form, self.lower, self.upper, small)


def _linear_program(z: Equilibrated) -> LinearProgram:
    rows = sparse.csr_array(sparse.vstack([z.A_ub, z.A_eq]))
    row_lower = np.concatenate([np.full(len(z.b_ub), -np.inf), z.b_eq])
    return LinearProgram(LinearModel(rows, row_lower, np.concatenate([z.b_ub, z.b_eq]), z.lower, z.upper))
