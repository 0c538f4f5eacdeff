"""What every feasible set must do: one batched argmax, with a contract."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from optensemble._types import Floats
from optensemble._validation import as_floats
from optensemble.exceptions import EmptySetError, InputError, UnboundedSetError

FEASIBILITY = 1e-7
"""How far an action of ours may stand outside the set."""

TIE = 1e-12
"""Values this close, relative to the size of their terms, are tied; the lowest index wins."""

_ROWS_PER_THREAD = 8192


class FeasibleSet(ABC):
    """Ω: a fixed, bounded set of actions, with ``argmax`` of a linear objective over it.

    The contract of :meth:`argmax`, kept by every set here and expected of every set of yours:

    - row-independent and batch-invariant: a row's action is the same to the last bit alone, in a batch,
      in another order, on one thread or several;
    - ties are broken deterministically, never by solver noise;
    - actions are feasible to 1e-7.

    A set only maximises, and knows nothing of labels, models or events. To write one, set the attributes
    below in ``__init__`` by :meth:`_set_bounds` and implement :meth:`_argmax`, :meth:`violation` and
    :meth:`spec`.

    Attributes
    ----------
    dimension
        The number of coordinates of an action.
    lower, upper
        A box around the set. Buckets of actions are cut between these bounds.
    """

    dimension: int
    lower: Floats
    upper: Floats

    threaded: bool = False
    """Whether ``_argmax`` releases the GIL, so that large batches are shared among threads."""

    def argmax(self, C: npt.ArrayLike) -> Floats:
        """Return the action that maximises ``c·a`` for every row ``c`` of ``C``.

        Parameters
        ----------
        C
            Coefficients, of shape (n, dimension).

        Returns
        -------
        Actions of the same shape, one for each row.
        """
        coefficients = as_floats(C, "the coefficients", ndim=2)
        if coefficients.shape[1] != self.dimension:
            raise InputError(
                f"the coefficients must have {self.dimension} columns, one for each coordinate of the "
                f"actions; got an array of shape {coefficients.shape}."
            )
        pieces = min(numba.get_num_threads(), len(coefficients) // _ROWS_PER_THREAD) if self.threaded else 1
        if pieces <= 1:
            return self._argmax(coefficients)
        with ThreadPoolExecutor(pieces) as pool:
            return np.concatenate(list(pool.map(self._argmax, np.array_split(coefficients, pieces))))

    @abstractmethod
    def _argmax(self, coefficients: Floats) -> Floats:
        """Solve a checked batch of shape (n, dimension)."""

    @abstractmethod
    def violation(self, actions: Floats) -> Floats:
        """Return for each row how far it stands outside the set (0 inside, the largest excess otherwise)."""

    @abstractmethod
    def spec(self) -> dict[str, Any] | None:
        """Return the keyword arguments that make this set again, or None if they cannot be saved."""

    def _set_bounds(self, lower: npt.ArrayLike, upper: npt.ArrayLike, dimension: int) -> None:
        self.dimension = dimension
        self.lower, self.upper = as_bounds(lower, upper, dimension)
        unbounded = np.flatnonzero(~np.isfinite(self.lower) | ~np.isfinite(self.upper))
        if unbounded.size:
            raise UnboundedSetError(
                f"every coordinate of the actions must be bounded; coordinate {unbounded[0]} lies in "
                f"[{self.lower[unbounded[0]]:g}, {self.upper[unbounded[0]]:g}]. Give finite lower= and "
                "upper=."
            )

    @property
    def extent(self) -> float:
        """The largest range of a coordinate, or the largest coordinate where all are fixed: what small means here."""
        return float((self.upper - self.lower).max() or np.abs(self.upper).max() or 1.0)

    @property
    def span(self) -> float:
        """How far actions range, summed over coordinates: what stands for ``d`` beside ``w`` in the bounds."""
        return float((self.upper - self.lower).sum())

    @property
    def reach(self) -> float:
        """How far actions are from 0 at most, summed over coordinates: what stands for ``d`` beside ``alpha``."""
        return float(np.maximum(np.abs(self.lower), np.abs(self.upper)).sum())

    def _outside_box(self, actions: Floats) -> Floats:
        """How far each row leaves the box of the bounds."""
        excess = np.maximum(self.lower - actions, actions - self.upper)
        outside: Floats = np.maximum(excess.max(axis=1), 0.0)
        return outside

    def __repr__(self) -> str:
        return f"{type(self).__name__}(dimension={self.dimension})"


def as_dimension(value: Any) -> int:
    """Return a number of coordinates as a positive int, or say what is wrong with it."""
    try:
        dimension = operator.index(value)
    except TypeError as error:
        raise InputError(f"dimension must be a positive integer; got {value!r}.") from error
    if dimension < 1:
        raise InputError(f"dimension must be at least 1; got {dimension}.")
    return dimension


def bound_length(lower: npt.ArrayLike, upper: npt.ArrayLike) -> int | None:
    """Return the number of coordinates that array bounds speak of; None if both are numbers."""
    lengths = [len(np.asarray(bound)) for bound in (lower, upper) if np.ndim(bound) == 1]
    return max(lengths, default=None)


def as_bounds(lower: npt.ArrayLike, upper: npt.ArrayLike, dimension: int) -> tuple[Floats, Floats]:
    """Return both bounds as arrays of the given length, possibly infinite, with ``lower <= upper``."""
    low, high = _as_bound(lower, "lower", dimension), _as_bound(upper, "upper", dimension)
    crossed = np.flatnonzero(low > high)
    if crossed.size:
        j = crossed[0]
        raise EmptySetError(
            f"no action is feasible: coordinate {j} has lower bound {low[j]:g} above its upper bound "
            f"{high[j]:g}. Check lower= and upper= (upper is 1 unless given)."
        )
    return low, high


def _as_bound(value: npt.ArrayLike, name: str, dimension: int) -> Floats:
    try:
        bound = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numeric; got {value!r}.") from error
    if bound.shape not in ((), (dimension,)):
        raise InputError(
            f"{name} must be a number or have one entry for each of the {dimension} coordinates; "
            f"got an array of shape {bound.shape}. One fixed set for all rows is supported."
        )
    if np.isnan(bound).any():
        raise InputError(f"{name} must not hold NaN. Use -inf or inf where only the constraints bound a coordinate.")
    return np.broadcast_to(bound, (dimension,)).copy()
