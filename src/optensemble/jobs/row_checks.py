"""Checks of the rows of a job: labels, weights, sets, decisions of policies; and what was counted on the way."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.columns import Columns
from optensemble._core.deferred import pd
from optensemble._core.suggestions import listed
from optensemble.exceptions import FallbackWarning, InfeasibleActionError, InputError, SolverError
from optensemble.feasible import FeasibleSet
from optensemble.jobs.roles import Roles
from optensemble.jobs.rows import RowPlace
from optensemble.jobs.set_columns import summarise_parameters
from optensemble.members.absence import absent_rows
from optensemble.members.mending import Mending
from optensemble.members.validation import as_actions

# What was counted


@dataclass(frozen=True)
class Fallbacks:
    """Rows that cannot be solved and take the fallback action: how many, and the first with the reason."""

    count: int = 0
    first: str = ""

    def __add__(self, other: Fallbacks) -> Fallbacks:
        return Fallbacks(self.count + other.count, self.first or other.first)

    def told(self, rows: int) -> str:
        """Return a sentence on these among all ``rows``."""
        verb = "takes" if self.count == 1 else "take"
        unsolved = f"{self.count:,} of {rows:,} rows cannot be solved and {verb} the fallback action"
        return f"{unsolved}; the first is {self.first}"


NO_FALLBACKS = Fallbacks()


@dataclass(frozen=True)
class RowCounts:
    """What was counted in the rows of a job.

    Attributes
    ----------
    fallbacks
        Rows that take the fallback action of the set.
    unlabelled
        Rows that lack labels, and are left out; all others are counted without them.
    absent, nobody
        Rows in which each member has no value, of those that lack some, and rows in which no member has one.
    mended
        Rows in which the action of a policy was off by rounding, and was moved onto the set.
    weight, weight_squares
        The sums of the rows' weights and of their squares.
    groups
        Values of the column of groups.
    """

    fallbacks: Fallbacks = NO_FALLBACKS
    unlabelled: int = 0
    absent: Counter[str] = field(default_factory=Counter)
    nobody: int = 0
    mended: int = 0
    weight: float = 0.0
    weight_squares: float = 0.0
    groups: int = 0

    def __add__(self, other: RowCounts) -> RowCounts:
        return RowCounts(*(getattr(self, name) + getattr(other, name) for name in vars(self)))

    @property
    def effective(self) -> float:
        """The number of rows of equal weight that count as much: ``(Σw)²/Σw²``."""
        return self.weight**2 / self.weight_squares if self.weight_squares else 0.0

    def sentences(self, rows: int) -> Iterator[str]:
        """Yield what is to be told of this among ``rows`` rows with labels."""
        if self.unlabelled:
            verb = "has no labels and is" if self.unlabelled == 1 else "have no labels and are"
            yield f"{self.unlabelled:,} of {rows + self.unlabelled:,} rows {verb} left out"
        yield from absence_sentences(self.absent, self.nobody, rows)
        if self.mended:
            yield f"in {self.mended:,} of {rows:,} rows the action of a policy is moved onto the feasible set"


def absence_sentences(absent: Mapping[str, int], nobody: int, rows: int) -> Iterator[str]:
    """Yield in how many rows members have no value, and in how many none of them has one."""
    yield from (f"{name!r} has no answer in {count:,} of {rows:,} rows" for name, count in absent.items() if count)
    if nobody:
        yield f"in {nobody:,} of {rows:,} rows no member has an answer"


def count_absences(rows: pd.DataFrame, members: Mapping[str, Any]) -> tuple[Counter[str], int]:
    """Return the rows in which each member that is columns lacks a value, and those in which all members do."""
    columns = {name: member for name, member in members.items() if isinstance(member, Columns)}
    missing = {name: absent_rows(member.predict(rows)) for name, member in columns.items()}
    counts = Counter({name: int(each.sum()) for name, each in missing.items() if each.any()})
    all_absent = counts and len(columns) == len(members)
    return counts, int(np.all(list(missing.values()), axis=0).sum()) if all_absent else 0


# The checks


@dataclass(frozen=True)
class MendingTerms:
    """What to do with decisions of policies outside the set, as the job file says; None where it says nothing."""

    on_infeasible: str | None = None
    tolerance: float | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> MendingTerms:
        """Return the terms among the options of an ensemble."""
        return cls(options.get("on_infeasible"), options.get("tolerance"))

    @property
    def given(self) -> dict[str, Any]:
        """The arguments of an ensemble that are given."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def count_mended(self, actions: Floats, name: str, bound: FeasibleSet) -> int:
        """Return how many actions an ensemble moves onto the set; raise ``InfeasibleActionError`` as it would."""
        _, moved = as_actions(actions, name, len(actions), bound, Mending(**self.given))
        return len(moved.rows)


@dataclass(frozen=True)
class RowChecks:
    """What rows must be like: the roles of their columns, the members, the set and the sign of payoffs."""

    roles: Roles
    models: dict[str, Columns]
    policies: dict[str, Columns]
    omega: FeasibleSet
    sign: float
    mending: MendingTerms = MendingTerms()

    def __call__(self, rows: pd.DataFrame, place: RowPlace, *, ranges: bool = False) -> tuple[pd.DataFrame, RowCounts]:
        """Return the rows that have labels, and what was counted in them; an error has the ``ranges`` of parameters."""
        labelled = rows[~absent_rows(rows[list(self.roles.labels)].to_numpy())]
        labelled = rows if len(labelled) == len(rows) else labelled
        weights = _checked_weights(labelled, self.roles, place)
        coefficients = self.sign * labelled[list(self.roles.labels)].to_numpy()
        try:
            fallbacks = require_sets(labelled, self.omega, coefficients, place)
        except InputError as error:
            if not ranges:
                raise
            found = "; ".join(str(each) for each in summarise_parameters(self.omega, labelled))
            raise InputError(f"{error} In all {len(labelled):,} rows: {found}.") from error
        mended = [
            require_feasible_actions(labelled, name, policy, self.omega, place, self.mending)
            for name, policy in self.policies.items()
        ]
        absent, nobody = count_absences(labelled, {**self.models, **self.policies})
        return labelled, RowCounts(
            fallbacks=fallbacks,
            unlabelled=len(rows) - len(labelled),
            absent=absent,
            nobody=nobody,
            mended=sum(mended),
            weight=float(weights.sum()),
            weight_squares=float(np.square(weights).sum()),
        )


def _checked_weights(rows: pd.DataFrame, roles: Roles, place: RowPlace) -> Floats:
    """Return the weights of rows, none of them negative."""
    if roles.weight is None:
        return np.ones(len(rows))
    weights = rows[roles.weight].to_numpy()
    wrong = np.flatnonzero(weights < 0)
    if wrong.size:
        row = int(wrong[0])
        raise InputError(
            f"{place.table}: column {roles.weight!r} must hold weights, which are 0 or more; got {weights[row]:g} in "
            f"{place(rows, row)}. A weight is the number of rows that a row counts for."
        )
    return np.asarray(weights)


def require_feasible_actions(
    rows: pd.DataFrame, name: str, policy: Columns, omega: FeasibleSet, place: RowPlace, mending: MendingTerms
) -> int:
    """Return how many decisions of a policy are mended; raise ``InputError`` on those that cannot be."""
    actions = policy.decide(rows)
    missing = absent_rows(actions)
    if missing.any():
        rows, actions = rows[~missing], np.ascontiguousarray(actions[~missing])
    bound = omega.for_rows(rows)
    try:
        return mending.count_mended(actions, name, bound) if len(rows) else 0
    except InfeasibleActionError as error:
        beyond = bound.violation(actions)
        row, columns = int(np.argmax(beyond)), listed([str(each) for each in policy.names], 3)
        constraints = "; ".join(bound.take(slice(row, row + 1)).violated(actions[row]))
        raise InputError(
            f"{place.table}: the decision of policy {name!r} in row {place.number(rows, row)}, counted from 0, is "
            f"outside the feasible set by {beyond[row]:.3g} ({constraints}). Check [feasible] and the columns "
            f"{columns}; if they are predictions, list them in [models]; if they are rounded, set tolerance in "
            "[ensemble] to what they may be off by."
        ) from error


def _solved(bound: FeasibleSet, coefficients: Floats) -> Floats:
    """Return the actions of rows; one that has none is wrong input, not a failure."""
    try:
        return bound.argmax(coefficients)
    except SolverError as error:
        wrong = InputError(str(error))
        wrong.rows = error.rows
        raise wrong from error


def require_sets(rows: pd.DataFrame, omega: FeasibleSet, coefficients: Floats, place: RowPlace) -> Fallbacks:
    """Raise an error that names the first row whose parameters make no set, or whose set has no action.

    If the set has a fallback for such rows, count them. One set for all rows was looked at when it was made.
    """
    if not omega.varies:
        return NO_FALLBACKS
    with place.naming(rows), warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)  # these rows are counted
        bound = omega.for_rows(rows)
        taken = np.flatnonzero(bound.took_fallback(_solved(bound, coefficients), coefficients))
        if not taken.size:
            return NO_FALLBACKS
        first = taken[:1]
        reasons = bound.take(first).unsolved(coefficients[first], rows.iloc[first])
    why = reasons.get(0, "a part of its set has no action.")
    return Fallbacks(len(taken), f"{place(rows, int(first[0]))}: {why}")
