"""PostgreSQL as the database of a log, by way of SQLAlchemy Core."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from optensemble.exceptions import InputError, LogError
from optensemble.log.database import RepeatedError, Row, Transaction, alone

_WAIT = 10  # seconds to connect

_SIZE = """
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c
WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace AND c.relname LIKE 'oe\\_%'
"""


class SqlDatabase:
    """A log in a PostgreSQL database; its tables are in the first schema of the search path.

    Parameters
    ----------
    url
        Such as ``postgresql://user:password@host/database``.
    """

    types: Mapping[str, str] = {"bytes": "BYTEA", "whole": "BIGINT", "number": "DOUBLE PRECISION", "by_key": ""}
    locking = " FOR UPDATE"

    def __init__(self, url: str) -> None:
        try:
            import psycopg  # noqa: F401
            import sqlalchemy
        except ImportError as error:
            raise LogError(
                "a log in PostgreSQL needs SQLAlchemy and psycopg. Install them: pip install 'optensemble[sql]'."
            ) from error
        try:
            parsed = sqlalchemy.make_url(url)
        except (sqlalchemy.exc.ArgumentError, ValueError) as error:
            raise InputError("log is no valid URL. Give one such as postgresql://user@host:5432/database.") from error
        if parsed.drivername in ("postgres", "postgresql"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        shown = parsed.set(drivername="postgresql").difference_update_query(_SECRET)
        self.name = shown.render_as_string(hide_password=True)
        self._lock, self._process, self._text = threading.RLock(), os.getpid(), sqlalchemy.text
        self._statements: dict[str, Any] = {}
        self._errors, self.repeated = sqlalchemy.exc.SQLAlchemyError, sqlalchemy.exc.IntegrityError
        # a connection that the server has dropped is replaced before it is used
        self._engine = sqlalchemy.create_engine(parsed, pool_pre_ping=True, pool_size=2, connect_args=_CONNECTION)
        sqlalchemy.event.listen(self._engine, "connect", _set_terms)

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Open a transaction that is committed at the end, durably, unless there is an error; one at a time."""
        with self._telling(), alone(self._lock, self.name), self._engine.begin() as connection:
            yield _Opened(self, connection)

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Open a transaction that sees the database as of one moment."""
        with self._telling(), self._engine.connect() as connection:
            options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
            with connection.execution_options(**options).begin():
                yield _Opened(self, connection)

    def tables(self) -> set[str]:
        """Return the names of all tables of the schema."""
        with self.reading() as transaction:
            query = "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
            return {name for (name,) in transaction.read(query)}

    def size(self) -> int:
        """Return the number of bytes of the tables and their indices."""
        with self.reading() as transaction:
            return int(transaction.read(_SIZE)[0][0])

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose(close=self._process == os.getpid())

    def statement(self, text: str) -> Any:
        """Return a statement, which is parsed once; lists of numbers make others every time."""
        if (found := self._statements.get(text)) is None:
            found = self._text(text)
            if _LISTS not in text:
                self._statements[text] = found
        return found

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Turn errors of the database into ours, with advice; they may hold addresses, but no password."""
        if self._process != os.getpid():
            raise LogError(f"{self.name} was opened before this process was forked. Resume from it here instead.")
        try:
            yield
        except self._errors as error:
            cause = getattr(error, "orig", None) or error
            said = " ".join(str(cause).split())[:_LONGEST].rstrip(".?! ")
            state = str(getattr(cause, "sqlstate", None) or "")
            advice = next((told for kind, told in _ADVICE.items() if state.startswith(kind)), _UNREACHABLE)
            raise LogError(f"{self.name}: the database says: {said}. {advice}") from error


_LONGEST = 300  # letters of what the database says
_UNREACHABLE = "Check that it runs and can be reached, and call again."
_ADVICE = {
    "42501": "Give the user the privilege.",
    "28": "Check the user and the password.",
    "3D": "Create the database first.",
    "3F": "Create the schema first.",
    "53100": "Make room on its disk, and call again: nothing was lost.",
    "25006": "It only reads: give the address of the one that is written to.",
}
"""What to do, by the beginning of SQLSTATE."""

_LISTS = " IN ("  # of statements with lists of numbers, which are different every time

_SECRET = ("password", "sslpassword")
_CONNECTION = {
    "connect_timeout": _WAIT,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""A server that has vanished is noticed within half a minute."""

_TERMS = (
    "SET lock_timeout = '10s'",
    "SET idle_in_transaction_session_timeout = '30s'",  # a leader that was stopped within one must not hold up others
    # a commit has reached the disk, whatever is set for the database; what is stronger stays
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
)


def _set_terms(connection: Any, _: Any) -> None:
    with connection.cursor() as cursor:
        for term in _TERMS:
            cursor.execute(term)
    connection.commit()


class _Opened:
    """A transaction of SQLAlchemy."""

    def __init__(self, database: SqlDatabase, connection: Any) -> None:
        self._database, self._connection = database, connection

    def read(self, statement: str, **values: Any) -> list[Row]:
        return [tuple(row) for row in self._connection.execute(self._database.statement(statement), values)]

    def write(self, statement: str, **values: Any) -> int:
        return int(self._connection.execute(self._database.statement(statement), values).rowcount)

    def insert(self, table: str, columns: Mapping[str, Sequence[int]]) -> None:
        arrays = ", ".join(f"CAST(:{name} AS bigint[])" for name in columns)
        statement = f"INSERT INTO {table} ({', '.join(columns)}) SELECT * FROM unnest({arrays})"
        values = {name: list(each) for name, each in columns.items()}
        try:
            self._connection.execute(self._database.statement(statement), values)
        except self._database.repeated as error:
            raise RepeatedError(f"a row of {table} is there already") from error
