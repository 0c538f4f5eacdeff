"""Sets made of other sets, whose parameters may come from the row."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble.exceptions import FallbackWarning, InputError, OptEnsembleError
from optensemble.feasible._base import FeasibleSet
from optensemble.feasible._batches import Unsolved
from optensemble.feasible._bound_rows import Fault
from optensemble.feasible._row_parameters import RowParameter


class Part(NamedTuple):
    """An inner set bound to rows of the outer one.

    Attributes
    ----------
    number
        The number of the inner set.
    omega
        The inner set, bound to its rows if it varies.
    rows
        Which rows of the outer set these are: a slice, or indices.
    columns
        Which coordinates of the outer set's actions are its own.
    """

    number: int
    omega: FeasibleSet
    rows: slice | Indices
    columns: slice


class Composite(FeasibleSet):
    """A set that is made of others: side by side, one of several by row, or one with a cost.

    The parameters of the inner sets are the outer set's, under longer names. Their numbers are among its ``values``,
    and inner sets are bound to them whenever they are asked, so that nothing here depends on rows but the values. A
    row is faulty if it is for an inner set that has no fallback itself.

    To write one, call :meth:`_hold` in ``__init__`` and say in :meth:`_parts` which inner sets have which rows,
    coordinates and numbers.
    """

    inner: tuple[FeasibleSet, ...]
    inner_names: tuple[str, ...]
    """What messages call the inner sets, such as "blocks[0]"."""

    def _hold(self, inner: Sequence[FeasibleSet], names: Sequence[str], own: tuple[RowParameter, ...] = ()) -> None:
        """Keep the inner sets, and list their parameters after the set's own."""
        self.inner, self.inner_names = tuple(inner), tuple(names)
        for omega, name in zip(self.inner, self.inner_names, strict=True):
            if omega.row_count is not None:
                raise InputError(f"{name} is bound to rows already. Give the set itself, and bind the whole to rows.")
        self.parameters = own + tuple(
            replace(parameter, name=f"{name}.{parameter.name}")
            for omega, name in zip(self.inner, self.inner_names, strict=True)
            for parameter in omega.parameters
        )
        self._own_parameters = own
        self.needs_table = any(omega.needs_table for omega in self.inner)
        self.has_cost = any(omega.has_cost for omega in self.inner)

    @property
    def convex(self) -> bool:
        """Whether every mixture of actions is one: where that is so in all inner sets."""
        return all(omega.convex for omega in self.inner)

    @property
    def _own_width(self) -> int:
        """How many numbers of a row are the set's own; those of inner sets follow."""
        return sum(parameter.size for parameter in self._own_parameters)

    @abstractmethod
    def _parts(self) -> Iterator[Part]:
        """Go through the inner sets with their rows, each bound to these by :meth:`_bound`."""

    def _bound(self, number: int, start: int, rows: slice | Indices = slice(None)) -> FeasibleSet:
        """Return an inner set bound to rows, whose numbers begin at the column ``start`` of the values."""
        omega = self.inner[number]
        if self._values is None or not omega.varies:
            return omega
        table = None if self._table_rows is None or not omega.needs_table else self._table_rows.take(rows)
        return omega.bind(self._values[rows, start : start + omega.width], table)

    @property
    def open_bounds(self) -> bool:
        """Whether bounds of the actions come from the row, so that only rows tell the box around them."""
        return any(omega.open_bounds for omega in self.inner)

    def _row_box(self) -> tuple[Floats, Floats]:
        if not self.open_bounds or self.row_count is None:
            return self.lower, self.upper
        sides = np.empty((2, self.row_count, self.dimension))
        for part in self._parts():
            for side, bound in zip(sides, part.omega._row_box(), strict=True):
                side[part.rows, part.columns] = bound
        return sides[0], sides[1]

    def _of_rows(self, name: str) -> Floats:
        """Return a parameter of every row, its own or an inner set's; NaN in rows that have no such one."""
        parameter = next(each for each in self.parameters if each.name == name)
        found = np.full((len(self.values), *parameter.shape), np.nan)
        start = 0
        for own in self._own_parameters:
            if own.name == name:
                return self.values[:, start : start + own.size].reshape(found.shape)
            start += own.size
        for part in self._parts():
            prefix = f"{self.inner_names[part.number]}."
            if name.startswith(prefix):
                found[part.rows] = part.omega._of_rows(name.removeprefix(prefix))
        return found

    def _own_faults(self) -> Iterator[Fault]:
        """Go through what is wrong with its own parameters, which inner sets must not be bound to."""
        yield from ()

    def _faults(self) -> Iterator[Fault]:
        yield from self._own_faults()
        for part in self._parts():
            if not part.omega.varies or part.omega.on_failure == "fallback":
                continue
            yield from self._inner_faults(part)

    def _inner_faults(self, part: Part) -> Iterator[Fault]:
        """Go through what is wrong with the parameters of an inner set, by the numbers of the outer set's rows."""
        for fault in part.omega._faults():
            where = np.zeros((len(self.values), *fault.where.shape[1:]), dtype=np.bool_)
            where[part.rows] = fault.where
            yield Fault(f"{self.inner_names[part.number]}.{fault.parameter}", where, fault.rule)

    def report_faults(self, X: Any = None) -> None:
        """Name the rows that have no set, its own or an inner one with a fallback: as an error or as warnings."""
        super().report_faults(X)
        for part in self._parts():
            if part.omega.on_failure == "fallback" and (count := part.omega.faulty.sum()):
                taken = f"{count} of {self.row_count} rows take the fallback action of {self.inner_names[part.number]}"
                found, _, _ = self._describe(next(self._inner_faults(part)), X)
                warnings.warn(f"{taken}: {found}", FallbackWarning, stacklevel=4)

    def _solve_batch(self, coefficients: Floats, hint: Floats | None) -> Floats:
        actions, reasons = np.zeros_like(coefficients), dict[int, str]()
        every = np.arange(len(coefficients))
        for part in self._parts():
            place = _place(part)
            found, why = self._ask(part, coefficients[place], None if hint is None else hint[place])
            actions[place] = found
            for row, reason in why.items():
                reasons.setdefault(int(every[part.rows][row]), f"in {self._title(part)}: {reason}")
        if reasons:
            raise Unsolved(actions, reasons)
        return actions

    def _ask(self, part: Part, coefficients: Floats, hint: Floats | None) -> tuple[Floats, dict[int, str]]:
        """Return an inner set's actions, and for each row that it cannot solve, and has no fallback for, the reason."""
        settles = self._settles(part.omega) or type(part.omega).argmax is not FeasibleSet.argmax
        try:
            if settles:
                return part.omega.argmax(coefficients, hint=hint), {}
            return part.omega._unsettled(coefficients, hint), {}
        except Unsolved as unsolved:
            return unsolved.actions, unsolved.reasons
        except OptEnsembleError as error:
            raise type(error)(f"in {self._title(part)}: {error}") from error

    def _settles(self, omega: FeasibleSet) -> bool:
        """Return whether an inner set is to see to rows that it cannot solve: by its fallback, or by an error."""
        return omega.on_failure == "fallback"

    def _title(self, part: Part) -> str:
        """Return an inner set as messages name it."""
        return f"{self.inner_names[part.number]}, {self.inner[part.number]!r}"

    def took_fallback(self, actions: Floats, C: Floats) -> npt.NDArray[np.bool_]:
        """Return for each row whether its action, or a part of it, is a fallback: its own or an inner set's."""
        taken = super().took_fallback(actions, C)
        for part in self._parts():
            place = _place(part)
            taken[part.rows] |= part.omega.took_fallback(actions[place], C[place])
        return taken

    def _largest_violation(self, actions: Floats) -> Floats:
        """Return for each row the largest violation of an inner set."""
        excess = np.zeros(len(actions))
        for part in self._parts():
            own = part.omega.violation(np.ascontiguousarray(actions[_place(part)]))
            excess[part.rows] = np.maximum(excess[part.rows], own)
        return excess

    @property
    def can_project(self) -> bool:
        """Whether all inner sets can move actions onto themselves."""
        return all(omega.can_project for omega in self.inner)

    def _project(self, actions: Floats) -> Floats:
        moved = actions.copy()
        for part in self._parts():
            own = np.ascontiguousarray(actions[_place(part)])
            moved[_place(part)] = part.omega._moved_inside(own, min(self.tolerance, part.omega.tolerance))
        return moved

    def _broken(self, action: Floats, slack: float) -> list[str]:
        found = list[str]()
        for part in self._parts():
            own = action[part.columns]
            excess = float(part.omega.violation(own[None])[0])
            if excess > slack:
                broken = part.omega._broken(own, slack) or [f"outside by {excess:.3g}"]
                found += [self._name_broken(part, constraint) for constraint in broken]
        return found

    def _name_broken(self, part: Part, constraint: str) -> str:
        """Return a violated constraint of an inner set as the outer one names it."""
        return f"{self.inner_names[part.number]}: {constraint}"

    def cost(self, actions: Floats) -> Floats:
        """Return the known cost of each action: what the inner sets' come to."""
        total = np.zeros(len(actions))
        for part in self._parts():
            if part.omega.has_cost:
                total[part.rows] += part.omega.cost(np.ascontiguousarray(actions[_place(part)]))
        return total

    def binding(self, action: Floats) -> list[str]:
        """Return the constraints of inner sets that bind at an action of the only row that the set is bound to."""
        return [
            f"{self.inner_names[part.number]}.{constraint}"
            for part in self._parts()
            for constraint in part.omega.binding(action[part.columns])
        ]

    def _inner_specs(self) -> list[dict[str, Any]] | None:
        """Return the kind and the arguments of each inner set, or None if one of them cannot be saved."""
        specs = [{"kind": type(omega).__name__, "spec": omega.spec()} for omega in self.inner]
        return None if any(spec["spec"] is None for spec in specs) else specs


def _place(part: Part) -> tuple[slice | Indices, slice]:
    return part.rows, part.columns


def envelope(sets: Sequence[FeasibleSet]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the smallest box around sets of one dimension."""
    return np.min([omega.lower for omega in sets], axis=0), np.max([omega.upper for omega in sets], axis=0)
