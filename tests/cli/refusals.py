"""Commands that must be refused: one line that names the place and the way out, and nothing left."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.cli.calling import Line, Said
from tests.jobs.worlds import make_rows

ROWS, NEW, LATER = make_rows(), make_rows(80, seed=1), make_rows(80, seed=2)
FAILED, WRONG_USE, EARNED_LESS, EARNED_MORE, INTERRUPTED = 1, 2, 3, 4, 130
OLD = b"what was there before"
FIT = ("fit", "job.toml", "-o", "out.oe")
CHECK = ("check", "job.toml")
AUDIT = ("audit", "e.oe", "later.csv")
REPORT = ("report", "e.oe", "later.csv", "-o", "out.html")
DECIDE = ("decide", "e.oe", "new.csv", "-o", "out.csv")
BOTH = pytest.mark.parametrize("command", [CHECK, FIT], ids=["check", "fit"])
TABLES = pytest.mark.parametrize("end", ["csv", "parquet"])


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def require_line(said: Said, code: int, *parts: str) -> str:
    """One line on stderr that has all parts and an advice, and nothing on stdout."""
    assert (said.code, said.out) == (code, ""), said
    assert re.fullmatch(r"optensemble: [^\n]+[.?]\n", said.err), said.err
    for part in parts:
        assert part in said.err
    assert re.search(r"[^.][.;?] [A-Z`]| must | say ", said.err), f"no advice: {said.err}"
    return said.err


def refused(line: Line, folder: Path, command: tuple[str, ...], code: int, *parts: str) -> str:
    """Run a command that must be refused, without and with an older output: the folder is as it was before."""
    out = folder / command[command.index("-o") + 1] if "-o" in command else None
    found = ""
    for older in (False, True) if out is not None and not out.exists() and out.parent.exists() else (False,):
        if older and out is not None:
            out.write_bytes(OLD)
        before = contents(folder)
        found = require_line(line(*command), code, *parts)
        assert contents(folder) == before
    return found


def with_value(value: Any, row: int, column: str, rows: pd.DataFrame = ROWS) -> pd.DataFrame:
    changed = rows.copy()
    if isinstance(value, str):
        changed[column] = changed[column].astype(object)
    changed.loc[row, column] = value
    return changed
