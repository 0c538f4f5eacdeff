"""Values as text, so that the same id or group is the same in every file, whatever kind of file it is."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Any

import pandas as pd

_MIDNIGHT = "T00:00:00"
_TRUTH = ("True", "False", "TRUE", "FALSE")
_WHOLE = re.compile(r"-?\d+\.0+")


def as_text(value: Any) -> str:
    """Return a value as text: 1 is the 1.0 of another file, true its True, and a day is its midnight.

    >>> as_text(1.0), as_text(True), as_text(pd.Timestamp("2026-01-31")), as_text("007")
    ('1', 'true', '2026-01-31', '007')
    """
    if isinstance(value, (datetime, date)):
        return value.isoformat().removesuffix(_MIDNIGHT)
    text = str(value)
    if text in _TRUTH:
        return text.lower()
    return text.split(".")[0] if _WHOLE.fullmatch(text) else text


def as_texts(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column as text, value by value: a value's text does not depend on the others."""
    return column.map({value: as_text(value) for value in column.unique()}).astype(object)
