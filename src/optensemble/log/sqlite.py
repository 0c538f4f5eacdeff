"""SQLite as the database of a log: a file, with a write-ahead log that is flushed to disk with every commit."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from optensemble.exceptions import LogError
from optensemble.log.database import RepeatedError, Row, Transaction, alone

_WAIT = 10.0  # seconds for others who hold the file, such as a backup, to finish
_PAGES = 4_000  # of the write-ahead log until it is copied into the file
_LARGEST_WAL = 64 << 20  # bytes that the write-ahead log keeps on disk once it was longer

_TERMS = (
    "PRAGMA synchronous=FULL",  # a commit has reached the disk
    "PRAGMA trusted_schema=OFF",  # whatever functions a file names in views and triggers
    "PRAGMA cell_size_check=ON",
    f"PRAGMA wal_autocheckpoint={_PAGES}",
    f"PRAGMA journal_size_limit={_LARGEST_WAL}",
)


class SqliteDatabase:
    """A log in a file.

    Parameters
    ----------
    path
        The file.
    create
        Whether to make it if it is not there.
    """

    types: Mapping[str, str] = {"bytes": "BLOB", "whole": "INTEGER", "number": "REAL", "by_key": " WITHOUT ROWID"}
    locking = ""  # a transaction that writes is alone

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path, self.name = path, str(path)
        self._lock, self._read_lock, self._process = threading.RLock(), threading.RLock(), os.getpid()
        if not create and not path.exists():
            raise LogError(
                f"there is no log {path}. Check the path, or begin one: "
                "LiveEnsemble(ensemble, log=...), or `optensemble live start`."
            )
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            raise LogError(f"{path} is not a file. Give another path.")
        with self._telling():
            self._connection = self._connect(create=create)
            try:
                if self._is_ours(create) and self._pragma("journal_mode=WAL") != "wal":
                    raise LogError(f"{path}: this file system has no write-ahead log. Use a disk of this machine.")
                self._reader = self._connect(create=False)
                self._file = _file_at(path)
            except BaseException:
                self._connection.close()
                raise

    def _pragma(self, term: str) -> Any:
        return self._connection.execute(f"PRAGMA {term}").fetchone()[0]

    def _is_ours(self, create: bool) -> bool:
        """Return whether the file may be changed: not if it has tables of something else."""
        names = {name for (name,) in self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        return "oe_meta" in names or (create and not names)

    def _connect(self, *, create: bool) -> sqlite3.Connection:
        address = f"{self.path.resolve().as_uri()}?mode={'rwc' if create else 'rw'}"
        made = sqlite3.connect(address, _WAIT, isolation_level=None, check_same_thread=False, uri=True)
        for term in _TERMS:
            made.execute(term)
        return made

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Open a transaction that is committed at the end, durably, unless there is an error; one at a time."""
        with (
            self._telling(),
            alone(self._lock, self.name),
            _transaction(self._connection, "BEGIN IMMEDIATE") as opened,
        ):
            changes = self._connection.total_changes
            yield opened
            if self._connection.total_changes > changes:
                self._require_file()

    def _require_file(self) -> None:
        """Refuse to go on with a file that nobody finds, and that is gone once it is closed."""
        if _file_at(self.path) != self._file:
            raise LogError(
                f"{self.name} was deleted, or another file was put in its place: nothing more can be kept. Stop, "
                "restore it from a backup, and resume from it."
            )

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Open a transaction that sees the database as of one moment."""
        with self._telling(), self._read_lock, _transaction(self._reader, "BEGIN") as opened:
            yield opened

    def tables(self) -> set[str]:
        """Return the names of all tables."""
        with self.reading() as transaction:
            return {name for (name,) in transaction.read("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def size(self) -> int:
        """Return the number of bytes of the file and of its write-ahead log."""
        found = 0
        for path in (self.path, Path(f"{self.path}-wal")):
            with suppress(OSError):
                found += path.stat().st_size
        return found

    def close(self) -> None:
        """Let go of the file."""
        if self._process == os.getpid():  # locks are the process's that opened it
            with self._lock, self._read_lock, self._telling():
                self._reader.close()
                self._connection.close()

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Turn errors of SQLite into ours, with advice."""
        if self._process != os.getpid():
            raise LogError(f"{self.name} was opened before this process was forked. Resume from it here instead.")
        try:
            yield
        except sqlite3.Error as error:
            raise LogError(f"{self.name}: {_advice(error)}") from error


def _file_at(path: Path) -> tuple[int, int] | None:
    """Return which file a path leads to; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class _Opened:
    """A transaction of SQLite."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def read(self, statement: str, **values: Any) -> list[Row]:
        return self._connection.execute(statement, values).fetchall()

    def write(self, statement: str, **values: Any) -> int:
        return self._connection.execute(statement, values).rowcount

    def insert(self, table: str, columns: Mapping[str, Sequence[int]]) -> None:
        marks = ",".join("?" * len(columns))
        statement = f"INSERT INTO {table} ({','.join(columns)}) VALUES ({marks})"
        try:
            self._connection.executemany(statement, zip(*columns.values(), strict=True))
        except sqlite3.IntegrityError as error:
            raise RepeatedError(f"a row of {table} is there already") from error


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str) -> Iterator[_Opened]:
    if connection.in_transaction:  # an interrupt came before it was ended
        connection.execute("ROLLBACK")
    connection.execute(begin)
    try:
        yield _Opened(connection)
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        raise


_ADVICE = {
    "SQLITE_NOTADB": "it is not a SQLite database. Check the path.",
    "SQLITE_CORRUPT": "the database is damaged. Restore it from a backup.",
    "SQLITE_FULL": "the disk is full. Make room, and call again: nothing was lost.",
    "SQLITE_READONLY": "it cannot be written to. Make the file and its folder writable.",
    "SQLITE_CANTOPEN": "it cannot be opened. Check that its folder exists and can be written to.",
    "SQLITE_BUSY": "another program holds the database, such as a backup. Let it finish, and call again.",
    "SQLITE_IOERR": "reading or writing the disk failed. Check the disk, and call again.",
    "SQLITE_PERM": "access is denied. Check the permissions of the file and its folder.",
}


def _advice(error: sqlite3.Error) -> str:
    name = getattr(error, "sqlite_errorname", "") or ""
    known = next((told for kind, told in _ADVICE.items() if name.startswith(kind)), None)
    return known or f"the database says: {error}. If the log was closed, resume from it."
