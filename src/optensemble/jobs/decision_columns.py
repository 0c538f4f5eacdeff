"""Columns of a table of decisions: a key, what is copied from the rows, and what was decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.deferred import pd
from optensemble.ensembles.base import Answer
from optensemble.exceptions import InputError
from optensemble.jobs.roles import FOLLOWED, HIGH, LOW, PROMISED, Roles, decided_columns
from optensemble.jobs.saved_ensemble import SavedEnsemble
from optensemble.tables.arrow_columns import repeated_texts
from optensemble.tables.reading import NumberBatch, Tables, require_columns

ROW = "row"
"""The key of rows that have neither an id nor a time: their number, from 0."""


@dataclass(frozen=True)
class CopiedColumns:
    """The key, which is the id, else the time, else the number of the row; and further columns that are copied."""

    key: str
    id: str | None
    keep: tuple[str, ...] = ()

    @property
    def read(self) -> tuple[str, ...]:
        """The columns that are read for nothing else but to be copied; ids are read as text."""
        return self.keep if self.key in (self.id, ROW) else (self.key, *self.keep)

    def of(self, part: pd.DataFrame | NumberBatch, kept: dict[str, Any], start: int) -> dict[str, Any]:
        """Return the columns of a batch whose first row has the number ``start``."""
        if self.id is not None:
            return {self.id: part[self.id], **kept}
        return kept if self.key in kept else {self.key: np.arange(start, start + len(part)), **kept}


def find_copied(roles: Roles, tables: Tables, keep: Sequence[str] = ()) -> CopiedColumns:
    """Return the columns to copy; ``keep`` names further ones, several with commas between."""
    columns, written = tables.columns, decided_columns(roles)
    timed = roles.time is not None and roles.time in columns
    key = roles.id if roles.id is not None else str(roles.time) if timed else ROW
    if key in written:
        raise InputError(
            f"the time column {key!r} has the name of a column of the decisions. Rename it, or name an --id-column."
        )
    names = tuple(dict.fromkeys(name for text in keep for name in _split_names(text, columns)))
    require_columns(names, columns, f"--keep: {tables}")
    for name in names:
        if name == key and name in (roles.id, roles.time):
            raise InputError(f"--keep names {name!r}, which is written anyway, as the key. Leave it out.")
        if name == key or name in written:
            raise InputError(
                f"--keep names {name!r}, which is the name of a column of the decisions. Rename it in the table, or "
                "leave it out."
            )
    return CopiedColumns(key, roles.id, names)


def _split_names(text: str, columns: Sequence[str]) -> list[str]:
    """Return the names in a text with commas; a column may have commas in its name."""
    return [text] if text in columns else [name.strip() for name in text.split(",") if name.strip()]


def decision_columns(saved: SavedEnsemble, answer: Answer) -> dict[str, Any]:
    """Return what was decided: actions, followed member, promised payoff and its 95 % limits."""
    return {
        **{f"action_{name}": answer.actions[:, j] for j, name in enumerate(saved.roles.coordinates)},
        FOLLOWED: repeated_texts(saved.ensemble.names_, answer.chosen),
        PROMISED: answer.promised,
        LOW: _finite_or_nan(answer.low),
        HIGH: _finite_or_nan(answer.high),
    }


def _finite_or_nan(limits: Floats) -> Floats:
    """Return limits with NaN in place of infinity."""
    return np.where(np.isfinite(limits), limits, np.nan)
