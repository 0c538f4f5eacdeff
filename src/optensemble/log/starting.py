"""A new log."""

from __future__ import annotations

from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

from optensemble import __version__
from optensemble.exceptions import InputError, LogError
from optensemble.log.database import Database, open_database
from optensemble.log.decision_log import DecisionLog, insert_checkpoint, pack_checkpoint
from optensemble.log.lead import Lead
from optensemble.log.schema import create_tables, is_log
from optensemble.log.sqlite import SqliteDatabase

_EMPTY = 1 << 16  # bytes of a database without tables


def start_log(live: Any, where: str | PathLike[str]) -> DecisionLog:
    """Begin a log with the state of an ensemble, and lead it."""
    try:
        content = pack_checkpoint(live)
    except InputError as error:
        raise InputError(
            f"a log cannot resume refits of this ensemble, for {error} Fit it on rows that a file can hold, or give "
            "refit='never'."
        ) from error
    database = open_database(where, create=True)
    lead = Lead(database)
    try:
        _require_empty(database)
        with database.writing() as transaction:  # of two that begin one, the second finds the tables of the first
            create_tables(transaction, database, __version__)
            insert_checkpoint(transaction, 0, content)
            lead.enter(transaction)
    except BaseException:
        _leave(database)
        raise
    lead.begin()
    return DecisionLog(database, live, lead)


def _leave(database: Database) -> None:
    """Let go of a database; a file in which nothing was begun is removed."""
    with suppress(LogError):
        empty = isinstance(database, SqliteDatabase) and not database.tables()
        database.close()
        if empty and isinstance(database, SqliteDatabase) and database.path.stat().st_size <= _EMPTY:
            for ending in ("", "-wal", "-shm"):
                Path(f"{database.path}{ending}").unlink(missing_ok=True)


def _require_empty(database: Database) -> None:
    """Refuse a database that has a log already, or a file that has anything else."""
    if is_log(database):
        raise InputError(
            f"{database.name} has a log in it already. Go on with it: LiveEnsemble.resume({database.name!r}), or "
            "`optensemble live` and `optensemble serve`; or give a new log another name."
        )
    if isinstance(database, SqliteDatabase) and database.tables():
        raise InputError(f"{database.name} is a database of something else. Give the log another name.")
