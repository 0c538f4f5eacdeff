"""Linear programmes that differ in their costs alone, by HiGHS, row by row."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import highspy
import numba
import numpy as np
from scipy import sparse

from optensemble._core.arrays import Floats
from optensemble.exceptions import EmptySetError, SolverError, UnboundedSetError
from optensemble.feasible._solvers.per_thread import PerThread

SMALLEST = 1e-12
"""HiGHS leaves out smaller coefficients, by default all below 1e-9: more than the tolerance of a row is."""

_OPTIONS = {
    "output_flag": False,
    "presolve": "off",
    "solver": "simplex",
    "parallel": "off",
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
    "small_matrix_value": SMALLEST,
}

ROUNDING = 1e-9
"""What a row of a size near 1 may be missed by, where HiGHS finds no action: it may be rounding."""

_CONTRADICTED = 1e-7
"""If every action misses a row by more than we ever allow, there is none."""

_NO_ACTION = (
    "no action satisfies all constraints together with the bounds. Check the signs of A_ub and b_ub, and that upper= "
    "(1 unless given) leaves enough room."
)

Model = tuple[Any, Floats, Floats, Floats, Floats]
"""Sparse rows with their lower and upper sides, and the bounds of the columns."""

_POLL = 0.1
"""Seconds between two looks for an interrupt, on systems where waiting hides it."""


class LinearProgram(PerThread):
    """Maximise ``c·a`` with ``row_lower <= rows a <= row_upper`` (sparse rows), ``lower <= a <= upper``.

    Every row starts from one reference basis, with nothing else left of the row before: a warm start from the
    previous row would let the order of the batch choose among tied actions.
    """

    def __init__(self, rows: Any, row_lower: Floats, row_upper: Floats, lower: Floats, upper: Floats) -> None:
        self.rows, self.row_lower, self.row_upper = rows, row_lower, row_upper
        self.lower, self.upper = lower, upper
        self._margin = 0.0
        super().__init__()
        self._basis = self._reference_basis()

    def try_argmax(self, coefficients: Floats) -> tuple[Floats, dict[int, str]]:
        """Return an action for each row, and for those that could not be solved the reason."""
        basis = _as_basis(*self._basis)
        actions, reasons = np.zeros_like(coefficients), {}
        for i, cost in enumerate(normalised(coefficients)):
            # Rows that rounding keeps from being solved are tried afresh, and then with a little more room.
            for margin, start in ((self._margin, basis), (self._margin, None), (ROUNDING, None)):
                solver = self._solver(margin)
                status = _solve(solver, cost, start)
                if status == highspy.HighsModelStatus.kOptimal:
                    break
            if status == highspy.HighsModelStatus.kOptimal:
                actions[i] = solver.getSolution().col_value
            else:
                reasons[i] = _diagnosis(status)
        return actions, reasons

    def extent(self, coordinate: int, sign: float) -> float:
        """Return the largest (sign 1) or smallest (sign -1) value of a coordinate."""
        solver = self._solver(self._margin)
        status = _solve(solver, sign * np.eye(1, len(self.lower), coordinate)[0])
        if status == highspy.HighsModelStatus.kUnbounded:
            side = "upper" if sign > 0 else "lower"
            raise UnboundedSetError(
                f"coordinate {coordinate} has no {side} bound: the constraints let it grow forever. Give a "
                f"finite {side}= or a constraint that limits it."
            )
        _require_optimal(status, f"the {'largest' if sign > 0 else 'smallest'} value of coordinate {coordinate}")
        return float(solver.getSolution().col_value[coordinate])

    def _reference_basis(self) -> tuple[list[int], list[int]]:
        status = _run(self._solver(self._margin))
        if status != highspy.HighsModelStatus.kOptimal:
            require_feasible(self._excess(), _NO_ACTION)
            self._margin = ROUNDING
            status = _run(self._solver(self._margin))
        _require_optimal(status, "a first feasible action")
        basis = self._solver(self._margin).getBasis()
        return [int(status) for status in basis.col_status], [int(status) for status in basis.row_status]

    def _excess(self) -> float:
        rows = with_excess(self.rows, self.row_lower, self.row_upper, self.lower, self.upper)
        return least_excess(build(*rows, _OPTIONS))

    def _solver(self, margin: float) -> Any:
        """Return this thread's solver with rows that are relaxed by a margin."""
        solvers = self._local.__dict__.setdefault("solvers", {})
        if margin not in solvers:
            low, high = self.row_lower - margin, self.row_upper + margin
            solvers[margin] = build(self.rows, low, high, self.lower, self.upper, _OPTIONS)
        return solvers[margin]


def normalised(coefficients: Floats) -> Floats:
    """Divide rows by their largest magnitude."""
    largest = np.abs(coefficients).max(axis=1, keepdims=True)
    costs: Floats = coefficients / np.where(largest > 0, largest, 1.0)
    return costs


def require_feasible(excess: float, no_action: str) -> None:
    """Refuse a set that HiGHS finds no action in, unless an action misses its rows by what may be rounding."""
    if excess > _CONTRADICTED:
        raise EmptySetError(no_action)
    if not excess <= ROUNDING:
        found = "HiGHS cannot tell" if np.isnan(excess) else f"the best action still misses one by {excess:.1e}"
        raise SolverError(
            "it is in doubt whether any action satisfies all constraints: they are badly scaled, or contradict each "
            f"other by little more than rounding. With rows scaled to a size near 1, {found}. Choose units in which "
            "the coefficients of a row, times the ranges of their coordinates, are of similar size; or relax "
            "constraints that nearly contradict each other."
        )


def with_excess(rows: Any, row_lower: Floats, row_upper: Floats, lower: Floats, upper: Floats) -> Model:
    """Add a last coordinate by which all rows may be missed: that makes any set feasible."""
    above, below = np.flatnonzero(np.isfinite(row_upper)), np.flatnonzero(np.isfinite(row_lower))
    sides = sparse.csr_array(sparse.vstack([rows[above], rows[below]]))
    excess = sparse.csr_array(np.repeat([-1.0, 1.0], [len(above), len(below)])[:, None])
    low = np.concatenate([np.full(len(above), -np.inf), row_lower[below]])
    high = np.concatenate([row_upper[above], np.full(len(below), np.inf)])
    return sparse.csr_array(sparse.hstack([sides, excess])), low, high, np.append(lower, 0.0), np.append(upper, np.inf)


def least_excess(solver: Any) -> float:
    """Return the least possible value of the last coordinate, or NaN if that could not be found."""
    status = _solve(solver, -np.eye(1, solver.getNumCol(), solver.getNumCol() - 1)[0])
    return float(solver.getSolution().col_value[-1]) if status == highspy.HighsModelStatus.kOptimal else np.nan


def build(
    rows: Any, row_lower: Floats, row_upper: Floats, lower: Floats, upper: Floats, options: dict[str, Any]
) -> Any:
    """Return a solver for ``row_lower <= rows a <= row_upper``, ``lower <= a <= upper``, without costs yet."""
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = rows.shape
    model.sense_ = highspy.ObjSense.kMaximize
    model.col_cost_ = np.zeros(len(lower))
    model.col_lower_, model.col_upper_ = lower, upper
    model.row_lower_, model.row_upper_ = row_lower, row_upper
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_, model.a_matrix_.index_, model.a_matrix_.value_ = rows.indptr, rows.indices, rows.data
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    for name, value in options.items():
        solver.setOptionValue(name, value)
    if solver.passModel(model) == highspy.HighsStatus.kError:
        raise SolverError(
            "HiGHS does not take these constraints: it takes numbers of 1e20 or more for infinity, and coefficients of "
            "1e15 or more, beside others in their row, for mistakes. Choose units in which numbers are smaller."
        )
    return solver


def set_cost(solver: Any, cost: Floats) -> None:
    """Give the solver new costs."""
    solver.changeColsCost(len(cost), np.arange(len(cost), dtype=np.int32), cost)


def in_background(work: Callable[[int], None], pieces: Sequence[int], stop: threading.Event) -> None:
    """Do pieces of work on threads of their own, and have them stopped when the caller is interrupted.

    Python hears Ctrl-C on the main thread only, and not while that runs a solver. A fresh thread also lets HiGHS run
    on one thread, whatever the user's own HiGHS was told before.
    """
    with ThreadPoolExecutor(max(1, min(numba.get_num_threads(), len(pieces)))) as pool:
        futures = [pool.submit(work, piece) for piece in pieces]
        try:
            for future in futures:
                while wait([future], timeout=_POLL).not_done:
                    pass
                future.result()
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def stop_by(solver: Any, stop: threading.Event) -> None:
    """Have HiGHS end whatever it does, with the status kInterrupt, soon after an event is set."""

    def look(kind: Any, message: str, output: Any, answer: Any, data: Any) -> None:
        if stop.is_set():
            answer.user_interrupt = True

    solver.setCallback(look, None)
    for kind in ("Simplex", "Ipm", "Mip"):
        solver.startCallback(getattr(highspy.cb.HighsCallbackType, f"kCallback{kind}Interrupt"))


def _solve(solver: Any, cost: Floats, basis: Any = None) -> Any:
    """Solve for one cost, from a basis if there is one, and return the status."""
    # Setting the basis alone keeps edge weights and factors of the row before, and they break ties.
    solver.clearSolver()
    set_cost(solver, cost)
    if basis is not None:
        solver.setBasis(basis)
    return _run(solver)


def _run(solver: Any) -> Any:
    solver.run()
    return solver.getModelStatus()


def _require_optimal(status: Any, what: str) -> None:
    if status != highspy.HighsModelStatus.kOptimal:
        raise SolverError(f"{what} could not be solved: {_diagnosis(status)}")


def _diagnosis(status: Any) -> str:
    return (
        f"HiGHS ended with status {status.name}. The likely cause is a set of constraints with nearly parallel rows, "
        "or a badly scaled one, with coefficients that differ by many orders of magnitude; rescale or simplify them."
    )


def _as_basis(columns: list[int], rows: list[int]) -> Any:
    basis = highspy.HighsBasis()
    basis.col_status = [highspy.HighsBasisStatus(status) for status in columns]
    basis.row_status = [highspy.HighsBasisStatus(status) for status in rows]
    basis.valid = True
    return basis
