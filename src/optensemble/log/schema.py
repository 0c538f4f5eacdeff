"""The tables of a log, and how those of earlier versions become those of this one."""

from __future__ import annotations

from collections.abc import Callable

from optensemble.exceptions import LogError
from optensemble.log.database import Database, Transaction

VERSION = 1
"""Counted up whenever earlier releases would misread a log."""

META = "oe_meta"

_TABLES = (
    f"CREATE TABLE {META} (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    # who leads: a single row, which every transaction touches, so that they take place one after the other
    "CREATE TABLE oe_lead (one INTEGER PRIMARY KEY CHECK (one = 1), token TEXT NOT NULL, holder TEXT NOT NULL,"
    " renewed {number} NOT NULL)",
    # first is how many rows, or labels, earlier entries of the kind have; content is null once it was pruned
    "CREATE TABLE oe_entry (seq {whole} PRIMARY KEY, at {number} NOT NULL, kind TEXT NOT NULL, token TEXT NOT NULL,"
    " first {whole}, rows {whole} NOT NULL, content {bytes})",
    "CREATE INDEX oe_entry_kind ON oe_entry (kind, seq)",
    # ids by their hashes, which are as unique as ids
    "CREATE TABLE oe_decision (key {whole} PRIMARY KEY, number {whole} NOT NULL, seq {whole} NOT NULL){by_key}",
    "CREATE TABLE oe_label (number {whole} PRIMARY KEY, seq {whole} NOT NULL, place {whole} NOT NULL)",
    "CREATE TABLE oe_checkpoint (seq {whole} PRIMARY KEY, at {number} NOT NULL, content {bytes} NOT NULL)",
)

Migration = Callable[[Transaction, Database], None]

MIGRATIONS: dict[int, Migration] = {}
"""For each earlier version what makes it the next one, in the transaction that also counts the version up."""


def is_log(database: Database) -> bool:
    """Return whether a database has the tables of a log."""
    return META in database.tables()


def create_tables(transaction: Transaction, database: Database, release: str) -> None:
    """Make the tables of a new log."""
    for statement in _TABLES:
        transaction.write(statement.format(**database.types))
    for name, value in {"version": str(VERSION), "release": release, "pruned_rows": "0", "pruned_entries": "0"}.items():
        set_meta(transaction, name, value)
    transaction.write("INSERT INTO oe_lead (one, token, holder, renewed) VALUES (1, '', '{}', 0)")


def require_log(database: Database, *, current: bool) -> None:
    """Refuse what is no log, or one of a later version; with ``current`` also one of an earlier version."""
    if not is_log(database):
        raise LogError(f"{database.name} is a database, but has no log in it. Check the path or URL.")
    with database.reading() as transaction:
        version = _version(transaction, database)
    if version > VERSION:
        raise LogError(
            f"{database.name} has schema version {version}, and this optensemble reads up to {VERSION}. Update "
            "optensemble to read it."
        )
    if version < VERSION and current:
        raise LogError(
            f"{database.name} has schema version {version}, and this optensemble reads {VERSION}. A process that leads "
            "it, such as `optensemble serve`, brings it up to date."
        )


def migrate(database: Database) -> None:
    """Bring a log of an earlier version up to date, step by step; the process leads it."""
    while True:
        with database.writing() as transaction:
            version = _version(transaction, database)
            if version >= VERSION:
                return
            MIGRATIONS[version](transaction, database)
            set_meta(transaction, "version", str(version + 1))


def _version(transaction: Transaction, database: Database) -> int:
    text = get_meta(transaction, "version")
    if not text.isdecimal() or len(text) > _DIGITS or int(text) < 1:
        raise LogError(
            f"{database.name} has no schema version that makes sense: {text!r:.40}. Restore it from a backup."
        )
    return int(text)


_DIGITS = 6


def get_meta(transaction: Transaction, name: str) -> str:
    """Return a single value; empty if there is none."""
    found = transaction.read(f"SELECT value FROM {META} WHERE name = :name", name=name)
    return str(found[0][0]) if found else ""


def set_meta(transaction: Transaction, name: str, value: str) -> None:
    """Set a single value."""
    if not transaction.write(f"UPDATE {META} SET value = :value WHERE name = :name", name=name, value=value):
        transaction.write(f"INSERT INTO {META} (name, value) VALUES (:name, :value)", name=name, value=value)
