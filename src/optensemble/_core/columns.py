"""Columns of a table by name, number or pattern: what members said, or parameters of a set that the row gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble._core.patterns import is_pattern, stars
from optensemble._core.suggestions import did_you_mean, listed
from optensemble.exceptions import InputError

__all__ = ["Columns"]

NUMBERS = "biuf"
"""Kinds of numpy's dtypes that are numbers."""


@dataclass(frozen=True, init=False, repr=False)
class Columns:
    """Columns of X, where a model, a policy or a parameter of a feasible set is expected.

    Parameters
    ----------
    names
        For a model or policy one column for each coordinate of the feasible set, in its order; for a parameter as many
        as it has numbers. Names of the columns of a frame (pandas or polars), or whole numbers, from 0, of the columns
        of an array; a single one need not be a list. A name with a star stands for all columns that match it: sorted
        where the star stands for numbers, and otherwise in the order of the table.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"vendor_north": [1.0, 2.0], "vendor_south": [3.0, 4.0], "day": ["Mon", "Tue"]})
    >>> vendor = Columns(["vendor_north", "vendor_south"])
    >>> vendor.predict(table)
    array([[1., 3.],
           [2., 4.]])
    >>> Columns("vendor_*").predict(table)
    array([[1., 3.],
           [2., 4.]])
    """

    names: tuple[str, ...] | tuple[int, ...]

    def __init__(self, names: str | int | Iterable[str] | Iterable[int]) -> None:
        object.__setattr__(self, "names", as_column_names(names))

    def predict(self, X: Any) -> Floats:
        """Return the columns of every row of X, of shape (n, d); NaN where X has no value."""
        return read_columns(X, self.names)

    @property
    def width(self) -> int | None:
        """The number of columns; None if a pattern leaves that to the table."""
        return None if any(isinstance(name, str) and is_pattern(name) for name in self.names) else len(self.names)

    def found_in(self, X: Any) -> tuple[str, ...] | tuple[int, ...]:
        """Return the columns of X that the names and patterns stand for."""
        frame = as_frame(X)
        return self.names if frame is None else self.found_among(frame.columns)

    def found_among(self, columns: Sequence[str]) -> tuple[str, ...] | tuple[int, ...]:
        """Return the same of a frame that has these columns; names without a star need not be among them."""
        return _expanded(columns, self.names)

    def decide(self, X: Any) -> Floats:
        """Return the same, for columns that hold actions."""
        return self.predict(X)

    def __call__(self, X: Any) -> Floats:
        """Return the same, where a function is expected."""
        return self.predict(X)

    def __repr__(self) -> str:
        return f"Columns({list(self.names)!r})"


def as_column_names(names: Any) -> tuple[str, ...] | tuple[int, ...]:
    """Return distinct names of columns, or distinct whole numbers of columns, as a tuple."""
    advice = "Give a list of names of a frame's columns, or of whole numbers of an array's."
    single = isinstance(names, str) or (isinstance(names, Integral) and not isinstance(names, bool))
    try:
        given = [names] if single else list(names)
    except TypeError as error:
        raise InputError(f"names must be a list of columns; got {names!r}. {advice}") from error
    numbers = [isinstance(name, Integral) and not isinstance(name, bool) and int(name) >= 0 for name in given]
    if not given or not (all(numbers) or all(isinstance(name, str) for name in given)):
        raise InputError(f"names must be all text, or all whole numbers from 0; got {given!r}. {advice}")
    columns = [int(name) if number else str(name) for name, number in zip(given, numbers, strict=True)]
    twice = [(name, count) for name, count in Counter(columns).items() if count > 1]
    if twice:
        raise InputError(f"names must be distinct; got {twice[0][0]!r} {twice[0][1]} times. Name it once.")
    return cast("tuple[str, ...] | tuple[int, ...]", tuple(columns))


def read_columns(X: Any, names: tuple[str, ...] | tuple[int, ...]) -> Floats:
    """Return the named columns of a frame, or the numbered ones of an array, of shape (n, d); NaN where missing."""
    frame = as_frame(X)
    return _numbered(X, names) if frame is None else _named(frame, names)


def read_values(X: Any, name: str | int) -> npt.NDArray[Any]:
    """Return one column of X as it is, numbers or not."""
    frame = as_frame(X)
    if frame is None:
        array = _as_table(X, (name,))
        return np.asarray(array[:, int(name)])
    _require_columns(frame.columns, (name,))
    return np.asarray(frame[str(name)].to_numpy())


def as_frame(X: Any) -> Any:
    """Return a frame as narwhals sees it; None for anything else."""
    if isinstance(X, np.ndarray):
        return None
    import narwhals as nw  # takes a while to load, and arrays need none

    try:
        frame = nw.from_native(X, eager_only=True, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        twice = ", ".join(
            f"{name!r} {count} times" for name, count in Counter(map(str, X.columns)).items() if count > 1
        )
        raise InputError(f"the columns of X must have distinct names; it has {twice}. Rename or drop some.") from error
    return frame if isinstance(frame, nw.DataFrame) else None


def _expanded(columns: Sequence[str], names: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the columns that names and patterns stand for, in order."""
    found = list[Any]()
    for name in names:
        if isinstance(name, str) and is_pattern(name) and name not in columns:
            before, _, after = name.partition("*")
            found += [before + star + after for star in stars(name, columns, "X")]
        else:
            found.append(name)
    return tuple(found)


def _named(frame: Any, names: tuple[Any, ...]) -> Floats:
    names = _expanded(frame.columns, names)
    _require_columns(frame.columns, names)
    if (whole := _floats_of(frame.to_native(), names)) is not None:
        return whole
    found = [_numeric(frame[name].to_numpy(), f"column {name!r} of X", str(frame[name].dtype)) for name in names]
    return np.stack(found, axis=1)


def _floats_of(X: Any, names: tuple[Any, ...]) -> Floats | None:
    """Return columns of a pandas frame at once, if all hold floats: single ones take long where rows are few."""
    if type(X).__module__.partition(".")[0] != "pandas":
        return None
    part = X[list(names)]
    if set(part.dtypes) != {np.dtype(np.float64)}:
        return None
    return np.array(part.to_numpy(), order="C")  # a copy: a single column would be a view of what the user has


def _require_columns(columns: Sequence[str], names: tuple[Any, ...]) -> None:
    if isinstance(names[0], int):
        raise InputError(
            f"the columns {list(names)} are numbers, but X is a frame with the columns {listed(columns)}. "
            "Name its columns, or give X as an array."
        )
    missing = [name for name in names if name not in columns]
    if missing:
        more = f" (nor {listed(missing[1:])})" if missing[1:] else ""
        hint = did_you_mean(missing[0], columns) or f" Its columns are {listed(columns)}."
        raise InputError(f"X has no column {missing[0]!r}{more}.{hint}")


def _numbered(X: Any, names: tuple[Any, ...]) -> Floats:
    array = _as_table(X, names)
    if array.dtype.kind in NUMBERS:
        return np.asarray(array.take(names, axis=1), dtype=np.float64)
    return np.stack([_numeric(array[:, name], f"column {name} of X", str(array.dtype)) for name in names], axis=1)


def _as_table(X: Any, names: tuple[Any, ...]) -> npt.NDArray[Any]:
    """Return X as an array that has the numbered columns."""
    array = np.asarray(X)
    if array.ndim != 2:
        raise InputError(
            f"X must be a frame or an array of two dimensions; got {type(X).__name__} {array.shape}. Give a single row "
            "as X[:1]."
        )
    if isinstance(names[0], str):
        raise InputError(
            f"the columns {listed(names)} are names, but X is an array of shape {array.shape}, which has none. "
            "Give a pandas or polars frame, or number the columns."
        )
    if max(names) >= array.shape[1]:
        raise InputError(f"X has no column {max(names)}: it has {array.shape[1]}, numbered from 0. Check the numbers.")
    return array


def _numeric(values: npt.NDArray[Any], name: str, kind: str) -> Floats:
    return as_numbers(values, name, kind, "Convert it to numbers, or leave it out of the names.")


def as_numbers(values: npt.NDArray[Any], name: str, kind: str, advice: str = "Convert it to numbers.") -> Floats:
    """Return numbers as float64, with NaN for what is missing. Text is no number, even where it looks like one."""
    if values.dtype.kind == "O":
        import pandas as pd

        given = [np.nan if pd.isna(value) is True else value for value in values]
        if all(isinstance(value, (Real, Decimal)) for value in given):
            return np.array(given, dtype=np.float64)
    if values.dtype.kind not in NUMBERS or kind in ("Categorical", "Enum"):
        raise InputError(f"{name} must be numeric; got {kind}. {advice}")
    return values.astype(np.float64)
