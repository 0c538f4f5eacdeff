"""Libraries of tables, loaded when something in them is first used: decisions from file to file often need neither.

    from optensemble._core.deferred import pd

is ``import pandas as pd`` otherwise. To ask whether something is a frame does not load the library: if it is not loaded
yet, nothing is a frame of it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    import narwhals as nw
    import pandas as pd
    import pyarrow.compute as compute

__all__ = ["compute", "is_pandas_frame", "is_pandas_series", "is_plain_frame", "nw", "pd"]


class _Deferred:
    """A module in the place of which this stands until one of its names is asked for."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(self._module), name)
        setattr(self, name, found)  # from now on it is found at once
        return found


if not TYPE_CHECKING:
    pd, nw, compute = _Deferred("pandas"), _Deferred("narwhals"), _Deferred("pyarrow.compute")


def is_pandas_frame(table: Any) -> TypeGuard[pd.DataFrame]:
    """Return whether something is a pandas frame."""
    return "pandas" in sys.modules and isinstance(table, pd.DataFrame)


def is_plain_frame(table: Any) -> TypeGuard[pd.DataFrame]:
    """Return whether something is a pandas frame, and of no class derived from it."""
    return "pandas" in sys.modules and type(table) is pd.DataFrame


def is_pandas_series(column: Any) -> TypeGuard[pd.Series[Any]]:
    """Return whether something is a pandas series."""
    return "pandas" in sys.modules and isinstance(column, pd.Series)
