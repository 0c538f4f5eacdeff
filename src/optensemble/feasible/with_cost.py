"""A known cost of acting: payoffs are net of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble._core.validation import as_floats, is_finite
from optensemble.exceptions import EmptySetError, InputError, SolverError
from optensemble.feasible._base import FeasibleSet, checks_actions
from optensemble.feasible._batches import Unsolved
from optensemble.feasible._bound_rows import Fault
from optensemble.feasible._composite import Composite, Part
from optensemble.feasible._row_parameters import from_rows, row_parameters
from optensemble.feasible._solvers.known_cost.charges import Charges
from optensemble.feasible._solvers.known_cost.ways import Way, choose_way, is_linear, is_solved_alone


@final
class WithCost(Composite):
    """Any of the other sets, with a cost of acting that is known when the decision is made.

    ``argmax`` maximises ``c·a - cost(a)`` with ::

        cost(a) = linear·a + gamma * a'Qa + sum_j rate_j * |a_j - held_j|

    (no factor 1/2 in the quadratic part), and payoffs, self-assessments, leaderboards, promises and audits are net of
    it. With ``sense="min"`` labels are costs too: ``a·y + cost(a)`` is minimised, and reported. The difference between
    what is promised and what is realised does not see a known cost, so that everything proven holds. Every such
    cost is convex: mixtures may be played where they may be without it (:attr:`FeasibleSet.convex`).

    What the set and the cost are decides how rows are solved (:attr:`recognised`):

    - "linear": by the set itself, with coefficients less the cost of a unit, and with its tie rule. So are all parts of
      a cost, but for products of two coordinates, on sets of zeros and ones (:class:`TopK`, :class:`Assignment`,
      :class:`ShortestPath`, whole items of a :class:`Knapsack`...), where ``|a - held|`` and ``a²`` are linear. The
      start-up cost of a machine that is on or off is linear, too.
    - "by coordinate": a :class:`Box`, if Q is diagonal. A coordinate stays as near to what is held as the best can be.
    - "list": :class:`Vertices`, and a :class:`MixedInteger` whose actions can be listed. Values within 1e-12 of the
      best, relative to the terms that add up to it, are tied, and the lowest index wins.
    - "Knapsack", "Polytope": turnover on a :class:`Simplex` or a :class:`Knapsack` of one resource, and on a
      :class:`Polytope` or a :class:`Knapsack` of several: linear programmes in two parts of every coordinate, up to
      what is held and beyond, with the tie rules of those sets. On a simplex a tie is 1e-12 of the spread of the
      coefficients.
    - "mean-variance": a quadratic cost on a :class:`Simplex`, or on a :class:`Polytope` of portfolios (weights from 0
      on that sum to 1, with caps and sectors), by the active sets of :class:`RiskBudget`. Where gamma is 0 the largest
      coefficients are filled up in the order of their indices (with sectors: as HiGHS decides); otherwise only a
      singular Q leaves ties, and the least of ``a'Qa`` decides.
    - "MixedInteger": turnover on one that cannot be listed, by HiGHS in coordinates and their two parts. "row by row":
      one whose parameters come from the row, unless all is zeros and ones; each row makes a set of its own.
    - "conic": other convex sets, by Clarabel at a tolerance of 1e-12, or 1e-10 or 1e-9 where rounding does not let it
      get there. A gap of 1e-12 moves the action by about 1e-6 where the objective is curved. Coefficients are rounded
      to 40 bits below the largest of their row first; tied rows get an action that depends on the row alone.

    Unlike without a cost, the scale of coefficients matters: they must be in the units of the cost.

    Parameters
    ----------
    omega
        The set. Its parameters may come from the row.
    linear
        What a unit of each coordinate costs: a number, or one for each coordinate; by row as ``Columns`` or a callable
        of X. It may be negative.
    quadratic
        The matrix Q, symmetric and positive semidefinite; or the pair ``(gamma, Q)``, or a dict of both, with a number
        gamma, by row if wished, that is not negative.
    turnover
        The pair ``(held, rate)``, or a dict of both: what is held before the decision, and what it costs to move a
        coordinate away from it by 1. Each a number, or one for each coordinate, by row if wished; no rate is negative.
    on_failure, fallback
        What to do with a row that cannot be solved, or whose parameters cannot be: "raise" an error, or take the
        "fallback" action and warn. As the set does unless given.

    Attributes
    ----------
    omega
        The set.

    Examples
    --------
    >>> from optensemble.feasible import Simplex
    >>> omega = WithCost(Simplex(3), turnover=([0.2, 0.5, 0.3], 0.1))
    >>> actions = omega.argmax([[1.0, 1.1, 1.05], [1.0, 1.5, 1.0]])
    >>> actions
    array([[0.2, 0.5, 0.3],
           [0. , 1. , 0. ]])
    >>> omega.cost(actions).round(3)
    array([0. , 0.1])

    Yesterday's weights come from the row, and risk is charged for at 2 times the variance:

    >>> import pandas as pd
    >>> from optensemble import Columns
    >>> covariance = [[0.04, 0.01, 0.0], [0.01, 0.09, 0.0], [0.0, 0.0, 0.01]]
    >>> omega = WithCost(Simplex(3), quadratic=(2.0, covariance), turnover=(Columns("held_*"), 0.01))
    >>> rows = pd.DataFrame({"held_a": [0.5], "held_b": [0.3], "held_c": [0.2]})
    >>> omega.for_rows(rows).argmax([[0.10, 0.14, 0.03]]).round(3)
    array([[0.5, 0.3, 0.2]])
    """

    def __init__(
        self,
        omega: FeasibleSet,
        linear: Any = None,
        quadratic: Any = None,
        turnover: Any = None,
        *,
        on_failure: str | None = None,
        fallback: npt.ArrayLike | None = None,
    ) -> None:
        self.omega, d = _require_free(omega), omega.dimension
        gamma, matrix = _as_quadratic(quadratic)
        held, rate = _as_turnover(turnover)
        own = row_parameters(linear=(linear, (d,)), gamma=(gamma, ()), held=(held, (d,)), rate=(rate, (d,)))
        self._hold([omega], ["omega"], own)
        self.has_cost = True
        self._given = {
            name: None if value is None or from_rows(value) else _as_part(value, name, d)
            for name, value in (("linear", linear), ("gamma", gamma), ("held", held), ("rate", rate))
        }
        self._Q = np.empty((0, 0)) if matrix is None else _as_matrix(matrix, d)
        self._parts_given = tuple(
            name
            for name, part in (("linear", linear), ("quadratic", quadratic), ("turnover", turnover))
            if part is not None
        )
        self.dimension = d
        if not self.open_bounds:
            self._set_bounds(omega.lower, omega.upper, d)
        moves = turnover is not None
        self._alone = is_solved_alone(omega, self._Q, moves)
        by_itself = self._alone or is_linear(omega, self._Q, moves)
        self._way: Way | None = None if by_itself else choose_way(omega, self._Q, moves)
        if on_failure is None and fallback is None:
            on_failure, fallback = omega.on_failure, omega.fallback
        self._set_failure(on_failure or "fallback", fallback)

    @property
    def recognised(self) -> str:
        """How rows are solved: "linear", "by coordinate", "list" and so on, as above."""
        if self._way is not None:
            return self._way.name
        return "row by row" if self._alone else "linear"

    # Rows

    @property
    def width(self) -> int:
        """How many numbers of a row there are: those of the cost, and then those of the set."""
        return self._own_width + self.omega.width

    def read_rows(self, X: Any) -> Floats:
        """Return the parameters of every row of X, of shape (rows, numbers)."""
        n = len(X) if not hasattr(X, "shape") else int(X.shape[0])
        own = [parameter.read(X, n) for parameter in self._own_parameters]
        inner = [self.omega.read_rows(X)] if self.omega.varies else []
        return np.concatenate([*own, *inner], axis=1)

    def _parts(self) -> Iterator[Part]:
        yield Part(0, self._bound(0, self._own_width), slice(None), slice(None))

    def _own_faults(self) -> Iterator[Fault]:
        for parameter in self._own_parameters:
            found = self._of_rows(parameter.name)
            if not is_finite(found):
                yield Fault(parameter.name, ~np.isfinite(found), "must be a finite number")
            if parameter.name in ("gamma", "rate") and (found < 0).any():
                yield Fault(parameter.name, found < 0, "must not be negative")

    def _faults(self) -> Iterator[Fault]:
        yield from self._own_faults()
        (part,) = self._parts()
        if part.omega.varies:  # whatever the set would do with such rows: they do not come to it
            yield from self._inner_faults(part)

    def report_faults(self, X: Any = None) -> None:
        """Name the rows that have no set or no cost: as an error or as a warning."""
        FeasibleSet.report_faults(self, X)

    def of_row(self, row: int) -> WithCost:
        """Return the set of one of the rows that this one is bound to, with its cost."""
        if not self.varies:
            return self
        (part,) = self._parts()
        fixed = {each.name: self._of_rows(each.name)[row] for each in self._own_parameters}
        arguments = self._arguments(self._given | fixed) | self._failure_spec()
        return WithCost(part.omega.of_row(row), **arguments)

    # Costs

    def _charges(self) -> Charges:
        """Return the parts of the cost in the rows that the set is bound to."""
        d, none = self.dimension, {"linear": 0.0, "gamma": 1.0, "held": 0.0, "rate": 0.0}
        found = dict[str, Floats]()
        for name, value in self._given.items():
            if self._varies_in(name):
                found[name] = self._of_rows(name)
            else:
                fixed = np.asarray(none[name] if value is None else value)
                found[name] = np.broadcast_to(fixed, (1,) if name == "gamma" else (1, d))
        return Charges(Q=self._Q, **found)

    def cost(self, actions: Floats) -> Floats:
        """Return the known cost of each action, in the row it is taken in; 0 where the row's parameters make none."""
        self._require_rows(len(actions))
        found = self._charges().of(actions)
        if self.faulty.any():
            for fault in self._own_faults():
                found[fault.rows] = 0.0
        return found

    def _solve_batch(self, coefficients: Floats, hint: Floats | None) -> Floats:
        if self._alone:
            return self._solve_alone(coefficients)
        charges, (part,) = self._charges(), self._parts()
        if self._way is not None:
            return self._way.solve(part.omega, coefficients - charges.linear, charges, hint)
        actions, reasons = self._ask(part, coefficients - charges.as_linear(), hint)
        if reasons:
            raise Unsolved(actions, reasons)
        return actions

    def _solve_alone(self, coefficients: Floats) -> Floats:
        """Solve each row by the set that it makes alone."""
        actions, reasons = np.zeros_like(coefficients), dict[int, str]()
        for row in range(len(coefficients)):
            try:
                actions[row] = self.of_row(row)._solve_batch(coefficients[row : row + 1], None)[0]
            except Unsolved as unsolved:
                reasons[row] = unsolved.reasons[0]
            except (EmptySetError, SolverError) as error:
                reasons[row] = str(error)
        if reasons:
            raise Unsolved(actions, reasons)
        return actions

    @checks_actions
    def violation(self, actions: Floats) -> Floats:
        """Return the distance of each row from the set, as that measures it."""
        return self._largest_violation(actions)

    def _name_broken(self, part: Part, constraint: str) -> str:
        return constraint

    def binding(self, action: Floats) -> list[str]:
        """Return the constraints of the set that bind at an action of the only row that it is bound to."""
        (part,) = self._parts()
        return part.omega.binding(action)

    def _arguments(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of the cost that are given, with these values of their parts."""
        arguments = {"linear": values["linear"]}
        if self._Q.size:
            arguments["quadratic"] = self._Q if values["gamma"] is None else (values["gamma"], self._Q)
        if "turnover" in self._parts_given:
            arguments["turnover"] = (values["held"], values["rate"])
        return arguments

    def spec(self) -> dict[str, Any] | None:
        """Return the keyword arguments that make this set again, or None if the set cannot be saved."""
        specs = self._inner_specs()
        if specs is None:
            return None
        given = self._arguments({name: self._argument(name, value) for name, value in self._given.items()})
        pairs = {name: [_plain(each) for each in value] for name, value in given.items() if isinstance(value, tuple)}
        return {"omega": specs[0], **given, **pairs, **self._failure_spec()}

    def __repr__(self) -> str:
        rows = {"quadratic": "gamma", "turnover": ("held", "rate")}
        parts = [
            name + (" by row" if any(map(self._varies_in, np.atleast_1d(rows.get(name, name)))) else "")
            for name in self._parts_given
        ]
        return f"WithCost({', '.join([repr(self.omega), *parts])})"


def _plain(value: Any) -> Any:
    """Return an array as a list, as a pair of arguments is saved; ``Columns`` stay."""
    return value.tolist() if isinstance(value, np.ndarray) else value


def _require_free(omega: Any) -> FeasibleSet:
    """Return a set without a cost."""
    if not isinstance(omega, FeasibleSet):
        raise InputError(f"omega must be a feasible set; got {type(omega).__name__}.")
    if omega.has_cost:
        raise InputError(f"{omega!r} has a cost already. Give all parts of the cost to one WithCost.")
    return omega


def _as_quadratic(value: Any) -> tuple[Any, Any]:
    """Return gamma, or None if it is not given, and the matrix."""
    value = _as_pair(value, "gamma", "Q")
    if isinstance(value, (list, tuple)) and len(value) == 2 and np.ndim(value[1]) == 2:
        return value[0], value[1]
    if from_rows(value):
        raise InputError(
            "the matrix of quadratic= is one for all rows; gamma may come from the row: quadratic=(Columns('gamma'), "
            "Q). If the rows have few different matrices, use feasible.ByKey."
        )
    return None, value


def _as_pair(value: Any, first: str, second: str) -> Any:
    """Return a pair that is given by names, as a job file does, as a pair; anything else unchanged."""
    if not isinstance(value, Mapping):
        return value
    if set(value) != {first, second}:
        raise InputError(f"the parts of this cost are {first} and {second}; got {', '.join(map(str, value))}.")
    return value[first], value[second]


def _as_turnover(value: Any) -> tuple[Any, Any]:
    if value is None:
        return None, None
    value = _as_pair(value, "held", "rate")
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise InputError(f"turnover must be a pair, what is held and the rate: turnover=(held, rate); got {value!r}.")
    return value[0], value[1]


def _as_part(value: Any, name: str, dimension: int) -> Floats:
    """Return a part of the cost that is the same for all rows."""
    part = as_floats(value, name)
    allowed = [()] if name == "gamma" else [(), (dimension,)]
    if part.shape not in allowed:
        what = "a number" if name == "gamma" else f"a number or have one entry for each of the {dimension} coordinates"
        raise InputError(
            f"{name} must be {what}; got an array of shape {part.shape}. If it differs between rows, give oe.Columns."
        )
    if name in ("gamma", "rate") and (part < 0).any():
        raise InputError(f"{name} must not be negative; got {part.min():g}.")
    return part + 0.0  # negative zero is zero


def _as_matrix(value: Any, dimension: int) -> Floats:
    from optensemble.feasible._solvers.risk_budget.covariance import as_covariance

    matrix = as_covariance(value, "the matrix of quadratic=")
    if len(matrix) != dimension:
        raise InputError(f"the matrix of quadratic= must have {dimension} rows and columns; got {len(matrix)}.")
    return matrix
