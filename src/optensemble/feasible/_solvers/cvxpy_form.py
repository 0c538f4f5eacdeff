"""The constraints of a cvxpy problem as bounds, rows and squares, or in Clarabel's standard form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from optensemble._core.arrays import Floats
from optensemble.feasible._base import FeasibleSet
from optensemble.feasible._solvers.cvxpy_checks import load_cvxpy, values_restored
from optensemble.feasible.mixed_integer import MixedInteger
from optensemble.feasible.polytope import Polytope
from optensemble.feasible.risk_budget import RiskBudget

_BOUND_ATTRIBUTES = ("nonneg", "nonpos", "pos", "neg", "bounds")
_WHOLE_ATTRIBUTES = ("boolean", "integer")
"""Attributes of variables that a form can express; one with any other makes the problem conic."""


@dataclass
class Form:
    """The constraints of a problem, with the entries of the variable first and those of others after them."""

    lower: Floats
    upper: Floats
    whole: npt.NDArray[np.bool_]
    ub: list[tuple[Any, Floats]] = field(default_factory=list)
    eq: list[tuple[Any, Floats]] = field(default_factory=list)
    quadratic: list[tuple[Floats, float]] = field(default_factory=list)
    other: bool = False
    """Whether there are constraints of another kind."""


def read_problem(problem: Any, variable: Any) -> Form:
    """Read bounds and constraints at their present parameters."""
    variables = [variable, *(other for other in problem.variables() if other.id != variable.id)]
    n = sum(other.size for other in variables)
    form = Form(np.full(n, -np.inf), np.full(n, np.inf), np.zeros(n, dtype=np.bool_))
    with values_restored(variables):
        for other in variables:
            other.save_value(np.zeros(other.shape))
        start = 0
        for other in variables:
            _read_attributes(form, other, slice(start, start + other.size))
            start += other.size
        for constraint in problem.constraints:
            _read_constraint(form, constraint, variables)
    return form


def _read_attributes(form: Form, variable: Any, columns: slice) -> None:
    given = {name: value for name, value in variable.attributes.items() if value is not None and value is not False}
    form.other |= any(name not in (*_BOUND_ATTRIBUTES, *_WHOLE_ATTRIBUTES) for name in given)
    lower, upper = form.lower[columns], form.upper[columns]
    if given.keys() & {"nonneg", "pos"}:
        lower[:] = 0.0
    if given.keys() & {"nonpos", "neg"}:
        upper[:] = 0.0
    if "bounds" in given:
        low, high = given["bounds"]
        lower[:] = np.maximum(lower, np.broadcast_to(low, variable.shape).ravel(order="F"))
        upper[:] = np.minimum(upper, np.broadcast_to(high, variable.shape).ravel(order="F"))
    for name in _WHOLE_ATTRIBUTES:
        index = getattr(variable, f"{name}_idx")
        if given.get(name) and len(index):
            entries = np.ravel_multi_index(tuple(np.asarray(part) for part in index), variable.shape, order="F")
            form.whole[columns][entries] = True
            if name == "boolean":
                lower[entries], upper[entries] = np.maximum(lower[entries], 0.0), np.minimum(upper[entries], 1.0)


def _read_constraint(form: Form, constraint: Any, variables: list[Any]) -> None:
    cp = load_cvxpy()
    kind = type(constraint).__name__
    if kind in ("Inequality", "NonPos", "NonNeg", "Equality", "Zero") and constraint.expr.is_affine():
        sign = -1.0 if kind == "NonNeg" else 1.0
        matrix, right = _rows(constraint.expr, variables)
        if kind in ("Equality", "Zero"):
            form.eq.append((matrix, right))
        else:
            _read_bounds(form, sign * matrix, sign * right)
    elif kind == "Inequality" and len(variables) == 1:
        square = _as_square(cp, constraint, variables[0])
        form.other |= square is None
        form.quadratic += [square] if square is not None else []
    else:
        form.other = True


def _rows(expression: Any, variables: list[Any]) -> tuple[Any, Floats]:
    """Return the matrix and the right-hand side of an affine expression; the variables are at 0."""
    blocks = [_gradient(expression, other) for other in variables]
    return sparse.csr_array(sparse.hstack(blocks)), -np.asarray(expression.value, dtype=np.float64).ravel(order="F")


def _gradient(expression: Any, variable: Any) -> Any:
    """Return the derivative of each entry of an expression by those of a variable, where that is now."""
    found: Any = {used.id: gradient for used, gradient in expression.grad.items()}.get(variable.id, 0.0)
    if hasattr(found, "T") and np.ndim(found) == 2:
        return sparse.csr_array(found).T
    return sparse.csr_array(np.full((expression.size, variable.size), float(found)))


def _read_bounds(form: Form, matrix: Any, right: Floats) -> None:
    """Take rows of a single entry as bounds, and the others as they are."""
    matrix.eliminate_zeros()
    single = np.diff(matrix.indptr) == 1
    for row in np.flatnonzero(single):
        j, entry = matrix.indices[matrix.indptr[row]], matrix.data[matrix.indptr[row]]
        if entry > 0:
            form.upper[j] = min(form.upper[j], right[row] / entry)
        else:
            form.lower[j] = max(form.lower[j], right[row] / entry)
    if not single.all():
        form.ub.append((matrix[~single], right[~single]))


def _as_square(cp: Any, constraint: Any, variable: Any) -> tuple[Floats, float] | None:
    """Return ``C`` and ``limit`` of a constraint ``a'Ca <= limit``; None if it is none."""
    left, right = constraint.args
    if isinstance(left, cp.Pnorm) and left.p == 2 and left.args[0].is_affine() and right.is_constant():
        matrix, offset = _rows(left.args[0], [variable])
        root = matrix.toarray()
        return (root.T @ root, float(right.value) ** 2) if not offset.any() and right.value > 0 else None
    if constraint.expr.size != 1 or not constraint.expr.is_quadratic():
        return None
    limit = -float(constraint.expr.value)
    if abs(_gradient(constraint.expr, variable)).sum():
        return None
    columns = []
    for unit in np.eye(variable.size):
        variable.save_value(unit)
        columns.append(_gradient(constraint.expr, variable).toarray()[0] / 2)
    variable.save_value(np.zeros(variable.shape))
    return np.array(columns), limit


def recognise(form: Form, d: int) -> FeasibleSet | None:
    """Return the built-in set of the variable alone that a form describes, or None."""
    whole = bool(form.whole.any())
    n = len(form.lower)
    if form.other or n > d or len(form.quadratic) > (0 if whole else 1):
        return None
    arguments: dict[str, Any] = {}
    for name, rows in (("ub", form.ub), ("eq", form.eq)):
        if rows:
            arguments[f"A_{name}"] = sparse.csr_array(sparse.vstack([matrix for matrix, _ in rows]))
            arguments[f"b_{name}"] = np.concatenate([right for _, right in rows])
    if form.quadratic:
        return _as_risk_budget(form, arguments)
    lower, upper = form.lower + 0.0, form.upper + 0.0
    if whole:
        return MixedInteger(**arguments, lower=lower, upper=upper, integer=form.whole, dimension=n)
    return Polytope(**arguments, lower=lower, upper=upper, dimension=n)


def _as_risk_budget(form: Form, arguments: dict[str, Any]) -> RiskBudget | None:
    if "A_eq" not in arguments or form.lower.any():
        return None
    A_eq, b_eq = arguments.pop("A_eq").toarray(), arguments.pop("b_eq")
    shares = (A_eq == A_eq[:, :1]).all(axis=1) & (A_eq[:, 0] == b_eq) & (b_eq != 0)
    if not shares.any():
        return None
    if not shares.all():
        arguments |= {"A_eq": A_eq[~shares], "b_eq": b_eq[~shares]}
    if (form.upper < 1).any():
        arguments["upper"] = np.minimum(form.upper, 1.0)
    if "A_ub" in arguments:
        arguments["A_ub"] = arguments["A_ub"].toarray()
    return RiskBudget(*form.quadratic[0], **arguments)


def clarabel_form(problem: Any, variable: Any) -> tuple[Any, Floats, list[tuple[Any, ...]], int]:
    """Return A, b, the cones, and where the variable begins, of the problem as Clarabel sees it."""
    cp = load_cvxpy()
    constraints, target = list(problem.constraints), variable
    if any(value is not None and value is not False for value in variable.attributes.values()):
        target = cp.Variable(variable.size)  # cvxpy replaces variables with attributes by others
        constraints.append(target == variable)
    plain = cp.Problem(cp.Minimize(cp.sum(target)), constraints)
    data = plain.get_problem_data(cp.CLARABEL)[0]
    cones = cones_of(data["dims"])
    return data["A"], np.asarray(data["b"], dtype=np.float64), cones, data["param_prob"].var_id_to_col[target.id]


def cones_of(dims: Any) -> list[tuple[Any, ...]]:
    """Return the names of Clarabel's cones with their arguments, in cvxpy's order."""
    cones: list[tuple[Any, ...]] = [("ZeroConeT", dims.zero), ("NonnegativeConeT", dims.nonneg)]
    cones = [cone for cone in cones if cone[1]]
    cones += [("SecondOrderConeT", size) for size in dims.soc]
    cones += [("PSDTriangleConeT", size) for size in dims.psd]
    cones += [("ExponentialConeT",)] * dims.exp
    cones += [("PowerConeT", power) for power in dims.p3d]
    cones += [("GenPowerConeT", power, 1) for power in dims.pnd]
    return cones
