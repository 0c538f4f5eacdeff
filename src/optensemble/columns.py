"""Models and policies that are columns of a table: predictions, or actions, that somebody has already made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from optensemble._types import Floats
from optensemble._validation import as_column_names, read_columns

__all__ = ["Columns"]


@dataclass(frozen=True, init=False, repr=False)
class Columns:
    """A model, or a policy, that reads its output from columns of X.

    Parameters
    ----------
    names
        One column for each coordinate of the feasible set, in its order: names of the columns of a frame (pandas or
        polars), or whole numbers, from 0, of the columns of an array.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"vendor_north": [1.0, 2.0], "vendor_south": [3.0, 4.0], "day": ["Mon", "Tue"]})
    >>> vendor = Columns(["vendor_north", "vendor_south"])
    >>> vendor.predict(table)
    array([[1., 3.],
           [2., 4.]])
    """

    names: tuple[str, ...] | tuple[int, ...]

    def __init__(self, names: Iterable[str] | Iterable[int]) -> None:
        object.__setattr__(self, "names", as_column_names(names))

    def predict(self, X: Any) -> Floats:
        """Return the columns of every row of X, of shape (n, d); NaN where X has no value."""
        return read_columns(X, self.names)

    def decide(self, X: Any) -> Floats:
        """Return the same: columns that hold actions."""
        return self.predict(X)

    def __call__(self, X: Any) -> Floats:
        """Return the same: anywhere a function is expected."""
        return self.predict(X)

    def __repr__(self) -> str:
        return f"Columns({list(self.names)!r})"
