"""Polytopes: linear inequalities, equalities and bounds."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from optensemble._core.arrays import Floats
from optensemble.feasible._base import FeasibleSet, Unsolved, as_bounds, checks_actions, run_kernel
from optensemble.feasible._solvers.constraints import (
    Equilibrated,
    as_matrix,
    as_rows,
    equilibrate,
    find_dimension,
    rows_spec,
    scaled,
)
from optensemble.feasible._solvers.dual_simplex import simplex_kernel
from optensemble.feasible._solvers.enumeration import enumerate_vertices, snap
from optensemble.feasible._solvers.highs import SATISFIED, LinearModel, LinearProgram
from optensemble.feasible._solvers.scale import normalised
from optensemble.feasible._solvers.standard_form import standard_form
from optensemble.feasible._solvers.vertex_list import vertex_kernel

_MOST_DENSE = 1_000_000
"""Constraints with more entries than this are never made dense: their tableau would be too large in any case."""

_MOST_TABLEAU = 150_000
"""With a larger tableau than this HiGHS is faster, because it leaves out zeros."""


@final
class Polytope(FeasibleSet):
    """``A_ub a <= b_ub``, ``A_eq a = b_eq``, ``lower <= a <= upper``: a linear programme for each row.

    Where the vertices are few (at most 256, found among at most 50,000 candidates) they are listed once, in ascending
    lexicographic order, and every row takes the best of them: values within 1e-12 of the best, relative to the terms
    that add up to it, are tied, and the lowest vertex wins.

    Otherwise each row is solved by a compiled dual simplex method, always from the same basis. Its reduced costs are
    tied if they are within 1e-12 of 0, beside coefficients scaled to 1; among tied actions the one of least
    ``sum_j exp(-2 j / d) a_j`` wins: small actions, and zeros in the first coordinates before zeros in the last. Rows
    that rounding keeps it from solving, and sets with more than 150,000 numbers in their tableau, are left to HiGHS,
    which starts from one basis too; tied rows then take a vertex that depends on the set and the row alone.

    Rows are scaled to a size near 1, and coordinates to ranges near 1 where they are far from it. Rows that all actions
    miss by 1e-9 at most are taken for rounding; if they miss them by more than 1e-7 the set is empty, and in between it
    is refused as badly scaled.

    HiGHS (highspy) is loaded only if bounds are infinite, if there is no compiled solver for the set, or if a row or
    the question whether there are actions at all is left to it.

    Parameters
    ----------
    A_ub, b_ub
        Inequalities: a matrix (a SciPy sparse one too) with a column for each coordinate, and its right-hand
        sides.
    A_eq, b_eq
        Equalities, likewise. Redundant rows are fine.
    lower, upper
        Numbers, or one for each coordinate. An infinite bound is replaced by the tightest one that the
        constraints imply; if they imply none the set is unbounded.
    dimension
        The number of coordinates, if neither constraints nor bounds tell.
    on_failure, fallback
        What to do with a row that cannot be solved: "raise" an error, or take the "fallback" action and warn.

    Examples
    --------
    >>> Polytope(A_ub=[[1, 1, 0], [0, 1, 1]], b_ub=[0.5, 0.6]).argmax([[1.0, 3.0, 1.0], [1.0, -1.0, 2.0]])
    array([[0. , 0.5, 0.1],
           [0.5, 0. , 0.6]])
    """

    def __init__(
        self,
        A_ub: Any = None,
        b_ub: npt.ArrayLike | None = None,
        A_eq: Any = None,
        b_eq: npt.ArrayLike | None = None,
        lower: npt.ArrayLike = 0.0,
        upper: npt.ArrayLike = 1.0,
        dimension: int | None = None,
        on_failure: str = "raise",
        fallback: npt.ArrayLike | None = None,
    ) -> None:
        given = as_matrix(A_ub, "A_ub"), as_matrix(A_eq, "A_eq")
        d = find_dimension(given[0], given[1], lower, upper, dimension)
        self._ub = as_rows(given[0], b_ub, "ub", d)
        self._eq = as_rows(given[1], b_eq, "eq", d)
        low, high = as_bounds(lower, upper, d)
        self._set_bounds(*self._tighten(low, high), d)
        self._scaled = equilibrate(self._ub, self._eq, self.lower, self.upper)
        self._vertices: Floats | None = None
        if d * (len(self._ub[1]) + len(self._eq[1])) <= _MOST_DENSE:
            self._compile()
        self._require_an_action()
        self._set_failure(on_failure, fallback)

    @property
    def vertices(self) -> Floats | None:
        """The vertices in ascending lexicographic order, or None where they are too many to list."""
        return None if self._vertices is None else self._vertices.copy()

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

    @cached_property
    def _program(self) -> LinearProgram:
        """HiGHS's model; to build it raises an error for an empty set."""
        return _linear_program(self._scaled)

    def _argmax(self, coefficients: Floats) -> Floats:
        z = self._scaled
        found, reasons = self._program.try_argmax(normalised(coefficients) * z.unit)
        actions = z.restore(np.clip(snap(found, z.lower, z.upper), z.lower, z.upper)) + 0.0
        if reasons:
            raise Unsolved(actions, reasons)
        return actions

    @checks_actions
    def violation(self, actions: Floats) -> Floats:
        """Return for each row its largest excess over a bound, or over a row scaled to a size near 1."""
        (A_ub, b_ub), (A_eq, b_eq) = scaled(*self._ub), scaled(*self._eq)
        excess = np.concatenate([actions @ A_ub.T - b_ub, np.abs(actions @ A_eq.T - b_eq)], axis=1)
        largest: Floats = np.maximum(self._outside_box(actions), excess.max(axis=1, initial=0.0))
        return largest

    def spec(self) -> dict[str, Any]:
        """Return the keyword arguments that make this set again."""
        return {
            **rows_spec(self._ub, self._eq),
            "lower": self.lower.copy(),
            "upper": self.upper.copy(),
            "dimension": self.dimension,
            **self._failure_spec(),
        }

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
        points = enumerate_vertices(*constraints)
        if points is not None:
            self._vertices = z.restore(points)
            self.kernel = vertex_kernel(self._vertices)
        elif (form := standard_form(*constraints)).matrix.size <= _MOST_TABLEAU:
            weights = np.exp(-2.0 * np.arange(self.dimension) / self.dimension)
            form = replace(form, bases=z.base + z.unit * form.bases, units=z.unit * form.units)
            self.kernel = simplex_kernel(form, self.lower, self.upper, weights)


def _linear_program(z: Equilibrated) -> LinearProgram:
    rows = sparse.csr_array(sparse.vstack([z.A_ub, z.A_eq]))
    row_lower = np.concatenate([np.full(len(z.b_ub), -np.inf), z.b_eq])
    return LinearProgram(LinearModel(rows, row_lower, np.concatenate([z.b_ub, z.b_eq]), z.lower, z.upper))
