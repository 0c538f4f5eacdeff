"""A new log."""

from __future__ import annotations

import os
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

from optensemble import __version__
from optensemble.exceptions import InputError
from optensemble.log.database import Database, open_database
from optensemble.log.decision_log import DecisionLog, insert_checkpoint, pack_checkpoint
from optensemble.log.lead import Lead
from optensemble.log.schema import create_tables, is_log
from optensemble.log.sqlite import SqliteDatabase


def start_log(live: Any, where: str | PathLike[str]) -> DecisionLog:
    """Begin a log with the state of an ensemble, and lead it."""
    try:
        content = pack_checkpoint(live)
    except InputError as error:
        raise InputError(
            f"a log cannot resume refits of this ensemble, for {error} Fit it on rows that a file can hold, or give "
            "refit='never'."
        ) from error
    was_there = "://" in os.fspath(where) or Path(where).exists()
    database = open_database(where, create=True)
    lead = Lead(database)
    try:
        _require_empty(database)
        with database.writing() as transaction:
            create_tables(transaction, database, __version__)
            insert_checkpoint(transaction, 0, content)
        lead.take(0.0)
    except BaseException:
        database.close()
        if not was_there:
            _remove(Path(where))
        raise
    return DecisionLog(database, live, lead)


def _require_empty(database: Database) -> None:
    """Refuse a database that has a log already, or a file that has anything else."""
    if is_log(database):
        raise InputError(
            f"{database.name} has a log in it already. Go on with it: LiveEnsemble.resume({database.name!r}), or "
            "`optensemble live` and `optensemble serve`; or give a new log another name."
        )
    if isinstance(database, SqliteDatabase) and database.tables():
        raise InputError(f"{database.name} is a database of something else. Give the log another name.")


def _remove(path: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        with suppress(OSError):
            Path(f"{path}{ending}").unlink()
