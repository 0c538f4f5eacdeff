"""Logs as tests need them: begun with an ensemble that is there, and as a crash at this moment would leave them."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import optensemble as oe
from optensemble.log.starting import start_log
from tests.ensembles.decision import N, problem
from tests.ensembles.live import fitted_on_columns, table

X: Any = table()
Y = problem().Y


def with_log(live: oe.LiveEnsemble, where: Any) -> oe.LiveEnsemble:
    """The ensemble, with a log from now on."""
    live._keep(start_log(live, where))
    return live


def begun(where: Any, **terms: Any) -> oe.LiveEnsemble:
    """A new one with a log."""
    return oe.LiveEnsemble(fitted_on_columns(), log=where, **{"refit": 60, **terms})


def play(live: oe.LiveEnsemble, start: int, stop: int, *, size: int = 10, late: int = 20) -> oe.LiveEnsemble:
    """Decide rows in batches; labels are late by so many rows."""
    for first in range(start, stop, size):
        rows = range(first, first + size)
        live.answer(X.iloc[rows], ids=rows)
        if first - late >= N:
            known = range(first - late, first - late + size)
            live.observe(known, Y[known])
    return live


def after_a_crash(log: Path, to: Path) -> Path:
    """A copy of a log that has what would be there if its leader had ended now."""
    with sqlite3.connect(log) as source, sqlite3.connect(to) as target:
        source.backup(target)
    target.close()
    source.close()
    return ended(to)


def ended(log: Path) -> Path:
    """The log, as if its leader were a process that has ended."""
    connection = sqlite3.connect(log)
    connection.execute("""UPDATE oe_lead SET holder = replace(holder, '"started": ', '"started": 1')""")
    connection.commit()
    connection.close()
    return log


def changed(log: Path, statement: str, **values: Any) -> Path:
    """The log with a change by somebody else."""
    connection = sqlite3.connect(log)
    connection.execute(statement, values)
    connection.commit()
    connection.close()
    return log


def entry_contents(log: Path) -> dict[int, bytes]:
    """The contents of all entries."""
    connection = sqlite3.connect(log)
    found = dict(connection.execute("SELECT seq, content FROM oe_entry ORDER BY seq").fetchall())
    connection.close()
    return found
