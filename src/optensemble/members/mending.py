"""Actions of policies that are off by rounding: what to do with them, and what was done."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.validation import describe_rows, require_choice, require_number
from optensemble.exceptions import InfeasibleActionError
from optensemble.feasible import FeasibleSet

ON_INFEASIBLE = ("project", "raise")
"""What may be done with actions that are outside the set."""

_ROUNDING = 1e-6  # of the set's extent: a planner's log may be rounded


@dataclass(frozen=True)
class Mending:
    """What to do with actions of policies that are outside the feasible set.

    Attributes
    ----------
    on_infeasible
        ``"project"``: actions that are outside by no more than the tolerance are moved onto the set, all others are an
        error. ``"raise"``: all are, but for the set's own tolerance.
    tolerance
        In the units of the set's ``violation``; None is 1e-6 of its extent.
    """

    on_infeasible: str = "project"
    tolerance: float | None = None

    def check(self) -> None:
        """Raise ``InputError`` on what cannot be."""
        require_choice(self.on_infeasible, "on_infeasible", ON_INFEASIBLE)
        if self.tolerance is not None:
            require_number(self.tolerance, "tolerance", at_least=0)

    def most(self, feasible: FeasibleSet) -> float:
        """Return the largest violation that is mended."""
        given = _ROUNDING * feasible.extent if self.tolerance is None else float(self.tolerance)
        return max(given, feasible.tolerance)

    def mend(self, actions: Floats, name: str, feasible: FeasibleSet) -> tuple[Floats, Moved]:
        """Return the actions of a policy with those off by rounding moved onto the set, or raise an error."""
        outside, most = feasible.violation(actions), self.most(feasible)
        if self.on_infeasible == "raise":
            allowed = feasible.tolerance
        else:
            # A set that cannot move actions accepts those that are outside by next to nothing.
            allowed = most if feasible.can_project else max(_ROUNDING * feasible.extent, feasible.tolerance)
        beyond = np.flatnonzero(~(outside <= allowed))
        if beyond.size:
            raise self._error(actions, name, feasible, outside, beyond)
        rows = np.flatnonzero(~(outside <= feasible.tolerance))
        if not rows.size or not feasible.can_project:
            return actions, UNMOVED
        moved = actions.copy()
        moved[rows] = feasible.take(rows).project(actions[rows])
        return moved, Moved(rows, float(np.abs(moved[rows] - actions[rows]).max()))

    def _error(
        self, actions: Floats, name: str, feasible: FeasibleSet, outside: Floats, rows: Indices
    ) -> InfeasibleActionError:
        named, first = f"{describe_rows(rows)} of {len(actions)}", int(rows[0])
        which = "there" if len(rows) == 1 else "in the first of them"
        constraints = "; ".join(feasible.take(slice(first, first + 1)).violated(actions[first]))
        error = InfeasibleActionError(
            f"policy {name!r} returned actions outside the feasible set in {named}, by up to {outside.max():.3g}; "
            f"{which}: {constraints}. {self._advice(feasible, float(outside.max()))} Check that it decides for the set "
            f"{feasible!r}, or project its actions onto it; if it is a model, give its policy: lambda X: "
            "omega.argmax(model.predict(X)), with a minus for costs."
        )
        error.rows = named, first, len(rows)
        return error

    def _advice(self, feasible: FeasibleSet, largest: float) -> str:
        if not feasible.can_project:
            return "This set cannot move actions onto itself."
        most = self.most(feasible)
        if self.on_infeasible == "raise" and largest <= most:
            return f"on_infeasible='project' mends them: it moves what is outside by at most {most:.3g} onto the set."
        if largest > feasible.extent:
            return "That is more than the whole extent of the set: check units."
        how = "on_infeasible='project' with " if self.on_infeasible == "raise" else ""
        return f"If that is rounding, {how}a larger tolerance= (now {most:.3g}) moves them onto the set."


DEFAULT_MENDING = Mending()


class Moved(NamedTuple):
    """The rows of a batch in which a policy was moved onto the set, and by how much in a coordinate, at most."""

    rows: Indices
    most: float


UNMOVED = Moved(np.empty(0, dtype=np.int64), 0.0)


class Tally:
    """A count, over all batches that members were asked about, of rows in which policies were moved onto the set.

    Copies that other processes make count for themselves.

    Attributes
    ----------
    asked, moved, most
        By policy: the rows asked about, those in which it was moved, and by how much at most.
    rows
        Rows in which any policy was moved.
    """

    def __init__(self) -> None:
        self.asked, self.moved, self.most = dict[str, int](), dict[str, int](), dict[str, float]()
        self.rows = 0
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def add(self, n: int, found: Sequence[tuple[str, Moved]]) -> None:
        """Take in what was moved in a batch of ``n`` rows."""
        with self._lock:
            for name, moved in found:
                self.asked[name] = self.asked.get(name, 0) + n
                self.moved[name] = self.moved.get(name, 0) + len(moved.rows)
                self.most[name] = max(self.most.get(name, 0.0), moved.most)
            rows = [moved.rows for _, moved in found if len(moved.rows)]
            self.rows += len(np.unique(np.concatenate(rows))) if rows else 0

    def notes(self, *, once: bool = True) -> list[str]:
        """Return a sentence for each policy that was moved; rows are not counted unless each was asked about once."""
        told = list[str]()
        for name, count in self.moved.items():
            where = f"in {count:,} of {self.asked[name]:,} rows" if once else "in some rows"
            if count:
                told.append(
                    f"policy {name!r} was moved onto the feasible set {where}, by at most {self.most[name]:.2g} in a "
                    "coordinate"
                )
        return told
