"""What a cvxpy problem must be to describe a feasible set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from optensemble._core.arrays import Floats
from optensemble.exceptions import InputError

_TRIALS = 6
"""Values of variables and coefficients at which the objective is compared with what it should be."""

_SAME = 1e-7
"""Differences, relative to the numbers they come from, that are rounding."""


def load_cvxpy() -> Any:
    """Import cvxpy, or say how to install it."""
    try:
        import cvxpy
    except ImportError as error:
        raise ImportError("CvxpySet needs cvxpy. Install it with: pip install 'optensemble[cvxpy]'") from error
    return cvxpy


@contextmanager
def values_restored(leaves: Sequence[Any]) -> Iterator[None]:
    """Give variables and parameters back the values they had."""
    kept = [leaf.value for leaf in leaves]
    try:
        yield
    finally:
        for leaf, value in zip(leaves, kept, strict=True):
            leaf.save_value(value)


class Checked(NamedTuple):
    """A problem that describes a set, and the action in it."""

    problem: Any
    action: Any
    has_cost: bool


def require_form(problem: Any, action: Any, parameter: Any, rows: Sequence[Any] = ()) -> Checked:
    """Raise ``InputError`` unless the problem is convex, and its objective ``parameter @ action`` less a known cost."""
    cp = load_cvxpy()
    if not isinstance(problem, cp.Problem):
        raise InputError(f"problem must be a cvxpy.Problem; got {type(problem).__name__}.")
    _require_action(cp, action, parameter)
    _require_values(problem, parameter, rows)
    if not problem.is_dcp(dpp=True):
        problem, action = _with_constants(cp, problem, action, {parameter.id, *(each.id for each in rows)})
    if any(leaf.is_complex() for leaf in problem.variables()) or not problem.is_dcp(dpp=True):
        raise InputError(
            "the problem must be real and convex by cvxpy's rules, with its parameters too: problem.is_dcp(dpp=True). "
            "A parameter that multiplies a curved term needs a sign, cp.Parameter(nonneg=True). Where one multiplies a "
            "term with another in it, as in rate * cp.norm1(w - held), give that a variable of its own: moved == w - "
            "held, and rate * cp.norm1(moved)."
        )
    for constraint in problem.constraints:
        if any(used.id == parameter.id for used in constraint.parameters()):
            raise InputError(
                "the parameter of the coefficients must be in the objective alone, and it is in a constraint, "
                f"{constraint}. Use a parameter of its own there; rows= may take its numbers from the same columns."
            )
        _refuse_lists(constraint)
    return Checked(problem, action, _has_cost(problem, action, parameter))


def _with_constants(cp: Any, problem: Any, action: Any, kept: set[int]) -> tuple[Any, Any]:
    """Put the present values in the place of parameters that are the same in all rows: then they may be multiplied."""
    values = {id(each): cp.Constant(each.value) for each in problem.parameters() if each.id not in kept}
    constraints = [constraint.tree_copy(dict(values)) for constraint in problem.constraints]
    return cp.Problem(problem.objective.tree_copy(dict(values)), constraints), action.tree_copy(dict(values))


def _require_action(cp: Any, action: Any, parameter: Any) -> None:
    if not isinstance(action, cp.Expression) or not action.is_affine() or not action.variables():
        shown = str(action) if isinstance(action, cp.Expression) else type(action).__name__
        raise InputError(
            "variable must be a cvxpy.Variable, or a linear expression of variables such as discharge - charge; got "
            f"{shown}."
        )
    if not isinstance(parameter, cp.Parameter) or parameter.shape != action.shape:
        raise InputError(
            "variable and parameter must be a cvxpy.Variable (or a linear expression) and a cvxpy.Parameter of the "
            f"same shape; got {action.shape} and {getattr(parameter, 'shape', type(parameter).__name__)}."
        )


def _require_values(problem: Any, parameter: Any, rows: Sequence[Any]) -> None:
    known = {parameter.id, *(each.id for each in rows)}
    for other in problem.parameters():
        if other.id in known:
            continue
        if other.value is None:
            raise InputError(
                f"the other parameters of the problem need values; {other.name()} has none. Set its value, or take it "
                "from the row: rows={parameter: 'column'}."
            )
        if np.shape(other.value) != other.shape:
            raise InputError(
                f"the parameter {other.name()} has the shape {other.shape}, but its value has {np.shape(other.value)}. "
                "If it differs between rows, put the numbers into a column of X and take them from there: "
                "rows={parameter: 'column'}."
            )


def _refuse_lists(constraint: Any) -> None:
    """Refuse one number beside several: cvxpy compares it with each of them, where a row was meant to have one."""
    if len(constraint.args) != 2:
        return
    for one, several in (constraint.args, constraint.args[::-1]):
        if one.variables() and one.size == 1 and several.size > 1 and not several.variables():
            raise InputError(
                f"the constraint {str(constraint)[:200]} compares one number with {several.size}, all of which would "
                "hold in every row. If each row has one of them, write a scalar parameter, limit = cp.Parameter(), in "
                "the constraint, put the numbers into a column of X, and give rows={limit: 'column'}. If all are "
                "meant, compare with the smallest or largest of them."
            )


def _has_cost(problem: Any, action: Any, parameter: Any) -> bool:
    """Try whether the objective is ``parameter @ action``, of either sign, plus something without the parameter."""
    objective = problem.objective.expr
    others = [other for other in problem.parameters() if other.value is None and other.id != parameter.id]
    variables = {leaf.id: leaf for leaf in (*objective.variables(), *action.variables())}
    leaves = [parameter, *others, *variables.values()]
    rng = np.random.default_rng(0)
    found, products, rests = list[float](), list[float](), list[float]()
    with values_restored(leaves):
        for trial in range(_TRIALS):
            for leaf in (*others, *variables.values()):
                # Positive numbers at first: some costs, as of a logarithm, have no value elsewhere.
                draw = rng.uniform(0.1, 0.9, leaf.shape) if trial < _TRIALS // 2 else rng.normal(size=leaf.shape)
                leaf.save_value(draw)
            coefficients = rng.normal(size=parameter.shape)
            rest, value = (_at(objective, parameter, given) for given in (np.zeros(parameter.shape), coefficients))
            if np.isfinite([rest, value]).all():
                found.append(value - rest)
                products.append(float(np.sum(coefficients * np.asarray(action.value))))
                rests.append(rest)
    slack = _SAME * (1.0 + np.abs([found, products, rests]).max(axis=0))
    if not any((np.abs(sign * np.array(found) - products) <= slack).all() for sign in (1.0, -1.0)):
        raise InputError(_wrong_product(problem, action, parameter))
    return bool(np.any(np.abs(rests) > 0.0))


def _at(objective: Any, parameter: Any, coefficients: Floats) -> float:
    parameter.save_value(coefficients)
    value = objective.value
    return np.nan if value is None else float(np.asarray(value).ravel()[0])


def _wrong_product(problem: Any, action: Any, parameter: Any) -> str:
    if all(used.id != parameter.id for used in problem.objective.parameters()):
        return (
            f"the objective must be the product of the parameter and the variable; {problem.objective} does not have "
            f"the parameter {parameter.name()}. Write cp.Maximize(parameter @ variable), less a known cost if there is "
            "one."
        )
    return (
        f"the objective must be the product of the parameter and the variable, {parameter.name()} @ ({action}), of "
        f"either sign, and perhaps a known cost beside it; {problem.objective} multiplies the parameter by something "
        "else. Give what it multiplies as the second argument, as in CvxpySet(problem, discharge - charge, price)."
    )


def is_plain(action: Any) -> bool:
    """Return whether the action is a variable of one dimension."""
    return isinstance(action, load_cvxpy().Variable) and action.ndim == 1


class Watched:
    """Parameters with the values that a set was made with; a copy that goes to another place does not watch them."""

    def __init__(self, parameters: Sequence[Any]) -> None:
        self.seen = [(each, dense(each.value)) for each in parameters]

    def require_unchanged(self) -> None:
        """Raise ``InputError`` if a parameter has another value by now."""
        for parameter, value in self.seen:
            now = parameter.value
            if now is None or not np.array_equal(dense(now), value, equal_nan=True):
                raise InputError(
                    f"the parameter {parameter.name()} has changed since the set was made, from {_short(value)} to "
                    f"{_short(now)}; the set still has the first value. Make the set again; or, if it differs between "
                    "rows, take it from a column of X: CvxpySet(problem, variable, coefficients, rows={parameter: "
                    "'column'})."
                )

    def __getstate__(self) -> dict[str, Any]:
        return {"seen": []}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __deepcopy__(self, memo: Any) -> Watched:
        return Watched([])


def dense(value: Any) -> Floats:
    """Return the value of a parameter as an array; cvxpy keeps that of a sparse one sparse."""
    return np.array(value.toarray() if hasattr(value, "toarray") else value, dtype=np.float64)


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
