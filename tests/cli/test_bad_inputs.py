"""Every bad input, through the real command line: one line that names the place and the way out, and nothing left."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble import feasible
from tests.cli.calling import Line, Said, disk_of, finish, start
from tests.jobs.worlds import STARS, labels_of, make_rows, write_job, write_table

ROWS, NEW, LATER = make_rows(), make_rows(80, seed=1), make_rows(80, seed=2)
FAILED, WRONG_USE, REFUTED, INTERRUPTED = 1, 2, 3, 130
OLD = b"what was there before"
MANY = 300_000
FIT = ("fit", "job.toml", "-o", "out.oe")
CHECK = ("check", "job.toml")
AUDIT = ("audit", "e.oe", "later.csv")
REPORT = ("report", "e.oe", "later.csv", "-o", "out.html")
DECIDE = ("decide", "e.oe", "new.csv", "-o", "out.csv")
BOTH = pytest.mark.parametrize("command", [CHECK, FIT], ids=["check", "fit"])
TABLES = pytest.mark.parametrize("end", ["csv", "parquet"])


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an ensemble, made by the command line's own parts."""
    from optensemble.jobs.fit import fit, prepare
    from optensemble.jobs.job import read_job

    folder = tmp_path_factory.mktemp("fitted")
    write_table(ROWS, folder / "history.csv")
    fit(prepare(read_job(write_job(folder, data={"id": "day"})))).save(folder / "e.oe")
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


# Names


@BOTH
@pytest.mark.parametrize(
    ("changes", "place", "meant"),
    [
        ({"data": {"labels": "yy_*"}}, "[data] labels", "'y_*'"),
        ({"data": {"labels": ["y_0", "y_1", "y2"]}}, "[data] labels", "'y_2'"),
        ({"models": {"a": "aa_*"}}, "[models] a", "'a_*'"),
        ({"models": {"a": ["a_0", "a_1", "a2"]}}, "[models] a", "'a_2'"),
        ({"policies": {"plan": "paln_*"}}, "[policies] plan", "'plan_*'"),
        ({"data": {"id": "dya"}}, "[data] id", "'day'"),
        ({"data": {"time": "dat"}}, "[data] time", "'date'"),
        ({"data": {"groups": "regoin"}}, "[data] groups", "'region'"),
        ({"data": {"groups": ["region", "custmer"]}}, "[data] groups", "'customer'"),
        ({"data": {"clusters": "custmer"}}, "[data] clusters", "'customer'"),
    ],
    ids=str,
)
def test_a_misspelt_column_of_a_job(
    command: tuple[str, ...], changes: dict[str, Any], place: str, meant: str, line: Line, folder: Path
) -> None:
    write_job(folder, **changes)
    refused(line, folder, command, WRONG_USE, "job.toml", "history.csv", place, f"Did you mean {meant}?")


@pytest.mark.parametrize(
    ("command", "column", "name"),
    [(DECIDE, "a_0", "new.csv"), (DECIDE, "day", "new.csv"), (AUDIT, "y_1", "later.csv"), (REPORT, "y_1", "later.csv")],
    ids=str,
)
def test_a_table_without_a_column_that_is_needed(
    command: tuple[str, ...], column: str, name: str, line: Line, folder: Path
) -> None:
    rows = NEW if name == "new.csv" else LATER
    write_table(rows.rename(columns={column: column.replace("_", "") + "x"}), folder / name)
    refused(line, folder, command, WRONG_USE, name, f"no column {column!r}")


@BOTH
@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"modles": {"a": "a_*"}}, ["section 'modles'", "Did you mean 'models'?"]),
        ({"data": {"lables": "y_*"}}, ["[data] 'lables'", "Did you mean 'labels'?"]),
        ({"ensemble": {"sede": 1}}, ["[ensemble]", "'sede'", "Did you mean 'seed'?"]),
        ({"ensemble": {"kind": "decison"}}, ["[ensemble] kind", "Did you mean 'decision'?"]),
        ({"data": {"fit": None}}, ["[data] lacks 'fit'"]),
        ({"feasible": None}, ["no section [feasible]"]),
        ({"models": {"a": 3}}, ["[models] a", "got 3"]),
        ({"ensemble": {"seed": "x"}}, ["seed", "'x'"]),
        ({"models": {"a": "y_*"}}, ["[models] a", "y_0"]),
    ],
    ids=str,
)
def test_a_job_that_says_what_is_not_known_or_cannot_be(
    command: tuple[str, ...], changes: dict[str, Any], parts: list[str], line: Line, folder: Path
) -> None:
    write_job(folder, **changes)
    refused(line, folder, command, WRONG_USE, "job.toml", *parts)


@BOTH
def test_a_job_that_is_not_toml_or_not_there(command: tuple[str, ...], line: Line, folder: Path) -> None:
    (folder / "job.toml").write_text("[data]\nfit = history.csv\n")
    refused(line, folder, command, WRONG_USE, "job.toml", "line 2")
    (folder / "job.toml").unlink()
    refused(line, folder, command, FAILED, "job.toml", "optensemble init")


@BOTH
@pytest.mark.parametrize(
    ("section", "code", "part"),
    [
        ({"kind": "simplx"}, WRONG_USE, "Did you mean 'simplex'?"),
        ({"kind": None}, WRONG_USE, "lacks a kind"),
        ({"kind": "oracle"}, WRONG_USE, "Use it from Python"),
        ({"kind": "polytope", "A_ub": [[1, 1, 1]], "b_ub": [-1]}, WRONG_USE, "no action"),
        ({"kind": "box", "upper": [1, 1]}, WRONG_USE, "2 coordinates, but there are 3 labels"),
        ({"kind": "polytope", "A_up": [[1, 1, 1]]}, WRONG_USE, "Did you mean 'A_ub'?"),
        ({"kind": "polytope", "A_ub": "no.csv", "b_ub": [1]}, FAILED, "no.csv"),
        ({"kind": "top_k"}, WRONG_USE, "k"),
    ],
    ids=str,
)
def test_a_feasible_set_that_cannot_be(
    command: tuple[str, ...], section: dict[str, Any], code: int, part: str, line: Line, folder: Path
) -> None:
    write_job(folder, feasible=section)
    refused(line, folder, command, code, "job.toml", "[feasible]", part)


@BOTH
def test_a_policy_outside_the_set(command: tuple[str, ...], line: Line, folder: Path) -> None:
    write_table(with_value(2.0, 7, "plan_0"), folder / "history.csv")
    refused(line, folder, command, WRONG_USE, "history.csv", "plan")


def test_a_policy_outside_the_set_in_new_rows(line: Line, folder: Path) -> None:
    write_table(with_value(2.0, 7, "plan_0", NEW), folder / "new.csv")
    refused(line, folder, DECIDE, WRONG_USE, "new.csv", "plan", "7")


# Values


@pytest.mark.parametrize(
    ("command", "rows", "name", "column"),
    [
        (FIT, ROWS, "history.csv", "a_0"),
        (CHECK, ROWS, "history.csv", "y_2"),
        (DECIDE, NEW, "new.csv", "b_1"),
        (AUDIT, LATER, "later.csv", "y_0"),
        (REPORT, LATER, "later.csv", "plan_1"),
        (("explain", "e.oe", "new.csv", "--row", "3"), NEW, "new.csv", "a_0"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
@pytest.mark.parametrize(
    ("value", "part"),
    [
        ("abc", "'abc' in line 9, which is no number"),
        ("1,5", "Write decimals with a point"),
        ("", "no value in line 9"),
        ("NA", "no value in line 9"),
        ("None", "'None' in line 9"),
        ("inf", "infinite value (inf) in line 9"),
    ],
)
def test_a_number_of_a_csv_file_that_is_none(
    command: tuple[str, ...],
    rows: pd.DataFrame,
    name: str,
    column: str,
    value: str,
    part: str,
    line: Line,
    folder: Path,
) -> None:
    write_table(with_value(value, 7, column, rows), folder / name)
    refused(line, folder, command, WRONG_USE, name, repr(column), part)


@pytest.mark.parametrize("column", ["a_0", "plan_2", "y_1"])
@pytest.mark.parametrize(
    ("value", "part"), [(None, "no value"), (np.nan, "no value"), (np.inf, "infinite"), (-np.inf, "infinite")], ids=str
)
def test_a_number_of_a_parquet_file_that_is_none(column: str, value: Any, part: str, line: Line, folder: Path) -> None:
    write_table(with_value(value, 7, column), folder / "history.parquet")
    write_job(folder, data={"fit": "history.parquet"})
    refused(line, folder, FIT, WRONG_USE, "history.parquet", repr(column), part, "row 7")


@TABLES
@pytest.mark.parametrize(
    ("part", "column"), [("id", "day"), ("time", "date"), ("groups", "region"), ("clusters", "region")]
)
def test_an_id_a_time_or_a_group_that_is_missing(part: str, column: str, end: str, line: Line, folder: Path) -> None:
    write_table(with_value("" if end == "csv" else None, 7, column), folder / f"history.{end}")
    write_job(folder, data={"fit": f"history.{end}", part: column})
    place = "line 9" if end == "csv" else "row 7"
    for command in (CHECK, FIT):
        refused(line, folder, command, WRONG_USE, f"history.{end}", repr(column), "no value", place)


def test_a_time_that_is_not_available(line: Line, folder: Path) -> None:
    write_table(with_value("NA", 7, "date"), folder / "history.csv")
    write_job(folder, data={"time": "date"})
    refused(line, folder, FIT, WRONG_USE, "history.csv", "'date'")


@pytest.mark.parametrize("make", [lambda n: ["1.5"] * n, lambda n: [True, None] * (n // 2)], ids=["text", "truth"])
def test_a_parquet_column_that_holds_no_numbers(make: Callable[[int], Any], line: Line, folder: Path) -> None:
    write_table(ROWS.assign(a_0=make(len(ROWS))), folder / "history.parquet")
    write_job(folder, data={"fit": "history.parquet"})
    refused(line, folder, FIT, WRONG_USE, "history.parquet", "'a_0'")


def test_a_column_that_is_of_numbers_in_one_file_and_of_text_in_another(line: Line, folder: Path) -> None:
    write_table(NEW.assign(day=NEW["day"] + "x", a_0=NEW["a_0"].astype(str)), folder / "more.parquet")
    command = ("decide", "e.oe", "new.csv", "more.parquet", "-o", "out.csv")
    refused(line, folder, command, WRONG_USE, "more.parquet", "'a_0'", "must hold numbers")


@pytest.mark.parametrize("end", ["csv", "parquet", "arrow"])
def test_ids_that_are_numbers_in_one_file_and_text_in_another_are_fine(end: str, line: Line, folder: Path) -> None:
    write_table(NEW.assign(day=np.arange(80)), folder / "more.parquet")
    said = line("decide", "e.oe", "new.csv", "more.parquet", "-o", f"out.{end}", "--quiet")
    assert said == (0, "", "")


# Ids


def test_an_id_that_is_there_twice_in_a_table_to_fit_on(line: Line, folder: Path) -> None:
    write_table(with_value("0-00003", 7, "day"), folder / "history.csv")
    for command in (CHECK, FIT):
        refused(line, folder, command, WRONG_USE, "history.csv", "'day'", "'0-00003' is there 2 times")


@TABLES
def test_an_id_that_is_there_twice_in_a_table_to_decide_for(end: str, line: Line, folder: Path) -> None:
    write_table(with_value("1-00003", 7, "day", NEW), folder / f"twice.{end}")
    command = ("decide", "e.oe", f"twice.{end}", "-o", "out.csv")
    refused(line, folder, command, WRONG_USE, f"twice.{end}", "'day'", "'1-00003' is there 2 times")


def test_an_id_that_is_there_twice_far_apart(line: Line, folder: Path) -> None:
    """Rows are looked at in batches of 65,536."""
    many = pd.concat([NEW] * 875, ignore_index=True)
    many["day"] = np.arange(len(many))
    many.loc[69_000, "day"] = 17
    assert len(many) > 1 << 16
    write_table(many, folder / "many.parquet")
    refused(line, folder, ("decide", "e.oe", "many.parquet", "-o", "out.csv"), WRONG_USE, "'17' is there 2 times")


def test_an_id_that_is_there_twice_in_two_files(line: Line, folder: Path) -> None:
    write_table(NEW[70:], folder / "more.csv")
    command = ("decide", "e.oe", "new.csv", "more.csv", "-o", "out.csv")
    refused(line, folder, command, WRONG_USE, "new.csv and 1 more", "'day'", "(9)")


def test_an_id_column_called_as_a_column_of_the_decisions(line: Line, folder: Path) -> None:
    write_table(NEW.rename(columns={"day": "promised"}), folder / "new.csv")
    command = (*DECIDE, "--id-column", "promised")
    refused(line, folder, command, WRONG_USE, "'promised'", "Rename it")


# Times


@pytest.mark.parametrize("value", ["yesterday", "31.12.2025", "2025-02-30", "2025-01-01T00:00+01:00"])
@TABLES
@BOTH
def test_times_that_are_none_or_of_mixed_zones(
    command: tuple[str, ...], end: str, value: str, line: Line, folder: Path
) -> None:
    write_table(with_value(value, 7, "date"), folder / f"history.{end}")
    write_job(folder, data={"fit": f"history.{end}", "time": "date"})
    refused(line, folder, command, WRONG_USE, f"history.{end}", "'date'", "must hold times")


def test_times_of_later_rows_that_are_none(line: Line, folder: Path) -> None:
    command = (*AUDIT, "--time", "region")
    refused(line, folder, command, WRONG_USE, "later.csv", "'region'", "must hold times")


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
def test_an_ensemble_that_is_none_or_was_altered(
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


# Places to write to


@pytest.mark.parametrize("command", [DECIDE, FIT, REPORT], ids=["decide", "fit", "report"])
def test_a_place_that_is_none(command: tuple[str, ...], line: Line, folder: Path) -> None:
    (folder / "a.csv").mkdir()
    for place, part in (("a.csv", "is a folder"), ("nowhere/out.csv", "does not exist")):
        refused(line, folder, (*command[:-1], place), WRONG_USE, place, part, "Give -o")


@pytest.mark.parametrize("command", [DECIDE, FIT, REPORT], ids=["decide", "fit", "report"])
def test_a_folder_that_cannot_be_written_to(command: tuple[str, ...], line: Line, folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o555)
    if os.access(closed, os.W_OK):  # nothing is closed to root, but nobody makes files there
        closed = Path("/proc")
    before = contents(folder)
    said = line(*command[:-1], str(closed / "out.csv"))
    require_line(said, FAILED, f"cannot write {closed}/out.csv", "Choose a folder that can be written to")
    assert contents(folder) == before


@pytest.mark.parametrize(
    "command",
    [
        (*DECIDE[:-1], "new.csv"),
        (*DECIDE[:-1], "e.oe"),
        (*FIT[:-1], "history.csv"),
        (*FIT[:-1], "job.toml"),
        (*REPORT[:-1], "later.csv"),
        (*REPORT[:-1], "e.oe"),
        ("init", "history.csv", "-o", "history.csv", "--force"),
    ],
    ids=str,
)
def test_what_is_read_is_not_written_over(command: tuple[str, ...], line: Line, folder: Path) -> None:
    refused(line, folder, command, WRONG_USE, command[command.index("-o") + 1], "is read, and would be written over")


def test_a_job_file_is_not_written_over_unless_asked(line: Line, folder: Path) -> None:
    refused(line, folder, ("init", "history.csv", "-o", "job.toml"), WRONG_USE, "job.toml exists", "--force")


@pytest.mark.parametrize("out", ["out.xlsx", "out", "out.csv.gz"])
def test_decisions_in_a_format_that_is_not_written(out: str, line: Line, folder: Path) -> None:
    refused(line, folder, (*DECIDE[:-1], out), WRONG_USE, out)


# A disk that is full


@pytest.fixture
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of 64 kilobytes, if one may be mounted."""
    place = folder / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if os.geteuid() or not shutil.which("mount") or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize(
    "command",
    [
        DECIDE,
        (*DECIDE[:-1], "out.parquet"),
        (*DECIDE[:-1], "out.arrow"),
        FIT,
        REPORT,
    ],
    ids=str,
)
def test_a_disk_that_is_nearly_full(command: tuple[str, ...], line: Line, folder: Path) -> None:
    assert line(*command).code == 0  # what is compiled or drawn for the first time is kept on disk too
    (folder / command[-1]).unlink()
    with disk_of(3000):
        refused(line, folder, command, FAILED, "cannot write ", command[-1], "Nothing was written")


def test_a_disk_that_is_nearly_full_for_a_job_file(line: Line, folder: Path) -> None:
    command = ("init", "new.csv", "--labels", "y_*", "--force", "-o", "out.toml")
    with disk_of(500):
        refused(line, folder, command, FAILED, "cannot write ", "out.toml", "Nothing was written")


@pytest.mark.parametrize("command", [CHECK, FIT, AUDIT, REPORT, DECIDE], ids=lambda command: command[0])
def test_a_disk_without_room_for_anything(command: tuple[str, ...], line: Line, folder: Path) -> None:
    """Not even for what is needed on the way."""
    assert line(*command).code == 0
    if "-o" in command:
        (folder / command[-1]).unlink()
    with disk_of(30):
        refused(line, folder, command, FAILED, "File too large")


@pytest.mark.parametrize("end", ["csv", "parquet", "arrow"])
def test_a_file_system_that_fills_up(end: str, line: Line, folder: Path, small_disk: Path) -> None:
    many = pd.concat([NEW] * 40, ignore_index=True)
    write_table(many.assign(day=np.arange(len(many)), a_0=np.linspace(0, 1, len(many))), folder / "new.csv")
    out = small_disk / f"out.{end}"
    for older in (None, OLD):
        if older is not None:
            out.write_bytes(older)
        before = contents(folder)
        require_line(line(*DECIDE[:-1], str(out)), FAILED, f"cannot write {out}", "No space left on device")
        assert contents(folder) == before


def test_a_file_system_that_fills_up_with_a_report(line: Line, folder: Path, small_disk: Path) -> None:
    out = small_disk / "out.html"
    require_line(line(*REPORT[:-1], str(out)), FAILED, f"cannot write {out}", "No space left on device")
    assert list(small_disk.iterdir()) == []


# Too few rows


def test_too_few_rows_to_fit(line: Line, folder: Path) -> None:
    write_table(ROWS[:99], folder / "history.csv")
    refused(line, folder, FIT, WRONG_USE, "history.csv", "100", "99")


def test_too_few_rows_are_a_finding_of_a_check(line: Line, folder: Path) -> None:
    write_table(ROWS[:99], folder / "history.csv")
    said = line(*CHECK)
    assert said.code == WRONG_USE
    assert "99 rows in history.csv" in said.out  # and all the rest that was understood
    assert re.fullmatch(r"optensemble: [^\n]*history\.csv[^\n]*100[^\n]*\n", said.err)
    found = json.loads(line(*CHECK, "--json").out)  # one document
    assert found["enough"] is False


def test_a_check_that_fails_quietly_still_says_why(line: Line, folder: Path) -> None:
    write_table(ROWS[:99], folder / "history.csv")
    require_line(line(*CHECK, "--quiet"), WRONG_USE, "history.csv", "100")


# Audits


def test_a_promise_that_is_kept_is_exit_code_0(line: Line, folder: Path) -> None:
    said = line(*AUDIT)
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[0].endswith("kept")


@pytest.mark.parametrize("flag", ["--quiet", "--json", None])
def test_a_promise_that_is_refuted_is_exit_code_3(flag: str | None, line: Line, folder: Path) -> None:
    worse = LATER.assign(**{f"y_{star}": -3 - LATER[f"y_{star}"] for star in STARS})
    write_table(worse, folder / "later.csv")
    said = line(*AUDIT, *([flag] if flag else []))
    assert (said.code, said.err) == (REFUTED, "")
    if flag == "--json":
        assert json.loads(said.out)["kept"] is False
    elif flag is None:
        assert "not kept" in said.out.splitlines()[0]
    else:
        assert said.out == ""


@pytest.mark.parametrize("flag", ["--quiet", "--json", None])
def test_an_audit_of_rows_fitted_on_is_exit_code_2_with_a_warning(flag: str | None, line: Line, folder: Path) -> None:
    said = line("audit", "e.oe", "history.csv", *([flag] if flag else []))
    assert said.code == WRONG_USE
    warning = (
        r"optensemble: warning: 240 of these 240 rows are rows the ensemble was fitted on: .* Give rows [^\n]*\.\n"
    )
    assert re.fullmatch(warning, said.err)


def test_an_audit_without_labels(line: Line, folder: Path) -> None:
    write_table(LATER.drop(columns=["y_0", "y_1", "y_2"]), folder / "later.csv")
    for command in (AUDIT, REPORT):
        refused(line, folder, command, WRONG_USE, "later.csv", "'y_0'")


def test_an_audit_with_other_labels_than_coordinates(line: Line, folder: Path) -> None:
    refused(line, folder, (*AUDIT, "--labels", "y_0"), WRONG_USE, "later.csv", "--labels", "3")
    refused(line, folder, (*AUDIT, "--labels", "yy_*"), WRONG_USE, "later.csv", "--labels", "Did you mean 'y_*'?")


# Explanations


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--row", "80"], ["new.csv", "no row 80", "it has 80"]),
        (["--id", "zebra"], ["new.csv", "no row of id 'zebra'"]),
        ([], ["--row", "--id"]),
        (["--row", "1", "--id", "1-00001"], ["--row", "--id"]),
        (["--row", "-1"], ["--row"]),
        (["--row", "x"], ["--row"]),
        (["--id", "1-00001", "--id-column", "dya"], ["new.csv", "'dya'", "Did you mean 'day'?"]),
    ],
    ids=str,
)
def test_a_row_to_explain_that_is_none(options: list[str], parts: list[str], line: Line, folder: Path) -> None:
    refused(line, folder, ("explain", "e.oe", "new.csv", *options), WRONG_USE, *parts)


# Beginning


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--labels", "yy_*"], ["--labels", "history.csv", "Did you mean 'y_*'?"]),
        (["--model", "a"], ["--model", "NAME=PATTERN", "'a'"]),
        (["--model", "a=aa_*"], ["--model", "history.csv", "Did you mean 'a_*'?"]),
        (["--policy", "plan=paln_*"], ["--policy", "history.csv", "Did you mean 'plan_*'?"]),
        (["--model", "a=a_*", "--model", "a=b_*"], ["--model", "'a'"]),
        (["--model", "x=a_*", "--policy", "x=plan_*"], ["'x'"]),
        (["--feasible", "simplx"], ["--feasible", "Did you mean 'simplex'?"]),
        (["--sense", "maximum"], ["--sense", "'maximum'"]),
        (["--id", "dya"], ["history.csv", "'dya'", "Did you mean 'day'?"]),
        (["--time", "dat"], ["history.csv", "'dat'", "Did you mean 'date'?"]),
        (["--groups", "regoin"], ["history.csv", "'regoin'", "Did you mean 'region'?"]),
    ],
    ids=str,
)
def test_a_beginning_that_names_what_is_not_there(
    options: list[str], parts: list[str], line: Line, folder: Path
) -> None:
    refused(line, folder, ("init", "history.csv", "-o", "out.toml", "--force", *options), WRONG_USE, *parts)


def test_a_table_in_which_nothing_is_recognised(line: Line, folder: Path) -> None:
    write_table(ROWS[["day", "region", "a_0"]], folder / "history.csv")
    refused(line, folder, ("init", "history.csv", "-o", "out.toml", "--force"), WRONG_USE, "history.csv", "--labels")
    command = ("init", "history.csv", "-o", "out.toml", "--force", "--labels", "a_0")
    refused(line, folder, command, WRONG_USE, "history.csv", "--model")


# Wrong use


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        (("decied", "e.oe"), ["'decied'", "Did you mean 'decide'?"]),
        (("frobnicate",), ["'frobnicate'"]),
        ((*DECIDE, "--qiet"), ["--qiet", "--quiet"]),
        ((*DECIDE, "--zebra"), ["--zebra"]),
        (("decide", "e.oe", "new.csv"), ["--out"]),
        (("decide", "e.oe"), ["TABLE"]),
        (("fit",), ["JOB.toml"]),
        ((*FIT, "--jobs", "x"), ["--jobs"]),
        ((*FIT, "--jobs", "0"), ["jobs"]),
        (("fit", "job.toml", "-o"), ["-o"]),
    ],
    ids=str,
)
def test_wrong_use(command: tuple[str, ...], parts: list[str], line: Line, folder: Path) -> None:
    before = contents(folder)
    require_line(line(*command), WRONG_USE, *parts)
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("decide", "e.oe", "no.csv", "-o", "out.csv"), FAILED),
        (("audit", "no.oe", "later.csv"), FAILED),
        (("explain", "e.oe", "new.csv", "--row", "999"), WRONG_USE),
        (("check", "no.toml"), FAILED),
        (("fit", "job.toml", "-o", "nowhere/out.oe"), WRONG_USE),
        (("report", "e.oe", "later.csv", "-o", "."), WRONG_USE),
        (("init", "no.csv", "-o", "out.toml"), FAILED),
        (("decide", "e.oe", "--zebra"), WRONG_USE),
        (("decied",), WRONG_USE),
    ],
    ids=str,
)
def test_for_machines_an_error_is_json(command: tuple[str, ...], code: int, line: Line, folder: Path) -> None:
    said = line(*command, "--json")
    assert said.code == code
    found = json.loads(said.out)
    assert found["exit_code"] == code
    assert said.err == f"optensemble: {found['error']}\n"


# Interrupts


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
    assert (said.code, said.out) == (INTERRUPTED, "")
    assert re.fullmatch(r"optensemble: [Ii]nterrupted\. Nothing was written\.\n", said.err)


def test_a_run_that_is_ended_by_a_scheduler_leaves_nothing(much: Path) -> None:
    said = stopped(much, signal.SIGTERM)
    assert said.code not in (0, None)
    assert "Traceback" not in said.err
