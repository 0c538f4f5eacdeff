"""A cvxpy problem as a cone programme whose data are affine functions of the parameters that come from the row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from optensemble._core.arrays import Floats, Indices
from optensemble.exceptions import InputError
from optensemble.feasible._solvers.affine import Affine, VaryingMatrix
from optensemble.feasible._solvers.cvxpy_checks import dense, load_cvxpy, values_restored
from optensemble.feasible._solvers.cvxpy_form import cones_of


@dataclass(frozen=True)
class Program:
    """Minimise ``x'Px / 2 + q·x + offset`` with ``b - A x`` in a product of cones; some ``x`` are the action."""

    P: VaryingMatrix
    q: Affine
    offset: Affine
    A: VaryingMatrix
    b: Affine
    cones: list[tuple[Any, ...]]
    columns: slice
    """Where the action is."""
    lower: Affine
    upper: Affine
    whole: npt.NDArray[np.bool_]
    signs: Floats
    """For each parameter of the row 1 if it is never negative, -1 if it is never positive, and otherwise 0."""

    def is_positive(self, terms: Floats) -> bool:
        """Return whether a constant plus slopes times parameters is not 0, and in no row negative."""
        never = terms[1:] * self.signs >= 0.0
        known = (self.signs != 0.0) | (terms[1:] == 0.0)
        return bool(terms[0] >= 0.0 and (never & known).all() and terms.any())

    @property
    def has_cost(self) -> bool:
        """Whether acting costs something that is known."""
        parts = self.P.entries, self.q, self.offset
        return any(part.varies or bool(part.constant.any()) for part in parts)

    def linear_rows(self) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return which rows are linear with entries that do not depend on parameters, and which are equalities."""
        kinds = [(cone[0], _length(cone)) for cone in self.cones]
        names = np.repeat([name for name, _ in kinds], [length for _, length in kinds])
        varying = np.zeros(self.A.shape[0], dtype=np.bool_)
        varying[self.A.indices[np.unique(self.A.entries.slopes.indices)]] = True
        linear = np.isin(names, ("ZeroConeT", "NonnegativeConeT"))
        return linear & ~varying, names == "ZeroConeT"

    @property
    def varies(self) -> bool:
        """Whether any of it depends on parameters of the row."""
        parts = self.P.entries, self.q, self.offset, self.A.entries, self.b, self.lower, self.upper
        return any(part.varies for part in parts)


def _length(cone: tuple[Any, ...]) -> int:
    """Return how many rows a cone takes up."""
    name, *arguments = cone
    if name == "PSDTriangleConeT":
        return int(arguments[0] * (arguments[0] + 1) // 2)
    if name == "GenPowerConeT":
        return len(arguments[0]) + int(arguments[1])
    return int(arguments[0]) if name.endswith(("ZeroConeT", "NonnegativeConeT", "SecondOrderConeT")) else 3


def read_program(problem: Any, action: Any, parameter: Any, rows: Sequence[Any] = ()) -> Program:
    """Bring a problem to standard form, with the action as variables of their own, row by row if it has two dimensions.

    The coefficients are 0 in it: what is left of the objective is the known cost of acting. Parameters of ``rows`` stay
    open, one after the other, each row by row; all others have their present values.
    """
    cp = load_cvxpy()
    target = cp.Variable(action.size)
    sign = -1.0 if isinstance(problem.objective, cp.Maximize) else 1.0
    plain = cp.Problem(
        cp.Minimize(sign * problem.objective.expr), [*problem.constraints, target == cp.vec(action, order="C")]
    )
    whole = any(variable.attributes["boolean"] or variable.attributes["integer"] for variable in plain.variables())
    with values_restored([parameter, *rows]):
        parameter.save_value(np.zeros(parameter.shape))
        for each in rows:
            each.save_value(np.ones(each.shape))
        try:
            data = plain.get_problem_data(cp.SCIPY if whole else cp.CLARABEL)[0]
        except cp.error.SolverError as error:
            raise InputError(
                "the problem has whole numbers, and constraints or costs that are not linear. Make all of them linear, "
                "or bring your own solver as feasible.Oracle."
            ) from error
        return _collect(data, target, rows)


def _collect(data: dict[str, Any], target: Any, rows: Sequence[Any]) -> Program:
    given = data["param_prob"]
    n = given.x.size
    chosen, varying = _parameter_columns(given, rows)
    q = _affine(given.q, chosen, varying)
    stacked = sparse.csr_array(given.A)
    m = stacked.shape[0] // (n + 1)
    P = sparse.csr_array((n * n, len(chosen))) if given.P is None else given.P
    start = given.var_id_to_col[target.id]
    whole = np.zeros(n, dtype=np.bool_)
    whole[[*data.get("bool_vars_idx", ()), *data.get("int_vars_idx", ())]] = True
    lower, upper = (_bound(given, side, n, chosen, varying) for side in ("lower", "upper"))
    binary = np.array(data.get("bool_vars_idx", ()), dtype=np.int64)
    lower.constant[binary] = np.maximum(lower.constant[binary], 0.0)
    upper.constant[binary] = np.minimum(upper.constant[binary], 1.0)
    return Program(
        P=VaryingMatrix.of(sparse.csr_array(P), (n, n), chosen, varying),
        q=_part(q, slice(0, n)),
        offset=_part(q, slice(n, n + 1)),
        A=VaryingMatrix.of(-stacked[: m * n], (m, n), chosen, varying),
        b=_affine(stacked[m * n :], chosen, varying),
        cones=cones_of(data["dims"]),
        columns=slice(start, start + target.size),
        lower=lower,
        upper=upper,
        whole=whole,
        signs=np.concatenate([np.empty(0), *(np.full(each.size, sign_of(each)) for each in rows)]),
    )


def sign_of(parameter: Any) -> float:
    """Return 1 for a parameter that is never negative, -1 for one that is never positive, and otherwise 0."""
    return 1.0 if parameter.is_nonneg() else -1.0 if parameter.is_nonpos() else 0.0


def _parameter_columns(given: Any, rows: Sequence[Any]) -> tuple[Floats, Indices]:
    """Return the values of all parameters, 0 for those of rows and 1 for the constant, and the columns of those."""
    chosen = np.zeros(given.total_param_size + 1)
    chosen[given.param_id_to_col.get(-1, -1)] = 1.0
    open_ones = {each.id for each in rows}
    for number, column in given.param_id_to_col.items():
        if number in given.id_to_param and number not in open_ones:
            value = dense(given.id_to_param[number].value)
            chosen[column : column + value.size] = value.ravel(order="F")
    varying = [np.empty(0, dtype=np.int64)]
    for each in rows:
        if each.id not in given.param_id_to_col:
            raise InputError(
                f"the parameter {each.name()} cannot come from the row: it has an attribute that gives it fewer "
                "numbers than entries, or the problem does not depend on it. Give a plain cp.Parameter(shape)."
            )
        order = np.arange(each.size).reshape(each.shape, order="F").ravel(order="C")
        varying.append(given.param_id_to_col[each.id] + order)
    return chosen, np.concatenate(varying)


def _affine(tensor: Any, chosen: Floats, varying: Indices) -> Affine:
    matrix = sparse.csr_array(tensor)
    slopes = sparse.csr_array(matrix[:, varying].T)
    slopes.eliminate_zeros()
    return Affine(np.asarray(matrix @ chosen, dtype=np.float64) + 0.0, slopes)


def _part(numbers: Affine, entries: slice) -> Affine:
    return Affine(numbers.constant[entries], sparse.csr_array(numbers.slopes[:, entries]))


def _bound(given: Any, side: str, n: int, chosen: Floats, varying: Indices) -> Affine:
    """Return bounds that cvxpy leaves to the solver; infinite ones otherwise."""
    tensor = given.lb_tensor if side == "lower" else given.ub_tensor
    if tensor is not None:
        return _affine(tensor, chosen, varying)
    found = getattr(given, f"{side}_bounds")
    free = np.full(n, -np.inf if side == "lower" else np.inf)
    return Affine.fixed(free if found is None else np.array(found, dtype=np.float64), len(varying))
