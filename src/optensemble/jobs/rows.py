"""Rows of a table as an ensemble needs them: checked, groups as text, in the order of time."""

from __future__ import annotations

import numpy as np
import pandas as pd

from optensemble._core.suggestions import listed
from optensemble.exceptions import InfeasibleActionError, InputError
from optensemble.feasible import FeasibleSet
from optensemble.jobs.roles import Roles
from optensemble.members.columns import Columns
from optensemble.members.validation import as_actions
from optensemble.tables.ids import Ids
from optensemble.tables.labels import as_texts
from optensemble.tables.reading import Tables, Wanted
from optensemble.tables.times import as_times, in_order


def read_rows(tables: Tables, roles: Roles, numbers: list[str]) -> pd.DataFrame:
    """Read rows whole, as the files have them: numbers checked, ids distinct, groups as text."""
    rows = tables.read(wanted(roles, numbers))
    if roles.id is not None:
        with Ids(roles.id, str(tables)) as ids:
            ids.add(rows[roles.id])
            ids.require_distinct(lambda: iter([rows[roles.id]]))
    return as_groups(rows, roles)


def ordered(rows: pd.DataFrame, roles: Roles, table: str) -> pd.DataFrame:
    """Return rows in the order of time, if there is one."""
    if roles.time is None:
        return rows
    times = as_times(rows[roles.time], table)
    return rows.assign(**{roles.time: times}).iloc[in_order(times)].reset_index(drop=True)


def require_allowed(
    rows: pd.DataFrame, name: str, policy: Columns, omega: FeasibleSet, table: str, start: int = 0
) -> None:
    """Refuse decisions of a policy that the feasible set does not allow; ``start`` is the number of the first row."""
    actions = policy.decide(rows)
    try:
        as_actions(actions, name, len(rows), omega)
    except InfeasibleActionError as error:
        beyond = omega.violation(actions)
        row, columns = int(np.argmax(beyond)), listed([str(each) for each in policy.names], 3)
        raise InputError(
            f"{table}: the decision of policy {name!r} in row {start + row}, counted from 0, is outside the feasible "
            f"set by {beyond[row]:.3g}. Check [feasible] and the columns {columns}; if they are predictions, they "
            "belong to [models]."
        ) from error


def wanted(roles: Roles, numbers: list[str]) -> Wanted:
    """Return which columns to read, and as what."""
    texts = [roles.id, *roles.groups, roles.clusters, roles.time]
    return Wanted(tuple(numbers), tuple(name for name in texts if name is not None))


def as_groups(rows: pd.DataFrame, roles: Roles) -> pd.DataFrame:
    """Make group labels text, so that 1 of one file is the 1 of another."""
    names = [*roles.groups, *([roles.clusters] if roles.clusters is not None else [])]
    return rows.assign(**{name: as_texts(rows[name]) for name in names})
