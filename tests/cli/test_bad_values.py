"""Bad values in tables: numbers, ids and times, named with their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.cli.calling import Line
from tests.cli.refusals import (
    AUDIT,
    BOTH,
    CHECK,
    DECIDE,
    FIT,
    LATER,
    NEW,
    REPORT,
    ROWS,
    TABLES,
    WRONG_USE,
    refused,
    with_value,
)
from tests.jobs.worlds import write_job, write_table

# Values


@pytest.mark.no_cover
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
        ("abc", "'abc' in line 9, which is not a number"),
        ("1,5", "Write decimals with a point"),
        ("None", "'None' in line 9"),
        ("inf", "infinite value (inf) in line 9"),
    ],
)
def test_a_csv_cell_that_is_not_a_number_is_refused(
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
@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_an_infinite_value_is_refused(column: str, value: float, line: Line, folder: Path) -> None:
    write_table(with_value(value, 7, column), folder / "history.parquet")
    write_job(folder, data={"fit": "history.parquet"})
    refused(line, folder, FIT, WRONG_USE, "history.parquet", repr(column), "infinite", "row 7")


@BOTH
@pytest.mark.parametrize("value", ["", "NA"])
@pytest.mark.parametrize("column", ["a_0", "y_1"])
def test_a_value_that_must_be_there_is_missing(
    column: str, value: str, command: tuple[str, ...], line: Line, folder: Path
) -> None:
    """Labels if the job says so, and members of the paper's algorithms."""
    write_table(with_value(value, 7, column), folder / "history.csv")
    write_job(folder, data={"missing_labels": "raise"}, policies=None, ensemble={"kind": "white_box"})
    refused(line, folder, command, WRONG_USE, "history.csv", repr(column), "no value in line 9", "Fill it in")


@BOTH
@pytest.mark.parametrize("value", [None, np.nan], ids=str)
@pytest.mark.parametrize("column", ["a_0", "y_1"])
def test_a_parquet_value_that_must_be_there_is_missing(
    column: str, value: Any, command: tuple[str, ...], line: Line, folder: Path
) -> None:
    write_table(with_value(value, 7, column), folder / "history.parquet")
    data = {"fit": "history.parquet", "missing_labels": "raise"}
    write_job(folder, data=data, policies=None, ensemble={"kind": "white_box"})
    refused(line, folder, command, WRONG_USE, "history.parquet", repr(column), "no value in row 7")


@TABLES
@pytest.mark.parametrize(
    ("part", "column"), [("id", "day"), ("time", "date"), ("subgroups", "region"), ("groups", "region")]
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


def test_a_parquet_column_that_holds_no_numbers(line: Line, folder: Path) -> None:
    write_table(ROWS.assign(a_0="1.5"), folder / "history.parquet")
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
    refused(line, folder, command, WRONG_USE, "new.csv and 1 more", "'day'", "; 10 ids are repeated")


def test_an_id_column_called_as_a_column_of_the_decisions(line: Line, folder: Path) -> None:
    write_table(NEW.rename(columns={"day": "promised"}), folder / "new.csv")
    command = (*DECIDE, "--id-column", "promised")
    refused(line, folder, command, WRONG_USE, "'promised'", "Rename it")


# Times


@pytest.mark.parametrize("value", ["yesterday", "31.12.2025", "2025-02-30", "2025-01-01T00:00+01:00"])
@TABLES
@BOTH
def test_invalid_times_and_mixed_time_zones_are_refused(
    command: tuple[str, ...], end: str, value: str, line: Line, folder: Path
) -> None:
    write_table(with_value(value, 7, "date"), folder / f"history.{end}")
    write_job(folder, data={"fit": f"history.{end}", "time": "date"})
    refused(line, folder, command, WRONG_USE, f"history.{end}", "'date'", "must hold times")


def test_invalid_times_of_later_rows_are_refused(line: Line, folder: Path) -> None:
    command = (*AUDIT, "--time", "region")
    refused(line, folder, command, WRONG_USE, "later.csv", "'region'", "must hold times")
