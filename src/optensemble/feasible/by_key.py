"""One of several sets, chosen by a column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from numbers import Integral
from typing import Any, final

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble._core.columns import Columns
from optensemble._core.suggestions import listed
from optensemble.exceptions import EmptySetError, InputError
from optensemble.feasible._base import FeasibleSet, checks_actions
from optensemble.feasible._bound_rows import Fault
from optensemble.feasible._composite import Composite, Part, envelope
from optensemble.feasible._row_parameters import RowParameter, count_rows

Key = str | int


@final
class ByKey(Composite):
    """One of several sets of one dimension, chosen by a column: covariances by month, a network by city.

    The rows of each set are solved in one batch; ties are broken, hints used and failures met by the set in its own
    way. Each set may take parameters from the row itself, and only from rows that have its key.

    Parameters
    ----------
    key
        The column with the keys, by its name or number, as ``Columns``, or as a callable of X.
    sets
        The sets by key; keys are text or whole numbers.
    on_failure, fallback
        What to do with a row whose key has no set, or that its set cannot solve and has no fallback of its own for:
        "raise" an error, or take the "fallback" action and warn.

    Attributes
    ----------
    sets
        The sets by key.

    Examples
    --------
    >>> import pandas as pd
    >>> from optensemble.feasible import Simplex, TopK
    >>> omega = ByKey("region", {"north": Simplex(3), "south": TopK(3, k=2)})
    >>> rows = pd.DataFrame({"region": ["south", "north", "south"]})
    >>> omega.for_rows(rows).argmax([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])
    array([[0., 1., 1.],
           [0., 0., 1.],
           [1., 1., 0.]])
    >>> omega.for_rows(pd.DataFrame({"region": ["sooth"]}))
    Traceback (most recent call last):
    ...
    optensemble.exceptions.InputError: key must be one of 'north', 'south'; in row 0 of 1 it is 'sooth' (column ...
    """

    def __init__(
        self,
        key: str | int | Columns | Callable[[Any], Any],
        sets: Mapping[Any, FeasibleSet],
        *,
        on_failure: str = "raise",
        fallback: npt.ArrayLike | None = None,
    ) -> None:
        self.sets = _as_sets(sets)
        source = Columns(key) if isinstance(key, (str, Integral)) and not isinstance(key, bool) else key
        if not callable(source):
            raise InputError(f"key must be a column or a callable of X; got {key!r}. Give the name of a column.")
        codes = {label: number for number, label in enumerate(self.sets)}
        inner = tuple(self.sets.values())
        self._hold(inner, [f"sets[{label!r}]" for label in codes], (RowParameter.of("key", source, (), codes),))
        self.dimension = inner[0].dimension
        if not self.open_bounds:
            self._set_bounds(*envelope(inner), self.dimension)
        self._set_failure(on_failure, fallback)

    @property
    def width(self) -> int:
        """How many numbers of a row there are: the key's, and as many as the set with the most has."""
        return 1 + max(omega.width for omega in self.inner)

    def read_rows(self, X: Any) -> Floats:
        """Return the number of each row's set, and that set's own parameters, of shape (rows, numbers)."""
        n = count_rows(X)
        values = np.zeros((n, self.width))
        values[:, :1] = self._own_parameters[0].read(X, n)
        found = dict[Any, Floats]()  # many sets may read the same columns
        for number, omega in enumerate(self.inner):
            rows = values[:, 0] == number
            if omega.varies and rows.any():
                asked = tuple(each.sources for each in omega.parameters), tuple(each.shape for each in omega.parameters)
                plain = not isinstance(omega, Composite) and all(each.codes is None for each in omega.parameters)
                if not plain or asked not in found:
                    found[asked] = omega.read_rows(X)
                values[rows, 1 : 1 + omega.width] = found[asked][rows]
        return values

    def _parts(self) -> Iterator[Part]:
        if self._values is None:
            return
        chosen = self._values[:, 0]
        for number in np.unique(chosen[~np.isnan(chosen)]).astype(np.int64).tolist():
            rows = np.flatnonzero(chosen == number)
            yield Part(number, self._bound(number, 1, rows), rows, slice(None))

    def _row_box(self) -> tuple[Floats, Floats]:
        lower, upper = super()._row_box()
        if self.open_bounds and self.row_count is not None:
            unknown = np.isnan(self.values[:, 0])  # rows whose key has no set have no bounds
            lower[unknown], upper[unknown] = 0.0, 0.0
        return lower, upper

    def _own_faults(self) -> Iterator[Fault]:
        unknown = np.isnan(self.values[:, 0])
        if unknown.any():
            yield Fault("key", unknown, f"must be one of {listed(list(self.sets))}")

    def _title(self, part: Part) -> str:
        return f"the rows of key {list(self.sets)[part.number]!r}"

    @checks_actions
    def violation(self, actions: Floats) -> Floats:
        """Return for each row its violation of the row's own set."""
        if self.row_count is None:
            self._require_rows(len(actions))
        return self._largest_violation(actions)

    def of_row(self, row: int) -> FeasibleSet:
        """Return the set of one of the rows that this one is bound to."""
        (part,) = self.take(slice(row, row + 1))._parts()
        return part.omega.of_row(0)

    def binding(self, action: Floats) -> list[str]:
        """Return the key of the only row that the set is bound to, and the constraints of its set that bind."""
        self._require_rows(1)
        column = self._own_parameters[0].titles()[0]
        keys = [f"key = {list(self.sets)[part.number]!r} ({column})" for part in self._parts()]
        return keys + super().binding(action)

    def spec(self) -> dict[str, Any] | None:
        """Return the key, and the kind and arguments of each set, or None if one of them cannot be saved."""
        specs = self._inner_specs()
        if specs is None:
            return None
        return {"key": self._own_parameters[0].value, "keys": list(self.sets), "sets": specs, **self._failure_spec()}


def _as_sets(sets: Mapping[Any, FeasibleSet]) -> dict[Key, FeasibleSet]:
    """Return sets by key: text or whole numbers as Python has them."""
    if not isinstance(sets, Mapping):
        raise InputError(f"sets must be a dict of feasible sets by key; got {type(sets).__name__}.")
    if not sets:
        raise EmptySetError("sets is empty. Give at least one feasible set by its key.")
    found = dict[Key, FeasibleSet]()
    for key, omega in sets.items():
        if isinstance(key, bool) or not isinstance(key, (str, Integral)):
            raise InputError(f"the keys of sets must be text or whole numbers; got {key!r}.")
        if not isinstance(omega, FeasibleSet):
            raise InputError(f"sets must be feasible sets by key; that of {key!r} is {type(omega).__name__}.")
        found[key if isinstance(key, str) else int(key)] = omega
    sizes = {key: omega.dimension for key, omega in found.items()}
    if len(set(sizes.values())) > 1:
        raise InputError(f"all sets must have one dimension; got {sizes}. Bring them to the same coordinates.")
    return found
