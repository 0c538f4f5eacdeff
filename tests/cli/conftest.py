"""A folder with everything that commands need, and a line to call them by."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.calling import Line
from tests.cli.refusals import LATER, NEW, ROWS
from tests.jobs.worlds import write_job, write_table


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an ensemble, made by the command line's own parts."""
    from optensemble.jobs.fit import fit_job, prepare
    from optensemble.jobs.job import read_job

    folder = tmp_path_factory.mktemp("fitted")
    write_table(ROWS, folder / "history.csv")
    fit_job(prepare(read_job(write_job(folder, data={"id": "day"})))).save(folder / "e.oe")
    return folder / "e.oe"


@pytest.fixture
def folder(fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Everything that is needed, and nothing wrong with it."""
    shutil.copy(fitted, tmp_path)
    for name, rows in (("history.csv", ROWS), ("new.csv", NEW), ("later.csv", LATER)):
        write_table(rows, tmp_path / name)
    write_job(tmp_path, data={"id": "day"})
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def line(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Line:
    return Line(monkeypatch, capsys)
