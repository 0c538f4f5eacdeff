from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.log.postgres import find_programs, new_database, server


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A server of PostgreSQL."""
    if find_programs() is None:
        pytest.skip("no PostgreSQL on this machine: `make database` installs Debian's")
    with server() as base:
        yield base


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def new_log(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Says where a new log may lie: in a file, or in a database of a server."""
    numbers = count()
    if request.param == "SQLite":
        return lambda: str(tmp_path / f"log{next(numbers)}.db")
    base = request.getfixturevalue("postgres")
    return lambda: new_database(base)
