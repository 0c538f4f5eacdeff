"""Values as text: the same id or group has the same text in every file format."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Any

from optensemble._core.deferred import pd

_ISO_MIDNIGHT = "T00:00:00"
_TRUTH = ("True", "False", "TRUE", "FALSE")
_WHOLE = re.compile(r"-?\d+\.0+")


def value_text(value: Any) -> str:
    """Return a value as text: 1 and 1.0 are the same, so are true and True, and a day and its midnight.

    >>> value_text(1.0), value_text(True), value_text(pd.Timestamp("2026-01-31")), value_text("007")
    ('1', 'true', '2026-01-31', '007')
    """
    if isinstance(value, (datetime, date)):
        return value.isoformat().removesuffix(_ISO_MIDNIGHT)
    text = str(value)
    if text in _TRUTH:
        return text.lower()
    return text.split(".")[0] if _WHOLE.fullmatch(text) else text


def column_text(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column as text, value by value: the text of a value does not depend on the others."""
    return column.map({value: value_text(value) for value in column.unique()}).astype(object)
