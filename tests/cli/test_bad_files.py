"""Bad files: empty, missing, cut off, altered, or of another kind."""

from __future__ import annotations

import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble import feasible
from tests.cli.calling import Line
from tests.cli.refusals import (
    AUDIT,
    CHECK,
    DECIDE,
    FAILED,
    FIT,
    NEW,
    REPORT,
    ROWS,
    TABLES,
    WRONG_USE,
    contents,
    refused,
    require_line,
)
from tests.jobs.worlds import labels_of, make_rows, write_job, write_table

# Files


def empty_csv(path: Path) -> None:
    path.write_bytes(b"")


def header_only(path: Path) -> None:
    write_table(ROWS[:0], path)


@pytest.mark.parametrize(
    ("name", "make", "code"),
    [
        ("t.csv", empty_csv, FAILED),
        ("t.parquet", empty_csv, FAILED),
        ("t.arrow", empty_csv, FAILED),
        ("t.csv", header_only, WRONG_USE),
        ("t.parquet", header_only, WRONG_USE),
        ("t.arrow", header_only, WRONG_USE),
    ],
)
def test_a_file_without_rows(name: str, make: Callable[[Path], None], code: int, line: Line, folder: Path) -> None:
    make(folder / name)
    write_job(folder, data={"fit": name})
    for command in (CHECK, FIT, ("decide", "e.oe", name, "-o", "out.csv"), ("audit", "e.oe", name)):
        refused(line, folder, command, code, name)


@pytest.mark.parametrize("name", ["no.csv", "no-*.csv"])
def test_a_file_that_was_never_there(name: str, line: Line, folder: Path) -> None:
    write_job(folder, data={"fit": name})
    for command in (
        CHECK,
        FIT,
        ("decide", "e.oe", name, "-o", "out.csv"),
        ("audit", "e.oe", name),
        ("report", "e.oe", name, "-o", "out.html"),
        ("explain", "e.oe", name, "--row", "0"),
        ("init", name, "-o", "out.toml", "--force"),
    ):
        refused(line, folder, command, FAILED, name, "Check the path")


@pytest.mark.slow
@TABLES
def test_a_file_that_vanishes_while_decisions_are_made(end: str, line: Line, folder: Path) -> None:
    many = pd.concat([NEW] * 2000, ignore_index=True)
    write_table(many.assign(day=np.arange(len(many))), folder / f"1.{end}")
    second = write_table(NEW, folder / f"2.{end}")
    kept = contents(folder)
    gone = threading.Thread(target=lambda: remove_when_writing(folder, second))
    gone.start()
    said = line("decide", "e.oe", f"[12].{end}", "-o", "out.csv")
    gone.join()
    require_line(said, FAILED, f"2.{end}", "may have been moved or deleted")
    assert contents(folder) == {name: content for name, content in kept.items() if name != second.name}


def remove_when_writing(folder: Path, path: Path) -> None:
    deadline = time.monotonic() + 60
    while not any(folder.glob(".out.csv.*")) and time.monotonic() < deadline:
        time.sleep(0.001)
    path.unlink()


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.csv.gz"])
def test_a_file_that_was_cut_off(name: str, line: Line, folder: Path) -> None:
    path = write_table(make_rows(2000), folder / name)
    path.write_bytes(path.read_bytes()[:-2000])
    write_job(folder, data={"fit": name})
    for command in (FIT, ("decide", "e.oe", name, "-o", "out.csv")):
        refused(line, folder, command, FAILED, name)


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.csv.gz"])
def test_a_file_that_is_not_what_it_is_called(name: str, line: Line, folder: Path) -> None:
    write_table(NEW, folder / "plain.csv").rename(folder / name)
    refused(line, folder, ("decide", "e.oe", name, "-o", "out.csv"), FAILED, name)


@pytest.mark.parametrize("name", ["t.xlsx", "t"])
def test_a_file_of_a_kind_that_is_not_known(name: str, line: Line, folder: Path) -> None:
    (folder / name).write_bytes(b"x")
    write_job(folder, data={"fit": name})
    for command in (CHECK, FIT, ("decide", "e.oe", name, "-o", "out.csv"), ("init", name, "-o", "out.toml", "--force")):
        refused(line, folder, command, WRONG_USE, name, "one of .parquet")


@TABLES
def test_a_folder_instead_of_a_table(end: str, line: Line, folder: Path) -> None:
    (folder / f"days.{end}").mkdir()
    command = ("decide", "e.oe", f"days.{end}", "-o", "out.csv")
    refused(line, folder, command, FAILED, f"days.{end} is a folder", f"days.{end}/*.")


# Ensembles


def not_zip(path: Path) -> None:
    path.write_text("hello")


def altered(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part.replace(b'"max"', b'"min"'))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize("spoil", [not_zip, altered, cut])
@pytest.mark.parametrize("command", [DECIDE, AUDIT, REPORT], ids=["decide", "audit", "report"])
def test_a_file_that_is_no_ensemble_or_was_altered_is_refused(
    spoil: Callable[[Path], None], command: tuple[str, ...], line: Line, folder: Path
) -> None:
    spoil(folder / "e.oe")
    refused(line, folder, command, FAILED, "e.oe")


def test_an_ensemble_that_is_not_there(line: Line, folder: Path) -> None:
    refused(line, folder, ("decide", "no.oe", "new.csv", "-o", "out.csv"), FAILED, "no.oe", "Check the path")


def test_an_ensemble_whose_members_are_code(line: Line, folder: Path) -> None:
    X = ROWS[["a_0", "a_1", "a_2"]].to_numpy()
    box: Any = oe.WhiteBoxEnsemble([("m", lambda X: X)], feasible.Simplex(3), validation=None)
    box.fit(X, labels_of(ROWS)).save(folder / "code.oe")
    refused(line, folder, ("decide", "code.oe", "new.csv", "-o", "out.csv"), WRONG_USE, "code.oe", "from Python")
