"""Rows of plain numbers: a frame is made of them at once, which takes a fraction of the time that a table does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np

from optensemble._core.deferred import pd
from optensemble.jobs.live_rows import LiveColumns
from optensemble.jobs.rows import RowReader
from optensemble.members.number_table import NumberTable

_NUMBERS = {float, int}


@dataclass(frozen=True)
class PlainRows:
    """Makes the frame that :class:`~optensemble.jobs.live_table.LiveTable` reads of records, if all are numbers."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, columns: LiveColumns, reader: RowReader | None) -> PlainRows | None:
        """Return what makes frames for an ensemble; None if it needs anything but numbers that may be missing."""
        if reader is None:
            return None
        selection = reader.selection
        names = tuple(dict.fromkeys(selection.numbers))
        others = selection.texts or selection.gaps or reader.of_set.names or columns.known_subgroups
        ordered = not columns.features or tuple(columns.features) == names
        plain = len(names) > 1 and not others and selection.optional.issuperset(names) and ordered
        return cls(names) if plain else None

    def frame(self, records: Sequence[dict[str, Any]]) -> pd.DataFrame | None:
        """Return the frame; None if a value is missing, or is no number."""
        try:
            values = list(map(itemgetter(*self.names), records))
        except KeyError:
            return None
        if not _NUMBERS.issuperset(map(type, chain.from_iterable(values))):
            return None
        return NumberTable(self.names, np.ascontiguousarray(np.array(values, dtype=np.float64).T)).to_pandas()
