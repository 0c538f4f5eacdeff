"""Linear programmes that differ in their costs alone, by HiGHS, row by row.

highspy is imported when a set first needs it: a process that has loaded another HiGHS, as OR-Tools does, cannot load
it, and must be able to use all other sets.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from scipy import sparse

from optensemble._core.arrays import Floats
from optensemble.exceptions import EmptySetError, SolverError, UnboundedSetError
from optensemble.feasible._solvers.per_thread import PerThread
from optensemble.feasible._solvers.scale import normalised

SATISFIED = 1e-10
"""HiGHS's tolerance here: a row of a size near 1 that is missed by no more is satisfied (its default is 1e-7)."""

SMALLEST = 1e-12
"""HiGHS drops smaller coefficients; its default, 1e-9, would change a row by more than its tolerance."""

MARGIN = 1e-9
"""Where HiGHS finds no action, rows of a size near 1 are relaxed by this much: what keeps it out may be rounding."""

_CONTRADICTED = 1e-7
"""A set whose rows every action misses by more is empty: that is more than any of our tolerances allows."""

_POLL = 0.1
"""Seconds between two looks for an interrupt, on systems where waiting hides it."""

_SIMPLEX_OPTIONS = {
    "output_flag": False,
    "presolve": "off",
    "solver": "simplex",
    "parallel": "off",
    "primal_feasibility_tolerance": SATISFIED,
    "dual_feasibility_tolerance": SATISFIED,
    "small_matrix_value": SMALLEST,
}
"""One method on one thread, without presolve, which would forget the basis that every row starts from."""

NO_ACTION = (
    "no action satisfies all constraints together with the bounds. Check the signs of A_ub and b_ub, and that upper= "
    "(1 unless given) leaves enough room."
)

_INSTALL = "Install it with: pip install highspy."
_TWO_VERSIONS = (
    "Another library of this process may have loaded a HiGHS of its own, as OR-Tools does, which PyEPO imports where "
    "it is installed; two versions of HiGHS cannot be loaded in one process. Make and solve this set in a process that "
    "does not import the other library."
)


def load_highspy() -> Any:
    """Import highspy for a set that needs it; raise ``SolverError`` where this process cannot load it."""
    try:
        import highspy
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == "highspy"
        raise SolverError(
            f"this set needs HiGHS, and highspy cannot be loaded: {str(error).rstrip('.')}. "
            f"{_INSTALL if missing else _TWO_VERSIONS}"
        ) from error
    return highspy


class LinearModel(NamedTuple):
    """``row_lower <= rows a <= row_upper`` (sparse rows) and ``lower <= a <= upper``."""

    rows: Any
    row_lower: Floats
    row_upper: Floats
    lower: Floats
    upper: Floats

    def relaxed(self, margin: float) -> LinearModel:
        """Return the model with rows that may be missed by a margin."""
        return self._replace(row_lower=self.row_lower - margin, row_upper=self.row_upper + margin)

    def with_excess(self) -> LinearModel:
        """Add a last coordinate by which all rows may be missed: that makes any set feasible."""
        above, below = np.flatnonzero(np.isfinite(self.row_upper)), np.flatnonzero(np.isfinite(self.row_lower))
        sides = sparse.csr_array(sparse.vstack([self.rows[above], self.rows[below]]))
        excess = sparse.csr_array(np.repeat([-1.0, 1.0], [len(above), len(below)])[:, None])
        return LinearModel(
            sparse.csr_array(sparse.hstack([sides, excess])),
            np.concatenate([np.full(len(above), -np.inf), self.row_lower[below]]),
            np.concatenate([self.row_upper[above], np.full(len(below), np.inf)]),
            np.append(self.lower, 0.0),
            np.append(self.upper, np.inf),
        )


class LinearProgram(PerThread):
    """Maximise ``c·a`` over a linear model.

    Every row starts from one reference basis, with nothing else left of the row before: a warm start from the
    previous row would let the order of the batch choose among tied actions.
    """

    def __init__(self, model: LinearModel) -> None:
        self.model = model
        self._margin = 0.0
        super().__init__()
        self._basis = self._reference_basis()

    def try_argmax(self, coefficients: Floats) -> tuple[Floats, dict[int, str]]:
        """Return an action for each row, and for those that could not be solved the reason."""
        basis = _as_basis(*self._basis)
        actions, reasons = np.zeros_like(coefficients), {}
        for i, cost in enumerate(normalised(coefficients)):
            # Rows that rounding keeps from being solved are tried afresh, and then with a little more room.
            for margin, start in ((self._margin, basis), (self._margin, None), (MARGIN, None)):
                solver = self._solver(margin)
                status = _solve(solver, cost, start)
                if is_optimal(status):
                    break
            if is_optimal(status):
                actions[i] = solver.getSolution().col_value
            else:
                reasons[i] = _explain_status(status)
        return actions, reasons

    def extent(self, coordinate: int, sign: float) -> float:
        """Return the largest (sign 1) or smallest (sign -1) value of a coordinate."""
        solver = self._solver(self._margin)
        status = _solve(solver, sign * np.eye(1, len(self.model.lower), coordinate)[0])
        if status.name == "kUnbounded":
            side = "upper" if sign > 0 else "lower"
            raise UnboundedSetError(
                f"coordinate {coordinate} has no {side} bound: the constraints let it grow forever. Give a "
                f"finite {side}= or a constraint that limits it."
            )
        _require_optimal(status, f"the {'largest' if sign > 0 else 'smallest'} value of coordinate {coordinate}")
        return float(solver.getSolution().col_value[coordinate])

    def _reference_basis(self) -> tuple[list[int], list[int]]:
        """Find the basis of a first action; where there is none but for rounding, relax the rows for good."""
        status = _run_highs(self._solver(self._margin))
        if not is_optimal(status):
            require_feasible(least_excess(build(self.model.with_excess(), _SIMPLEX_OPTIONS)), NO_ACTION)
            self._margin = MARGIN
            status = _run_highs(self._solver(self._margin))
        _require_optimal(status, "a first feasible action")
        basis = self._solver(self._margin).getBasis()
        return [int(status) for status in basis.col_status], [int(status) for status in basis.row_status]

    def _solver(self, margin: float) -> Any:
        """Return this thread's solver with rows that are relaxed by a margin."""
        solvers = self._local.__dict__.setdefault("solvers", {})
        if margin not in solvers:
            solvers[margin] = build(self.model.relaxed(margin), _SIMPLEX_OPTIONS)
            if margin == self._margin:
                # The first run settles the scaling, and the last bits with it: it must have the same costs everywhere.
                _run_highs(solvers[margin])
        return solvers[margin]


def require_feasible(excess: float, no_action: str) -> None:
    """Raise an error for a set in which HiGHS finds no action, unless its rows are missed by what may be rounding."""
    if excess > _CONTRADICTED:
        raise EmptySetError(no_action)
    if not excess <= MARGIN:
        found = "HiGHS cannot tell" if np.isnan(excess) else f"the best action still misses one by {excess:.1e}"
        raise SolverError(
            "it is in doubt whether any action satisfies all constraints: they are badly scaled, or contradict each "
            f"other by little more than rounding. With rows scaled to a size near 1, {found}. Choose units in which "
            "the coefficients of a row, times the ranges of their coordinates, are of similar size; or relax "
            "constraints that nearly contradict each other."
        )


def least_excess(solver: Any) -> float:
    """Return the least possible value of the last coordinate, or NaN if that could not be found."""
    status = _solve(solver, -np.eye(1, solver.getNumCol(), solver.getNumCol() - 1)[0])
    return float(solver.getSolution().col_value[-1]) if is_optimal(status) else np.nan


def build(model: LinearModel, options: dict[str, Any]) -> Any:
    """Return a solver for a model, without costs yet."""
    highspy = load_highspy()
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = model.rows.shape
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.col_cost_ = np.zeros(len(model.lower))
    lp.col_lower_, lp.col_upper_ = model.lower, model.upper
    lp.row_lower_, lp.row_upper_ = model.row_lower, model.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = (
        model.rows.indptr,
        model.rows.indices,
        model.rows.data,
    )
    solver = highspy.Highs()
    for name, value in options.items():
        solver.setOptionValue(name, value)
    if solver.passModel(lp) == highspy.HighsStatus.kError:
        raise SolverError(
            "HiGHS does not take these constraints: it takes numbers of 1e20 or more for infinity, and coefficients of "
            "1e15 or more, beside others in their row, for mistakes. Choose units in which numbers are smaller."
        )
    return solver


def set_cost(solver: Any, cost: Floats) -> None:
    """Give the solver new costs."""
    solver.changeColsCost(len(cost), np.arange(len(cost), dtype=np.int32), cost)


def set_integer(solver: Any, integer: npt.NDArray[np.bool_]) -> None:
    """Let some coordinates be whole numbers."""
    columns = np.flatnonzero(integer).astype(np.int32)
    if len(columns):
        kinds = np.full(len(columns), load_highspy().HighsVarType.kInteger)
        solver.changeColsIntegrality(len(columns), columns, kinds)


def is_optimal(status: Any) -> bool:
    """Return whether HiGHS ended with an optimum."""
    return bool(status.name == "kOptimal")


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
    """Have HiGHS end its work, with the status kInterrupt, soon after an event is set."""

    def look(kind: Any, message: str, output: Any, answer: Any, data: Any) -> None:
        if stop.is_set():
            answer.user_interrupt = True

    solver.setCallback(look, None)
    for kind in ("Simplex", "Ipm", "Mip"):
        solver.startCallback(getattr(load_highspy().cb.HighsCallbackType, f"kCallback{kind}Interrupt"))


def _solve(solver: Any, cost: Floats, basis: Any = None) -> Any:
    """Solve for one cost, from a basis if there is one, and return the status."""
    # Setting the basis alone keeps edge weights and factors of the row before, and they break ties.
    solver.clearSolver()
    set_cost(solver, cost)
    if basis is not None:
        solver.setBasis(basis)
    return _run_highs(solver)


def _run_highs(solver: Any) -> Any:
    solver.run()
    return solver.getModelStatus()


def _require_optimal(status: Any, what: str) -> None:
    if not is_optimal(status):
        raise SolverError(f"{what} could not be solved: {_explain_status(status)}")


def _explain_status(status: Any) -> str:
    return (
        f"HiGHS ended with status {status.name}. The likely cause is a set of constraints with nearly parallel rows, "
        "or a badly scaled one, with coefficients that differ by many orders of magnitude; rescale or simplify them."
    )


def _as_basis(columns: list[int], rows: list[int]) -> Any:
    highspy = load_highspy()
    basis = highspy.HighsBasis()
    basis.col_status = [highspy.HighsBasisStatus(status) for status in columns]
    basis.row_status = [highspy.HighsBasisStatus(status) for status in rows]
    basis.valid = True
    return basis
