"""Times of rows: dates, times or numbers, which give the order of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from optensemble._core.arrays import Indices
from optensemble._core.deferred import pd
from optensemble.exceptions import InputError
from optensemble.tables.reading import is_number


def as_times(column: pd.Series[Any], table: str) -> pd.Series[Any]:
    """Return times as dates, times or numbers; text must be a number or follow ISO 8601."""
    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_datetime64_any_dtype(column):
        return column
    if all(isinstance(value, str) and is_number(value) for value in column):
        return column.astype(np.float64)
    try:
        zones = {_has_zone(value) for value in column}
        if len(zones) == 1:
            return pd.to_datetime(column, format="ISO8601", utc=zones.pop())
    except (ValueError, TypeError):
        pass
    shown = next((str(value) for value in column if not _is_time(value)), str(column.iloc[0]))
    raise InputError(
        f"{table}: column {column.name!r} must hold times; got {shown[:40]!r}. Write dates as 2026-01-31, times as "
        "2026-01-31T06:00, or give numbers; all with a time zone or all without."
    )


def _has_zone(value: Any) -> bool:
    return pd.Timestamp(value).tzinfo is not None


def _is_time(value: Any) -> bool:
    try:
        pd.to_datetime(value, format="ISO8601")
    except (ValueError, TypeError):
        return False
    return True


def in_order(times: pd.Series[Any]) -> Indices:
    """Return the rows in time order; rows of equal time keep their order."""
    return np.argsort(times.to_numpy(), kind="stable")
