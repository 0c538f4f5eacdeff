"""The cheapest way to complete an action: a linear programme in the other coordinates, with the action as its sides."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from optensemble._core.arrays import Floats, Indices
from optensemble.feasible._batches import Unsolved
from optensemble.feasible._solvers.affine import Affine, VaryingMatrix
from optensemble.feasible._solvers.cvxpy_program import Program
from optensemble.feasible._solvers.lifted_form import Lifted
from optensemble.feasible._solvers.lifted_rows import LiftedRows
from optensemble.feasible._solvers.lifting import lift


class Completion:
    """The least cost of actions, by a polytope of the other coordinates whose right-hand sides come from the action."""

    def __init__(self, lifted: Lifted, rows: LiftedRows) -> None:
        self.lifted, self.rows = lifted, rows
        self.linear, self.other = Affine.of(lifted.linear[: lifted.dimension]), Affine.of(rows.lifted.linear)

    @classmethod
    def of(cls, lifted: Lifted) -> Completion | None:
        """Return the programme, or None if coordinates are whole or cannot be bounded."""
        if lifted.whole.any() or not lifted.others:
            return None
        rows = LiftedRows.of(lift(_of_others(lifted)))
        return None if rows is None or rows.inner.kernel is None else cls(lifted, rows)

    def __call__(self, actions: Floats, values: Floats) -> tuple[Floats, Indices]:
        """Return the least cost of each action but for the offset, and the rows for which it is not found."""
        sides = np.concatenate([values, actions], axis=1)
        cost, linear = self.rows.lifted.offsets(sides), self.other.at(sides)
        inner = self.rows.bound(sides)
        failed = inner.faulty.copy() if inner.row_count is not None else np.zeros(len(actions), dtype=np.bool_)
        sound = np.flatnonzero(~failed)
        try:
            y = inner.take(sound)._solve_batch(-linear[sound], None)
        except Unsolved as unsolved:
            y = unsolved.actions
            failed[sound[list(unsolved.reasons)]] = True
        for j in np.flatnonzero(self.rows.lifted.linear.any(axis=1)):
            cost[sound] += linear[sound, j] * y[:, j]
        units = self.linear.at(values)
        for j in np.flatnonzero(self.lifted.linear[: self.lifted.dimension].any(axis=1)):
            cost = cost + units[:, j] * actions[:, j]
        return cost, np.flatnonzero(failed)


def _of_others(lifted: Lifted) -> Program:
    """Return the programme of the other coordinates, with the action as further parameters of the row."""
    d, n, p = lifted.dimension, len(lifted.whole), lifted.b_ub.shape[1] - 1
    bounds = lifted.bounds
    rows, sides = [lifted.A_ub], [lifted.b_ub]
    for sign, found in ((-1.0, bounds.below), (1.0, bounds.above)):
        for j, terms in found:
            rows.append(sign * np.eye(1, n, j))
            sides.append(sign * terms[None])
    A_ub, b_ub = np.concatenate(rows), np.concatenate(sides)
    used = A_ub[:, d:].any(axis=1)
    A, b = np.concatenate([lifted.A_eq, A_ub[used]]), np.concatenate([lifted.b_eq, b_ub[used]])
    kept = np.asarray(A[:, d:].any(axis=1))
    equalities = int(kept[: len(lifted.A_eq)].sum())
    A, b = A[kept], np.concatenate([b[kept], -A[kept][:, :d]], axis=1)
    nothing = sparse.csr_array(((n - d) ** 2, 1))
    none = np.empty(0, dtype=np.int64)
    stacked = sparse.csr_array(A[:, d:].ravel(order="F")[:, None])
    cones = [("ZeroConeT", equalities), ("NonnegativeConeT", len(A) - equalities)]
    return Program(
        P=VaryingMatrix.of(nothing, (n - d, n - d), np.ones(1), none),
        q=Affine.of(np.concatenate([lifted.linear[d:], np.zeros((n - d, d))], axis=1)),
        offset=Affine.fixed(np.zeros(1), p + d),
        A=VaryingMatrix.of(stacked, (len(A), n - d), np.ones(1), none),
        b=Affine.of(b),
        cones=[cone for cone in cones if cone[1]],
        columns=slice(0, 0),
        lower=Affine.fixed(bounds.lower[d:], p + d),
        upper=Affine.fixed(bounds.upper[d:], p + d),
        whole=np.zeros(n - d, dtype=np.bool_),
        signs=np.concatenate([lifted.program.signs, np.zeros(d)]),
    )
