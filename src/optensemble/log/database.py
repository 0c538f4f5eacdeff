"""Databases, as a log uses them: transactions of plain statements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Protocol

from optensemble.ensembles._live_log import RepeatedError
from optensemble.exceptions import InputError, LogError

__all__ = ["Database", "RepeatedError", "Row", "Transaction", "alone", "open_database", "read_among"]

Row = tuple[Any, ...]

_MOST_NAMED = 500  # values in a list: databases limit them


class Transaction(Protocol):
    """Statements that take place together; parameters are named, as in ``:seq``."""

    def read(self, statement: str, **values: Any) -> list[Row]:
        """Return the rows that a query finds."""

    def write(self, statement: str, **values: Any) -> int:
        """Return the number of rows that a statement has changed."""

    def insert(self, table: str, columns: Mapping[str, Sequence[int]]) -> None:
        """Insert many rows of whole numbers; :class:`RepeatedError` if a key is there already."""


class Database(Protocol):
    """A database of a log.

    Attributes
    ----------
    name
        To be shown: without a password.
    types
        What columns of bytes, whole numbers of 64 bits and numbers are called, and how a table lies by its key.
    locking
        The end of a query that keeps others from changing what it finds, until the end of the transaction.
    """

    name: str
    types: Mapping[str, str]
    locking: str

    def writing(self) -> AbstractContextManager[Transaction]:
        """Open a transaction that is committed at the end, durably, unless there is an error; one at a time."""

    def reading(self) -> AbstractContextManager[Transaction]:
        """Open a transaction that sees the database as of one moment, whatever others write meanwhile."""

    def tables(self) -> set[str]:
        """Return the names of all tables."""

    def size(self) -> int:
        """Return the number of bytes that the log takes up."""

    def close(self) -> None:
        """Let go of the database."""


@contextmanager
def alone(lock: Any, name: str) -> Iterator[None]:
    """Hold a lock of a database, unless this thread holds it: a handler of signals came into the middle of a call."""
    if lock._is_owned():
        raise LogError(f"{name} is being written by the call that this one came into the middle of. Call again later.")
    with lock:
        yield


def read_among(transaction: Transaction, statement: str, values: Sequence[int], **others: Any) -> Iterator[Row]:
    """Yield what a query finds for a list of whole numbers, which stands in place of ``{values}``."""
    for start in range(0, len(values), _MOST_NAMED):
        listed = ",".join(str(int(value)) for value in values[start : start + _MOST_NAMED])
        yield from transaction.read(statement.format(values=listed), **others)


def open_database(where: str | PathLike[str], *, create: bool = False) -> Database:
    """Open the database of a log: a file, or a URL."""
    if not isinstance(where, (str, PathLike)):
        raise InputError(f"log must be the path of a file, or a URL; got {type(where).__name__}.")
    text = fspath(where)
    scheme, separator, _ = text.partition("://")
    if not separator:
        from optensemble.log.sqlite import SqliteDatabase

        return SqliteDatabase(Path(text), create=create)
    if scheme.split("+")[0] not in ("postgresql", "postgres"):
        raise InputError(
            f"log has a URL of {scheme!r:.40}, which is not known. Give postgresql://user@host/database, or a path for "
            "SQLite."
        )
    from optensemble.log.sql import SqlDatabase

    return SqlDatabase(text)
