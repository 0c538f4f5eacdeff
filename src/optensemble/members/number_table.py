"""A table of numbers without a library of tables: what decisions need of a file whose members are columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from optensemble._core.arrays import Floats
from optensemble._core.deferred import pd


@dataclass(frozen=True, eq=False)
class NumberTable:
    """Columns of numbers by distinct names; ``columns`` is of shape (columns, rows).

    Members that are columns are read from it as from a pandas frame. For all else it is made into one.
    """

    names: tuple[str, ...]
    columns: Floats

    def __len__(self) -> int:
        return int(self.columns.shape[1])

    @property
    def rows(self) -> Floats:
        """The numbers, row by row."""
        return self.columns.T

    def to_pandas(self) -> pd.DataFrame:
        """Return the same as a pandas frame, without a copy."""
        return pd.DataFrame(self.rows, columns=_as_index(self.names), copy=False)


@lru_cache(maxsize=16)
def _as_index(names: tuple[str, ...]) -> pd.Index:
    """Return names as an index, which takes longer to make than a small frame; tables of one source have the same."""
    return pd.Index(list(names))
