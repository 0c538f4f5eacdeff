"""The alternatives that the feasible sets are measured against, each in the fastest way it offers."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import clarabel
import highspy
import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from optensemble.feasible import FeasibleSet, Knapsack

Floats = npt.NDArray[np.float64]
Argmax = Callable[[Floats], Floats]


def highs_warm(d: int, **constraints: Any) -> Argmax:
    """Return HiGHS on one linear programme over the unit box, each row starting from the last one's basis."""
    return _highs(d, integer=False, **constraints)


def highs_changed(A_ub: Floats, b_ub: Floats) -> Argmax:
    """Return HiGHS on one linear programme over the unit box whose right-hand sides change with the row, warm."""
    return _highs(A_ub.shape[1], integer=False, A_ub=A_ub, b_ub=b_ub[0], changing=b_ub)


def highs_mip(d: int, **constraints: Any) -> Argmax:
    """Return HiGHS on one 0/1 programme, to a gap of zero."""
    return _highs(d, integer=True, **constraints)


def _highs(
    d: int,
    integer: bool,
    A_ub: Any = None,
    b_ub: Any = None,
    A_eq: Any = None,
    b_eq: Any = None,
    changing: Floats | None = None,
) -> Argmax:
    inequalities = np.reshape([] if A_ub is None else A_ub, (-1, d))
    equalities = np.reshape([] if A_eq is None else A_eq, (-1, d))
    rows = sparse.csr_matrix(np.vstack([inequalities, equalities]))
    below, equal = np.ravel([] if b_ub is None else b_ub), np.ravel([] if b_eq is None else b_eq)
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, value in {"output_flag": False, "presolve": "off", "parallel": "off", "threads": 1}.items():
        solver.setOptionValue(option, value)
    model = highspy.HighsLp()
    model.num_row_, model.num_col_, model.sense_ = *rows.shape, highspy.ObjSense.kMaximize
    model.col_cost_, model.col_lower_, model.col_upper_ = np.zeros(d), np.zeros(d), np.ones(d)
    model.row_lower_ = np.concatenate([np.full(len(below), -np.inf), equal])
    model.row_upper_ = np.concatenate([below, equal])
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_, model.a_matrix_.index_, model.a_matrix_.value_ = rows.indptr, rows.indices, rows.data
    if integer:
        model.integrality_ = [highspy.HighsVarType.kInteger] * d
        solver.setOptionValue("presolve", "choose")
        solver.setOptionValue("mip_rel_gap", 0.0)
    solver.passModel(model)
    columns, numbers = np.arange(d, dtype=np.int32), np.arange(len(below), dtype=np.int32)

    def argmax(C: Floats) -> Floats:
        actions = np.empty_like(C)
        for i, c in enumerate(C):
            if changing is not None:
                solver.changeRowsBounds(len(numbers), numbers, model.row_lower_[: len(below)], changing[i])
            solver.changeColsCost(d, columns, c)
            solver.run()
            if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
                raise RuntimeError(f"HiGHS ended with {solver.getModelStatus()}")
            actions[i] = solver.getSolution().col_value
        return actions

    return argmax


def clarabel_risk(covariance: Floats, limit: float, A_ub: Any = None, b_ub: Any = None) -> Argmax:
    """Return Clarabel at 1e-12 on the simplex under a quadratic limit, one solver for all rows."""
    d = len(covariance)
    root = np.linalg.cholesky(covariance / limit).T
    caps, most = np.reshape([] if A_ub is None else A_ub, (-1, d)), np.ravel([] if b_ub is None else b_ub)
    rows = np.vstack([np.ones((1, d)), -np.eye(d), caps, np.zeros((1, d)), -root])
    right = np.concatenate([[1.0], np.zeros(d), most, [1.0], np.zeros(d)])
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(d + len(caps)), clarabel.SecondOrderConeT(1 + d)]
    settings = clarabel.DefaultSettings()
    settings.verbose = settings.presolve_enable = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    empty = sparse.csc_matrix((d, d))
    solver = clarabel.DefaultSolver(empty, np.ones(d), sparse.csc_matrix(rows), right, cones, settings)

    def argmax(C: Floats) -> Floats:
        actions = np.empty_like(C)
        for i, c in enumerate(C):
            solver.update(q=-c)
            actions[i] = solver.solve().x
        return actions

    return argmax


def argpartition(k: int) -> Argmax:
    """Return NumPy's selection of the k largest, on the whole batch."""

    def argmax(C: Floats) -> Floats:
        actions = np.zeros_like(C)
        np.put_along_axis(actions, np.argpartition(C, -k, axis=1)[:, -k:], 1.0, axis=1)
        return actions

    return argmax


def scipy_assignment(rows: int, columns: int) -> Argmax:
    """Return SciPy's assignment, row by row."""

    def argmax(C: Floats) -> Floats:
        actions = np.zeros((len(C), rows, columns))
        for i, c in enumerate(C.reshape(-1, rows, columns)):
            actions[i][linear_sum_assignment(c, maximize=True)] = 1.0
        return actions.reshape(len(C), -1)

    return argmax


def others(omega: FeasibleSet, C: Floats) -> Iterator[tuple[str, float]]:
    """Measure what is installed beyond our dependencies, in processes of their own: names and rows per second."""
    if not isinstance(omega, Knapsack):
        return
    name, module = ("OR-Tools", "ortools") if omega.integer else ("PIQP", "piqp")
    if importlib.util.find_spec(module) is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        problem = Path(folder) / "problem.npz"
        np.savez(problem, weights=np.atleast_2d(omega.weights), capacity=np.atleast_1d(omega.capacity), C=C)
        script = Path(__file__).with_name("optional_rivals.py")
        done = subprocess.run(
            [sys.executable, script, module, problem],
            capture_output=True,
            text=True,
            check=True,
        )
    yield name, float(done.stdout)
