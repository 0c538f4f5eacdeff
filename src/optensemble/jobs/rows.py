"""Rows as an ensemble needs them: validated, groups as text, in time order."""

from __future__ import annotations

import numpy as np
import pandas as pd

from optensemble._core.suggestions import listed
from optensemble.exceptions import InfeasibleActionError, InputError
from optensemble.feasible import FeasibleSet
from optensemble.jobs.roles import Roles
from optensemble.members.columns import Columns
from optensemble.members.validation import as_actions
from optensemble.tables.ids import IdRegister
from optensemble.tables.labels import column_text
from optensemble.tables.reading import ColumnSelection, Tables
from optensemble.tables.times import as_times, in_order


def read_rows(tables: Tables, roles: Roles, numbers: list[str]) -> pd.DataFrame:
    """Read all rows in the order of the files: numbers validated, ids distinct, groups as text."""
    rows = tables.read(needed_columns(roles, numbers))
    if roles.id is not None:
        with IdRegister(roles.id, str(tables)) as ids:
            ids.add(rows[roles.id])
            ids.require_distinct(lambda: iter([rows[roles.id]]))
    return with_text_groups(rows, roles)


def in_time_order(rows: pd.DataFrame, roles: Roles, table: str) -> pd.DataFrame:
    """Return rows in time order, if there is a column of times."""
    if roles.time is None:
        return rows
    times = as_times(rows[roles.time], table)
    return rows.assign(**{roles.time: times}).iloc[in_order(times)].reset_index(drop=True)


def require_feasible_actions(
    rows: pd.DataFrame, name: str, policy: Columns, omega: FeasibleSet, table: str, start: int = 0
) -> None:
    """Raise ``InputError`` on infeasible decisions of a policy; ``start`` is the number of the first row."""
    actions = policy.decide(rows)
    try:
        as_actions(actions, name, len(rows), omega)
    except InfeasibleActionError as error:
        beyond = omega.violation(actions)
        row, columns = int(np.argmax(beyond)), listed([str(each) for each in policy.names], 3)
        raise InputError(
            f"{table}: the decision of policy {name!r} in row {start + row}, counted from 0, is outside the feasible "
            f"set by {beyond[row]:.3g}. Check [feasible] and the columns {columns}; if they are predictions, list "
            "them in [models]."
        ) from error


def needed_columns(roles: Roles, numbers: list[str]) -> ColumnSelection:
    """Return the columns to read, as numbers or as text."""
    texts = [roles.id, *roles.groups, roles.clusters, roles.time]
    return ColumnSelection(tuple(numbers), tuple(name for name in texts if name is not None))


def with_text_groups(rows: pd.DataFrame, roles: Roles) -> pd.DataFrame:
    """Return rows with group labels as text, the same for 1 and 1.0."""
    names = [*roles.groups, *([roles.clusters] if roles.clusters is not None else [])]
    return rows.assign(**{name: column_text(rows[name]) for name in names})
