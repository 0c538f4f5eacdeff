"""Tables as users give them (pandas, polars, pyarrow): names of columns, index of rows, and numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from optensemble._core.arrays import Indices
from optensemble._core.columns import NUMBERS, as_numbers
from optensemble._core.deferred import is_pandas_frame, is_pandas_series, nw, pd
from optensemble.members.number_table import NumberTable

_PLAIN = (np.ndarray, list, tuple, int, float, str)
_MADE_UP = ("column", "action")  # polars' names for the columns of an array, and an ensemble's for nameless labels

_REMEMBERED = 4
_LATELY: tuple[tuple[pd.Index, tuple[str, ...]], ...] = ()
"""The columns of frames seen lately, all of them texts: to read the names of an index takes longer than to decide."""


def column_names(table: Any) -> tuple[Any, ...] | None:
    """Return the names of a frame's columns, or of a column alone; None for what has none."""
    if isinstance(table, _PLAIN):
        return None
    if is_pandas_frame(table):
        return tuple(table.columns)
    if is_pandas_series(table):
        return None if table.name is None else (table.name,)
    found = _as_narwhals(table)
    if isinstance(found, nw.DataFrame):
        return tuple(found.columns)
    return (found.name,) if isinstance(found, nw.Series) and found.name else None


def text_names(table: Any) -> tuple[str, ...] | None:
    """Return the names of a frame's columns if they are distinct texts; None otherwise, and for a column alone."""
    if isinstance(table, NumberTable):
        return table.names
    if is_pandas_frame(table):
        return _text_columns(table.columns)
    names = column_names(table)
    return None if names is None or not is_frame(table) else _distinct_texts(names)


def _text_columns(columns: pd.Index) -> tuple[str, ...] | None:
    """Return the same of a pandas frame's columns; frames of one source have equal columns, which are read once."""
    global _LATELY
    for known, names in _LATELY:
        if columns.equals(known):
            return names
    found = _distinct_texts(tuple(columns))
    if found is not None:
        _LATELY = ((columns, found), *_LATELY[: _REMEMBERED - 1])  # one assignment: threads may share it
    return found


def _distinct_texts(names: tuple[Any, ...]) -> tuple[str, ...] | None:
    return names if all(isinstance(name, str) for name in names) and len(set(names)) == len(names) else None


def is_frame(table: Any) -> bool:
    """Return whether something is a frame: pandas, polars, pyarrow, or one that is used like these."""
    if isinstance(table, _PLAIN):
        return False
    return is_pandas_frame(table) or isinstance(_as_narwhals(table), nw.DataFrame)


def is_made_up(names: Sequence[Any]) -> bool:
    """Return whether names only number the columns.

    >>> is_made_up([0, 1]), is_made_up(["column_0", "column_1"]), is_made_up(["north", "south"]), is_made_up([1, 0])
    (True, True, False, False)
    """
    numbers = range(len(names))
    return list(names) == list(numbers) or any(
        list(names) == [f"{word}_{number}" for number in numbers] for word in _MADE_UP
    )


def date_columns(table: Any) -> Iterator[tuple[str, Any]]:
    """Go through the columns of a frame that hold dates or times, without gaps."""
    found = None if isinstance(table, _PLAIN) else _as_narwhals(table)
    if isinstance(found, nw.DataFrame):
        for name, kind in found.schema.items():
            if kind in (nw.Date, nw.Datetime) and not found[name].null_count():
                yield name, found[name]


def index_of(table: Any) -> pd.Index | None:
    """Return the index of a pandas frame or series; None for what has none."""
    return table.index if is_pandas_frame(table) or is_pandas_series(table) else None


def is_default(index: pd.Index) -> bool:
    """Return whether an index only numbers the rows."""
    return isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1


def is_numeric(table: pd.DataFrame) -> bool:
    """Return whether all columns of a frame are numbers of numpy's, which have no other gaps than NaN."""
    return all(isinstance(kind, np.dtype) and kind.kind in NUMBERS for kind in set(table.dtypes.to_numpy()))


def numbers_of(table: Any, what: str) -> Any:
    """Return the numbers of a frame or a column as floats, NaN where there is none; all else as it is.

    ``what`` it is, for errors: a column of text or dates is named.
    """
    if isinstance(table, _PLAIN):
        return table
    if is_pandas_frame(table):
        if is_numeric(table):
            return table.to_numpy()
        columns: list[Any] = [table.iloc[:, number] for number in range(table.shape[1])]
        return _stacked(columns, list(table.columns), len(table), what)
    if is_pandas_series(table):
        return _column(table, f"{what} {table.name!r}" if table.name is not None else what)
    found = _as_narwhals(table)
    if isinstance(found, nw.DataFrame):
        return _stacked([found[name] for name in found.columns], found.columns, len(found), what)
    return _column(found, f"{what} {found.name!r}" if found.name else what) if isinstance(found, nw.Series) else table


def _stacked(columns: list[Any], names: Sequence[Any], rows: int, what: str) -> Any:
    found = [_column(column, f"column {name!r} of {what}") for column, name in zip(columns, names, strict=True)]
    return np.stack(found, axis=1) if found else np.empty((rows, 0))


def _column(column: Any, what: str) -> Any:
    kind = "Categorical" if isinstance(column.dtype, pd.CategoricalDtype) else str(column.dtype)
    return as_numbers(np.asarray(column.to_numpy()), what, kind)


def copy_of(table: Any) -> Any:
    """Return a copy that shares no memory with a table, whatever that is a part of."""
    if isinstance(table, np.ndarray) or is_pandas_frame(table) or hasattr(table, "tocsr"):
        return table.copy()
    frame = None if isinstance(table, _PLAIN) else _as_narwhals(table)
    if isinstance(frame, nw.DataFrame):
        return frame[list(range(len(frame)))].to_native()  # a clone would share its buffers
    return deepcopy(table)


def as_kind(table: Any, like: Any) -> Any:
    """Return a table as one of the kind of another: pandas, polars, pyarrow or an array; as it is, if it cannot be one.

    The columns of an array are those of the other table, by position.

    >>> as_kind(np.ones((2, 1)), pd.DataFrame({"a": [1]})).columns.tolist()
    ['a']
    """
    if type(table) is type(like):
        return table
    if isinstance(like, np.ndarray) and is_frame(table):
        numbers = nw.from_native(table, eager_only=True).to_numpy()
        return numbers if numbers.dtype.kind in NUMBERS else table
    if isinstance(table, np.ndarray) and is_frame(like):
        names = column_names(like) or ()
        return as_kind(pd.DataFrame(table, columns=names), like) if table.shape[1:] == (len(names),) else table
    if not (is_frame(table) and is_frame(like)):
        return table
    frame, kind = nw.from_native(table, eager_only=True), nw.from_native(like, eager_only=True).implementation
    if kind.is_pandas():
        return frame.to_pandas()
    return frame.to_polars() if kind.is_polars() else frame.to_arrow() if kind.is_pyarrow() else table


def take(values: Any, order: Indices) -> Any:
    """Return rows in another order, as the same kind of thing where it is a table."""
    if is_pandas_frame(values) or is_pandas_series(values):
        return values.iloc[order]
    found = None if isinstance(values, _PLAIN) else _as_narwhals(values)
    if isinstance(found, (nw.DataFrame, nw.Series)):
        return found[order.tolist()].to_native()
    return np.asarray(values)[order]


def select(frame: Any, names: Sequence[str]) -> Any:
    """Return some columns of a frame, in this order."""
    if is_pandas_frame(frame):
        return frame[list(names)]
    return nw.from_native(frame, eager_only=True).select(list(names)).to_native()


def _as_narwhals(table: Any) -> Any:
    return nw.from_native(table, eager_only=True, allow_series=True, pass_through=True)
