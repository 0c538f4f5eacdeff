"""Linear programmes that differ in their costs alone, by HiGHS, row by row."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import highspy
import numba
import numpy as np

from optensemble._types import Floats
from optensemble.exceptions import EmptySetError, SolverError, UnboundedSetError
from optensemble.feasible._per_thread import PerThread

_OPTIONS = {
    "output_flag": False,
    "presolve": "off",
    "solver": "simplex",
    "parallel": "off",
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
}


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
        super().__init__()
        self._basis = self._reference_basis()

    def try_argmax(self, coefficients: Floats) -> tuple[Floats, dict[int, str]]:
        """Return an action for each row, and for those that could not be solved the reason."""
        solver = self._solver()
        basis = _as_basis(*self._basis)
        largest = np.abs(coefficients).max(axis=1, keepdims=True)
        costs = coefficients / np.where(largest > 0, largest, 1.0)
        actions, reasons = np.zeros_like(coefficients), {}
        for i, cost in enumerate(costs):
            # Setting the basis alone keeps edge weights and factors of the row before, and they break ties.
            solver.clearSolver()
            set_cost(solver, cost)
            solver.setBasis(basis)
            status = _run(solver)
            if status != highspy.HighsModelStatus.kOptimal:
                solver.clearSolver()
                status = _run(solver)
            if status == highspy.HighsModelStatus.kOptimal:
                actions[i] = solver.getSolution().col_value
            else:
                reasons[i] = _diagnosis(status)
        return actions, reasons

    def extent(self, coordinate: int, sign: float) -> float:
        """Return the largest (sign 1) or smallest (sign -1) value of a coordinate."""
        solver = self._solver()
        cost = np.zeros(len(self.lower))
        cost[coordinate] = sign
        solver.clearSolver()
        set_cost(solver, cost)
        status = _run(solver)
        if status == highspy.HighsModelStatus.kUnbounded:
            side = "upper" if sign > 0 else "lower"
            raise UnboundedSetError(
                f"coordinate {coordinate} has no {side} bound: the constraints let it grow forever. Give a "
                f"finite {side}= or a constraint that limits it."
            )
        _require_optimal(status, f"the {'largest' if sign > 0 else 'smallest'} value of coordinate {coordinate}")
        # Rounded, because this becomes the edge of a bucket and 0.9999999999999998 means 1.
        return float(f"{solver.getSolution().col_value[coordinate]:.13g}")

    def _reference_basis(self) -> tuple[list[int], list[int]]:
        solver = self._solver()
        status = _run(solver)
        if status == highspy.HighsModelStatus.kInfeasible:
            raise EmptySetError(
                "no action satisfies all constraints together with the bounds. Check the signs of A_ub and "
                "b_ub, and that upper= (1 unless given) leaves enough room."
            )
        _require_optimal(status, "a first feasible action")
        basis = solver.getBasis()
        return [int(status) for status in basis.col_status], [int(status) for status in basis.row_status]

    def _solver(self) -> Any:
        if not hasattr(self._local, "solver"):
            self._local.solver = build(self.rows, self.row_lower, self.row_upper, self.lower, self.upper, _OPTIONS)
        return self._local.solver


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
    solver.passModel(model)
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


def _run(solver: Any) -> Any:
    solver.run()
    return solver.getModelStatus()


def _require_optimal(status: Any, what: str) -> None:
    if status != highspy.HighsModelStatus.kOptimal:
        raise SolverError(f"{what} could not be solved: {_diagnosis(status)}")


def _diagnosis(status: Any) -> str:
    return (
        f"HiGHS ended with status {status.name}. The likely cause is a set of constraints with nearly parallel rows, "
        "or with coefficients that differ by many orders of magnitude; rescale or simplify them."
    )


def _as_basis(columns: list[int], rows: list[int]) -> Any:
    basis = highspy.HighsBasis()
    basis.col_status = [highspy.HighsBasisStatus(status) for status in columns]
    basis.row_status = [highspy.HighsBasisStatus(status) for status in rows]
    basis.valid = True
    return basis
