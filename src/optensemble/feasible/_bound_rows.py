"""Sets bound to rows: parameters that come from the row, carried along with the rows, and rows that make no set."""

from __future__ import annotations

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble._core.kernel import SHARED, Kernel
from optensemble._core.suggestions import did_you_mean
from optensemble._core.validation import describe_rows, is_finite
from optensemble.exceptions import FallbackWarning, InputError, UnboundedSetError
from optensemble.feasible._batches import BatchSolver
from optensemble.feasible._bounds import FEASIBILITY, as_bound
from optensemble.feasible._row_parameters import RowParameter, count_rows, from_rows, row_parameters
from optensemble.feasible._table_rows import TableRows

if TYPE_CHECKING:
    from optensemble.feasible._base import FeasibleSet


class Fault(NamedTuple):
    """Rows whose parameters make no set: a mask of rows, or of rows and entries of a parameter, and what is wrong."""

    parameter: str
    where: npt.NDArray[np.bool_]
    rule: str

    @property
    def rows(self) -> npt.NDArray[np.bool_]:
        """The rows."""
        return np.asarray(self.where.reshape(len(self.where), -1).any(axis=1))


class BoundRows(ABC):
    """What :class:`FeasibleSet` is where its parameters come from the row; not to be used itself.

    Everything that depends on the row is an array with a line for each row, ``values``: it is cut, joined and put in
    another order as the rows are.
    """

    dimension: int
    lower: Floats
    upper: Floats
    kernel: Kernel | None = None
    on_failure: str = "raise"
    parameters: tuple[RowParameter, ...] = ()
    has_cost: bool = False
    """Whether acting has a known cost, so that what an action is worth is less than ``c·a``."""
    needs_table: bool = False
    """Whether it needs the rows of X themselves: what :meth:`read_rows` returns is not enough to bind it."""
    _values: Floats | None = None
    _faulty: npt.NDArray[np.bool_] | None = None
    _table_rows: TableRows | None = None
    _fixed_bounds: tuple[Floats | None, ...]

    @abstractmethod
    def spec(self) -> dict[str, Any] | None:
        """Return the keyword arguments that make this set again, or None if they cannot be saved."""

    @abstractmethod
    def _set_bounds(self, lower: npt.ArrayLike, upper: npt.ArrayLike, dimension: int) -> None:
        """Keep bounds that all rows share."""

    @property
    def varies(self) -> bool:
        """Whether parameters of the set come from the row."""
        return bool(self.parameters)

    @property
    def row_count(self) -> int | None:
        """The number of rows that the set is bound to; None if it is one set for all rows, or not bound yet."""
        return None if self._values is None else len(self._values)

    @property
    def values(self) -> Floats:
        """The parameters of every row that the set is bound to, one after the other, of shape (rows, numbers)."""
        return SHARED if self._values is None else self._values

    @property
    def faulty(self) -> npt.NDArray[np.bool_]:
        """Which of the rows that it is bound to have parameters that make no set."""
        return np.zeros(0, dtype=np.bool_) if self._faulty is None else self._faulty

    def for_rows(self, X: Any) -> FeasibleSet:
        """Return Ω for the rows of a batch: what :meth:`argmax` and :meth:`violation` then take, row by row.

        Estimators call it once for each batch and solve with the set it returns: coefficients and actions come in the
        order of ``X``, one for each row. A set without parameters from the row returns itself and looks at no row.

        Parameters
        ----------
        X
            The rows, as the members are given them.

        Examples
        --------
        >>> import pandas as pd
        >>> from optensemble import Columns
        >>> from optensemble.feasible import Knapsack, Simplex
        >>> omega = Simplex(3)
        >>> omega.for_rows([[1.0], [2.0]]) is omega
        True
        >>> bag = Knapsack([3, 4, 5], capacity=Columns("budget"))
        >>> bag.for_rows(pd.DataFrame({"budget": [4.0, 9.0]})).argmax([[2.0, 5.0, 5.0], [2.0, 5.0, 5.0]])
        array([[0., 1., 0.],
               [0., 1., 1.]])
        """
        if not self.varies:
            return cast("FeasibleSet", self)
        bound = self.bind_again(self.read_rows(X), X)
        bound.report_faults(X)
        return cast("FeasibleSet", bound)

    def read_rows(self, X: Any) -> Floats:
        """Return the parameters of every row of X, of shape (rows, numbers)."""
        n = count_rows(X)
        return np.concatenate([parameter.read(X, n) for parameter in self.parameters], axis=1)

    @property
    def width(self) -> int:
        """How many numbers :meth:`read_rows` returns for a row."""
        return sum(parameter.size for parameter in self.parameters)

    def bind(self, values: Floats, rows: TableRows | None = None) -> Self:
        """Return the set bound to rows with these parameters, as :meth:`read_rows` returned them.

        A set that needs the table is given its rows too.
        """
        bound = copy.copy(self)
        bound._values, bound._table_rows = values, rows
        bound._faulty = np.zeros(len(values), dtype=np.bool_)
        for fault in bound._faults():
            bound._faulty |= fault.rows
        if not hasattr(self, "lower"):
            bound.lower, bound.upper = bound.box()
        return bound

    def bind_again(self, values: Floats, X: Any) -> Self:
        """Return the set bound to rows of X whose parameters were read earlier, and reported if they make no set."""
        return self.bind(values, TableRows.of(X, count_rows(X)) if self.needs_table else None)

    def take(self, rows: Any) -> Self:
        """Return the set bound to some of its rows: a slice, indices or a mask; the same set if it is not bound."""
        if self._values is None:
            return self
        part = copy.copy(self)
        part._values, part._faulty = self._values[rows], self.faulty[rows]
        part._table_rows = None if self._table_rows is None else self._table_rows.take(rows)
        return part

    def unfilled(self, n: int) -> Self:
        """Return the set with room for the parameters of ``n`` rows, to be filled in; itself if it has none."""
        if not self.varies:
            return self
        room = copy.copy(self)
        room._values = np.empty((n, self.width))
        room._faulty = np.zeros(n, dtype=np.bool_)
        room._table_rows = TableRows.unfilled(n) if self.needs_table else None
        return room

    def fill(self, bound: FeasibleSet) -> None:
        """Write the parameters of rows into the room made by :meth:`unfilled`."""
        if self._values is not None and self._faulty is not None:
            self._values[:], self._faulty[:] = bound.values, bound.faulty
        if self._table_rows is not None and bound._table_rows is not None:
            self._table_rows.fill(bound._table_rows)

    def reorder(self, rows: slice, order: Indices) -> None:
        """Put the parameters of the rows ``order`` in the place of ``rows``: for who owns them."""
        if self._values is not None and self._faulty is not None:
            self._values[rows], self._faulty[rows] = self._values[order], self._faulty[order]
        if self._table_rows is not None:
            self._table_rows.reorder(rows, order)

    def joined(self, bound: Sequence[FeasibleSet]) -> Self:
        """Return the set bound to the rows of several, which are it bound to some rows each, one after the other."""
        if self._values is None:
            return self
        whole = copy.copy(self)
        whole._values = np.concatenate([each.values for each in bound])
        whole._faulty = np.concatenate([each.faulty for each in bound])
        tables = [each._table_rows for each in bound if each._table_rows is not None]
        whole._table_rows = TableRows.joined(tables) if tables else None
        return whole

    def of_row(self, row: int) -> FeasibleSet:
        """Return the set of one of the rows that this one is bound to, as a set of its own for all rows."""
        arguments = self.spec()
        if arguments is None or not self.varies:
            return cast("FeasibleSet", self)
        return cast("FeasibleSet", type(self)(**arguments | self._arguments_of(row)))

    def _arguments_of(self, row: int) -> dict[str, Any]:
        """Return the arguments that come from the row as they are in one row."""
        return {each.name: self._of_rows(each.name)[row] for each in self.parameters}

    def enveloped(self, lower: Floats, upper: Floats) -> Self:
        """Return the set with a box that holds the actions of all rows to come, or nearly all."""
        if not self.open_bounds:
            return self
        known = copy.copy(self)
        known.lower, known.upper = lower.copy(), upper.copy()
        return known

    @property
    def open_bounds(self) -> bool:
        """Whether bounds of the actions come from the row, so that only rows tell the box around them."""
        return self._bounds_vary()

    def box(self) -> tuple[Floats, Floats]:
        """Return the smallest box around the sets of all rows it is bound to; faulty ones do not count."""
        if not self.open_bounds:
            return self.lower, self.upper
        lower, upper = (np.broadcast_to(side, (len(self.values), self.dimension)) for side in self._row_box())
        sound = ~self.faulty
        if not sound.any():
            return np.zeros(self.dimension), np.ones(self.dimension)
        return lower[sound].min(axis=0) + 0.0, upper[sound].max(axis=0) + 0.0

    def row_bounds(self) -> tuple[Floats, Floats]:
        """Return the bounds of the actions: of every row that the set is bound to, if they come from the row."""
        return self._row_box()

    def beyond(self) -> npt.NDArray[np.bool_]:
        """Return for each row whether its own bounds go beyond ``lower`` and ``upper``."""
        if self.row_count is None or not self.open_bounds:
            return np.zeros(self.row_count or 0, dtype=np.bool_)
        (lower, upper), slack = self._row_box(), FEASIBILITY * (self.upper - self.lower)
        outside = (lower < self.lower - slack) | (upper > self.upper + slack)
        return np.broadcast_to(outside, (self.row_count, self.dimension)).any(axis=1) & ~self.faulty

    def _of_rows(self, name: str) -> Floats:
        """Return a parameter of every row that the set is bound to, of shape (rows, ...)."""
        start = 0
        for parameter in self.parameters:
            if parameter.name == name:
                part = self.values[:, start : start + parameter.size]
                return part.reshape(len(part), *parameter.shape)
            start += parameter.size
        raise KeyError(name)

    def _argument(self, name: str, fixed: Any) -> Any:
        """Return an argument for ``spec``: as it comes from the row, or the fixed value."""
        given = {parameter.name: parameter.value for parameter in self.parameters}
        return given.get(name, fixed)

    def _varies_in(self, name: str) -> bool:
        """Return whether an argument comes from the row."""
        return any(parameter.name == name for parameter in self.parameters)

    def _pack(self) -> Floats:
        """Lay out the parameters of the rows that the set is bound to as the kernel takes them, a row each."""
        return np.ascontiguousarray(self.values)

    def _pack_bounds(self) -> Floats:
        """Lay out the lower and then the upper bounds of each row."""
        return np.concatenate(
            [np.broadcast_to(side, (len(self.values), self.dimension)) for side in self._row_box()], axis=1
        )

    @property
    def bound_kernel(self) -> Kernel | None:
        """The kernel with the parameters of all rows; None where it cannot be used without this set.

        Rows of a cost are assessed by this set alone, and rows that are faulty must not be solved.
        """
        if self.kernel is None or self.has_cost or self.faulty.any() or (self.varies and self.row_count is None):
            return None
        return self.kernel if self._values is None else self.kernel._replace(own=self._pack())

    def batch_solver(self, rows: int) -> BatchSolver:
        """Return what solves many objectives of one batch of so many rows; if the set is bound to rows, of these."""
        return BatchSolver(cast("FeasibleSet", self), rows)

    def _faults(self) -> Iterator[Fault]:
        """Go through what is wrong with the parameters of rows."""
        for parameter in self.parameters:
            found = self._of_rows(parameter.name)
            if not is_finite(found):
                yield Fault(parameter.name, ~np.isfinite(found), "must be a finite number")
        if self._bounds_vary():
            lower, upper = self._row_box()
            crossed = np.broadcast_to(lower > upper, (len(self.values), self.dimension))
            if crossed.any():
                first = "lower" if self._varies_in("lower") else "upper"
                yield Fault(first, crossed, f"must not be {'above upper' if first == 'lower' else 'below lower'}")

    def report_faults(self, X: Any = None) -> None:
        """Name the rows that it is bound to whose parameters make no set: as an error, or a warning with a fallback."""
        if not self.faulty.any():
            return
        fault = next(self._faults())
        found, named, rows = self._describe(fault, X)
        if self.on_failure == "fallback":
            taken = f"{self.faulty.sum()} of {self.row_count} rows have no set and take the fallback action"
            warnings.warn(f"{taken}: {found}", FallbackWarning, stacklevel=3)
            return
        error = InputError(
            f"{found} Correct these rows, leave them out, or let them take a given action by on_failure='fallback'."
        )
        error.rows = named, int(rows[0]), len(rows)
        raise error

    def _describe(self, fault: Fault, X: Any) -> tuple[str, str, Indices]:
        """Return what is wrong, where and what is found there, in words; and the rows, in words and numbers."""
        rows = np.flatnonzero(fault.rows)
        named, first = f"{describe_rows(rows)} of {self.row_count}", int(rows[0])
        told = f"{fault.parameter} {fault.rule}; in {named} it is {self._told(fault, first, X)}."
        return told + self._suggestion(fault, first, X), named, rows

    def _told(self, fault: Fault, row: int, X: Any) -> str:
        """Return the value at fault in one row, and where it comes from."""
        parameter, entry = self._at_fault(fault, row)
        title = parameter.titles(X)[entry]
        value = self._of_rows(parameter.name)[row].ravel()[entry]
        shown = parameter.raw(X, row, entry) if X is not None else f"{value:g}"
        return f"{shown} ({title})" if title else str(shown)

    def _suggestion(self, fault: Fault, row: int, X: Any) -> str:
        """Return the known label that is nearest to an unknown one, as a question."""
        parameter, entry = self._at_fault(fault, row)
        if parameter.codes is None or X is None or np.isfinite(self._of_rows(parameter.name)[row].ravel()[entry]):
            return ""
        return did_you_mean(parameter.raw(X, row, entry).strip("'"), [str(label) for label in parameter.codes])

    def _at_fault(self, fault: Fault, row: int) -> tuple[RowParameter, int]:
        """Return the parameter that is at fault in a row, and the number of its first wrong entry."""
        parameter = next(each for each in self.parameters if each.name == fault.parameter)
        wrong = np.broadcast_to(fault.where.reshape(len(fault.where), -1)[row], (parameter.size,))
        return parameter, int(wrong.argmax())

    def _require_rows(self, n: int) -> None:
        if not self.varies:
            return
        if self.row_count is None:
            names = ", ".join(parameter.name for parameter in self.parameters)
            raise InputError(
                f"{names} of this {type(self).__name__} come{'s' if len(self.parameters) == 1 else ''} from the row, "
                "which it is not bound to yet. Call omega.for_rows(X), and take what it returns."
            )
        if n != self.row_count:
            raise InputError(
                f"the coefficients must have one row for each of the {self.row_count} rows of X that the set is bound "
                f"to; got {n}."
            )

    def _row_told(self, row: int) -> str:
        """Return the parameters of one row in words."""
        shown = list[str]()
        for parameter in self.parameters:
            values = self._of_rows(parameter.name)[row].ravel()
            titles = [title or "fixed" for title in parameter.titles()]
            shown += [f"{parameter.name} = {value:g} ({title})" for value, title in zip(values, titles, strict=True)]
        if not shown:
            return ""
        more = f" and {len(shown) - 4} more" if len(shown) > 4 else ""
        return f"This row has {', '.join(shown[:4])}{more}."

    def _set_row_bounds(self, lower: Any, upper: Any, dimension: int) -> None:
        """Keep bounds of which some may come from the row; then each row's are in :meth:`_row_box`."""
        self.parameters += row_parameters(lower=(lower, (dimension,)), upper=(upper, (dimension,)))
        if not self._bounds_vary():
            self._set_bounds(lower, upper, dimension)
            return
        self.dimension = dimension
        self._fixed_bounds = tuple(
            None if from_rows(given) else as_bound(given, name, dimension)
            for name, given in (("lower", lower), ("upper", upper))
        )
        for name, bound in zip(("lower", "upper"), self._fixed_bounds, strict=True):
            if bound is not None and not np.isfinite(bound).all():
                raise UnboundedSetError(f"{name} must be finite where the other bound comes from the row.")

    def _bounds_vary(self) -> bool:
        """Whether bounds of the actions come from the row."""
        return any(parameter.name in ("lower", "upper") for parameter in self.parameters)

    def _row_box(self) -> tuple[Floats, Floats]:
        """Return the bounds of the actions, of shape (dimension,), or of every row, of shape (rows, dimension)."""
        if not self._bounds_vary() or self.row_count is None:
            return self.lower, self.upper
        lower, upper = (
            self._of_rows(name) if fixed is None else fixed
            for name, fixed in zip(("lower", "upper"), self._fixed_bounds, strict=True)
        )
        return lower, upper

    def _bounds_spec(self) -> dict[str, Any]:
        """Return the bounds as arguments that make them again."""
        if not self._bounds_vary():
            return {"lower": self.lower.copy(), "upper": self.upper.copy()}
        sides = zip(("lower", "upper"), self._fixed_bounds, strict=True)
        return {name: self._argument(name, bound) for name, bound in sides}
