"""Parameters of a set that each row gives: columns of X, callables of X, and fixed numbers between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble._core.columns import Columns, read_values
from optensemble._core.validation import as_floats
from optensemble.exceptions import InputError, OptEnsembleError

Source = Columns | Callable[[Any], Any] | float
"""Where one or several numbers of a parameter come from: columns, a function of X, or the number itself."""


def from_rows(value: Any) -> bool:
    """Return whether the value of an argument, or a part of it, comes from the row.

    >>> from_rows(Columns("budget")), from_rows([Columns("room"), 0.6]), from_rows([0.5, 0.6])
    (True, True, False)
    """
    if isinstance(value, (list, tuple)):
        return any(map(from_rows, value))
    return isinstance(value, Columns) or callable(value)


@dataclass(frozen=True)
class RowParameter:
    """An argument of a set whose numbers come from the row.

    Attributes
    ----------
    name
        The name of the argument.
    sources
        Where its numbers come from, in order.
    shape
        The shape of its value in one row: ``()`` for a number.
    codes
        The numbers of labels, where rows have labels, such as nodes or keys, in place of numbers.
    """

    name: str
    sources: tuple[Source, ...]
    shape: tuple[int, ...]
    codes: Mapping[Any, int] | None = None

    @classmethod
    def of(
        cls, name: str, value: Any, shape: tuple[int, ...] = (), codes: Mapping[Any, int] | None = None
    ) -> RowParameter:
        """Return the parameter that a user's argument describes; its number of columns must fit, if it is known."""
        parameter = cls(name, tuple(_flat(value, name)), shape, codes)
        known = parameter.known_size
        if known not in (None, 1, parameter.size):
            parameter._refuse(known)
        return parameter

    @classmethod
    def unshaped(cls, name: str, value: Any) -> RowParameter:
        """Return a parameter whose shape is not known yet; its ``known_size`` may tell."""
        return cls(name, tuple(_flat(value, name)), ())

    @property
    def size(self) -> int:
        """How many numbers it has in one row."""
        return prod(self.shape)

    @property
    def known_size(self) -> int | None:
        """How many numbers its sources give; None where only the table tells."""
        widths = [
            1 if isinstance(source, float) else source.width if isinstance(source, Columns) else None
            for source in self.sources
        ]
        return None if None in widths else sum(filter(None, widths))

    @property
    def columns(self) -> tuple[str | int, ...] | None:
        """The columns and patterns it needs of X; None if a function of X may need any."""
        if any(callable(source) and not isinstance(source, Columns) for source in self.sources):
            return None
        return tuple(name for source in self.sources if isinstance(source, Columns) for name in source.names)

    @property
    def value(self) -> Any:
        """The argument as the user may give it again."""
        return self.sources[0] if len(self.sources) == 1 else list(self.sources)

    def read(self, X: Any, n: int) -> Floats:
        """Return its numbers in every row of X, of shape (n, size); NaN where X has none, or a label without number."""
        try:
            found = np.concatenate([self._read(source, X, n) for source in self.sources], axis=1)
        except OptEnsembleError as error:
            if str(error).startswith(f"{self.name}"):
                raise
            raise type(error)(f"{self.name} comes from the row, but {error}") from error
        if found.shape[1] == self.size:
            return found
        if found.shape[1] != 1:
            self._refuse(found.shape[1])
        return np.repeat(found, self.size, axis=1)

    def _read(self, source: Source, X: Any, n: int) -> Floats:
        if self.codes is None:
            return _read(source, X, n, self.name)
        codes = self.codes
        labels = _read_labels(source, X, n, self.name)
        import pandas as pd

        which, distinct = pd.factorize(labels.ravel())  # a missing label is -1, the last number
        numbers = np.array([*(codes.get(_plain(label), np.nan) for label in distinct), np.nan])
        return numbers[which].reshape(n, -1)

    def raw(self, X: Any, row: int, entry: int) -> str:
        """Return one of its values in one row as X has it, for messages."""
        n = count_rows(X)
        if self.codes is None:
            return f"{self.read(X, n)[row, entry]:g}"
        labels = np.concatenate([_read_labels(source, X, n, self.name) for source in self.sources], axis=1)
        return repr(_plain(labels[row, min(entry, labels.shape[1] - 1)]))

    def titles(self, X: Any = None) -> list[str]:
        """Return where each number comes from, in words."""
        found = list[str]()
        for source in self.sources:
            if isinstance(source, Columns):
                names = source.names if X is None else source.found_in(X)
                found += [f"column {name!r}" for name in names]
            else:
                found.append("" if isinstance(source, float) else f"{self.name}(X)")
        if len(found) == self.size:
            return found
        return found * self.size if len(found) == 1 else [f"{self.name}[{j}]" for j in range(self.size)]

    def _refuse(self, found: int | None) -> None:
        raise InputError(
            f"{self.name} needs {self.size} number{'s' if self.size > 1 else ''} in each row; {self.value!r} gives "
            f"{found}. Name {'one column for each' if self.size > 1 else 'one column'}, in their order."
        )


def _flat(value: Any, name: str) -> Iterator[Source]:
    if isinstance(value, Columns) or callable(value):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _flat(part, name)
    else:
        yield from as_floats(value, name).ravel().tolist()


def count_rows(X: Any) -> int:
    """Return the number of rows of a table."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _read(source: Source, X: Any, n: int, name: str) -> Floats:
    if isinstance(source, Columns):
        return source.predict(X)
    if isinstance(source, float):
        return np.full((n, 1), source)
    found = as_floats(_call(source, X, name), f"{name}(X)", finite=False)
    return _as_rows(found, n, name)


def _read_labels(source: Source, X: Any, n: int, name: str) -> npt.NDArray[Any]:
    """Return labels of every row, of shape (n, labels)."""
    if isinstance(source, Columns):
        return np.stack([read_values(X, column).astype(object) for column in source.found_in(X)], axis=1)
    if isinstance(source, float):
        return np.full((n, 1), source, dtype=object)
    return _as_rows(np.asarray(_call(source, X, name), dtype=object), n, name)


def _call(function: Callable[[Any], Any], X: Any, name: str) -> Any:
    try:
        return function(X)
    except Exception as error:
        error.add_note(f"This came from the function given as {name}.")
        raise


def _as_rows(found: npt.NDArray[Any], n: int, name: str) -> npt.NDArray[Any]:
    if found.ndim == 0 or len(found) != n:
        raise InputError(f"{name}(X) must return one row for each of the {n} rows of X; got shape {found.shape}.")
    return found.reshape(n, -1)


def _plain(label: Any) -> Any:
    """Return a label as Python has it; a number that is whole as a whole number."""
    value = label.item() if isinstance(label, np.generic) else label
    return int(value) if isinstance(value, float) and value.is_integer() else value


def row_parameters(**arguments: tuple[Any, tuple[int, ...]]) -> tuple[RowParameter, ...]:
    """Return the parameters that come from the row, of arguments given as a value and a shape by name."""
    return tuple(RowParameter.of(name, value, shape) for name, (value, shape) in arguments.items() if from_rows(value))
