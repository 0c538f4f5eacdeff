"""Jobs whose tables are larger than memory: the same file as of a fit in memory, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from optensemble.exceptions import InputError
from optensemble.jobs.fit import Task, fit_job, prepare
from optensemble.jobs.job import read_job
from optensemble.jobs.memory import memory_limit
from optensemble.jobs.streamed_rows import JobRows
from tests.jobs.worlds import labels_of, make_rows, write_job, write_table

ROWS = make_rows(1500)
FULL = {"id": "day", "time": "date", "subgroups": "region", "groups": "customer"}


def task(folder: Path, memory: float | None, fit: str = "history.csv", **data: Any) -> Task:
    return prepare(read_job(write_job(folder, data={"fit": fit, **data})), memory)


def same_file(folder: Path, fit: str, **data: Any) -> None:
    """A streamed fit and one in memory write the same bytes, without rows, which only the latter could keep."""
    streamed, whole = task(folder, 1.0, fit, **data), task(folder, None, fit, **data)
    assert isinstance(streamed.rows, JobRows)
    assert isinstance(whole.rows, pd.DataFrame)
    assert len(streamed.rows) == streamed.rows.row_count == len(ROWS)
    fit_job(streamed).save(folder / "streamed.oe", keep_rows=False)
    fit_job(whole).save(folder / "whole.oe", keep_rows=False)
    assert (folder / "streamed.oe").read_bytes() == (folder / "whole.oe").read_bytes()


@pytest.mark.parametrize("data", [{}, {"id": "day"}, {"groups": "customer"}, {"subgroups": "region"}, FULL], ids=str)
def test_a_streamed_fit_writes_the_same_bytes(data: dict[str, Any], tmp_path: Path) -> None:
    write_table(ROWS, tmp_path / "history.parquet", row_group_size=400)
    same_file(tmp_path, "history.parquet", **data)


@pytest.mark.parametrize("end", ["csv", "arrow", "stream.arrow", "feather", "csv.gz", "parquet"])
def test_tables_of_any_format_are_streamed(end: str, tmp_path: Path) -> None:
    for number, part in enumerate((ROWS[:100], ROWS[100:1201], ROWS[1201:])):
        write_table(part, tmp_path / f"part-{number}.{end}")
    same_file(tmp_path, f"part-*.{end}", **FULL)


def test_a_streamed_table_has_no_frame(tmp_path: Path) -> None:
    write_table(ROWS, tmp_path / "history.csv")
    streamed = task(tmp_path, 1.0)
    with pytest.raises(InputError, match=r"history.csv is larger than the memory allowed. Allow more"):
        _ = streamed.labels
    assert str(streamed.rows).endswith("history.csv")
    assert isinstance(task(tmp_path, 1e12).rows, pd.DataFrame)


@pytest.mark.parametrize("end", ["csv", "parquet"])
@pytest.mark.parametrize(("start", "stop"), [(0, 1500), (0, 99), (100, 101), (650, 1300), (1201, 1500)])
def test_any_rows_of_the_files_can_be_read(end: str, start: int, stop: int, tmp_path: Path) -> None:
    for number, part in enumerate((ROWS[:100], ROWS[100:1201], ROWS[1201:])):
        write_table(part, tmp_path / f"part-{number}.{end}")
    rows = task(tmp_path, 1.0, f"part-*.{end}", **FULL).rows
    assert isinstance(rows, JobRows)
    pieces, expected = list(rows.read(start, stop)), ROWS[start:stop]
    assert np.concatenate([piece.X["day"] for piece in pieces]).tolist() == expected["day"].tolist()
    np.testing.assert_array_equal(np.concatenate([piece.labels for piece in pieces]), labels_of(expected))


def refused(folder: Path, rows: pd.DataFrame, words: str, **data: Any) -> None:
    """Refused while a table is looked through, before anything is learned."""
    write_table(rows[:700], folder / "part-0.csv")
    write_table(rows[700:], folder / "part-1.csv")
    with pytest.raises(InputError, match=words):
        task(folder, 1.0, "part-*.csv", **data)


@pytest.mark.parametrize("row", [300, 700, 1000])
def test_times_out_of_order_are_refused(row: int, tmp_path: Path) -> None:
    rows = ROWS.copy()
    rows.loc[row, "date"] = "2024-12-31T23:00"
    words = rf"the time in row {row:,}, counted from 0, is before that of the row above it.* sort it, or allow more"
    refused(tmp_path, rows, words, time="date")


def test_times_that_are_the_same_are_in_order(tmp_path: Path) -> None:
    write_table(ROWS.assign(date=ROWS["date"].str[:10]), tmp_path / "history.csv")
    same_file(tmp_path, "history.csv", time="date")


def test_ids_that_are_there_twice_are_refused(tmp_path: Path) -> None:
    rows = ROWS.copy()
    rows.loc[1200, "day"] = "0-00030"
    refused(tmp_path, rows, "0-00030", id="day")


def test_infeasible_decisions_are_refused_with_their_row(tmp_path: Path) -> None:
    rows = ROWS.copy()
    rows.loc[1200, "plan_0"] = 1.5
    refused(tmp_path, rows, r"the decision of policy 'plan' in row 1200, counted from 0, is outside the feasible")


def test_a_value_that_is_missing_is_refused_with_its_line(tmp_path: Path) -> None:
    rows = ROWS.copy()
    rows.loc[1200, "y_1"] = None
    refused(tmp_path, rows, r"part-1.csv: column 'y_1' has no value in line 502", missing_labels="raise")


def test_too_few_rows_are_refused(tmp_path: Path) -> None:
    write_table(ROWS[:50], tmp_path / "history.csv")
    with pytest.raises(InputError, match="has 50 rows; a fit needs at least 100"):
        fit_job(task(tmp_path, 1.0))


# Memory


@pytest.mark.parametrize(
    ("text", "size"),
    [("2GB", 2e9), ("500 MiB", 500 * 2**20), ("1.5k", 1500), ("64", 64), ("3gib", 3 * 2**30), (" 1 T ", 1e12)],
)
def test_sizes_of_memory(text: str, size: float) -> None:
    assert memory_limit(text) == size


@pytest.mark.parametrize("text", ["", "much", "-2GB", "0", "0.0GB", "2 XB", "2,5GB", "nan", "1e9", "GB", "2GBB"])
def test_what_is_no_size_of_memory(text: str) -> None:
    with pytest.raises(InputError, match=r"--memory must be a size such as 2GB or 500MB; got "):
        memory_limit(text)


def test_half_of_the_memory_is_allowed_by_default() -> None:
    assert 1e8 < memory_limit(None) < 1e14
