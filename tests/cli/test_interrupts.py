"""A command that is stopped leaves nothing but a line."""

from __future__ import annotations

import re
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.calling import Said, finish, start
from tests.cli.refusals import INTERRUPTED, NEW, OLD
from tests.jobs.worlds import write_table

pytestmark = pytest.mark.slow

MANY = 300_000


@pytest.fixture(scope="module")
def much(fitted: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table that takes a while."""
    folder = tmp_path_factory.mktemp("much")
    shutil.copy(fitted, folder)
    rows = pd.concat([NEW] * (MANY // len(NEW)), ignore_index=True).round(3)
    write_table(rows.assign(day=np.arange(len(rows))), folder / "much.csv")
    return folder


def stopped(much: Path, sent: signal.Signals) -> Said:
    """Stop a run in the middle of its work; an older table is there as it was, and nothing else."""
    out = much / "out.parquet"
    out.write_bytes(OLD)
    names = {path.name for path in much.iterdir()}
    process, deadline = start(much, "decide", "e.oe", "much.csv", "-o", out.name), time.monotonic() + 60
    while not any(path.stat().st_size for path in much.glob(".out.parquet.*")) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(sent)
    said = finish(process)
    left = {path.name for path in much.iterdir()}
    for name in left - names:
        (much / name).unlink()
    assert left == names
    assert out.read_bytes() == OLD
    return said


def test_an_interrupt_leaves_nothing_but_a_line(much: Path) -> None:
    said = stopped(much, signal.SIGINT)
    assert re.fullmatch(r"optensemble: [Ii]nterrupted\. Nothing was written\.\n", said.err)
    assert (said.code, said.out) == (INTERRUPTED, "")


def test_a_run_that_is_ended_by_a_scheduler_leaves_nothing(much: Path) -> None:
    said = stopped(much, signal.SIGTERM)
    assert said.code not in (0, None)
    assert "Traceback" not in said.err
