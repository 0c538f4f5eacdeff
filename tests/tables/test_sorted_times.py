"""Columns of dates and times by which rows are sorted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from optensemble.tables.reading import find_tables
from optensemble.tables.sorted_times import find_sorted_times
from tests.jobs.worlds import write_table

N = 40
DAYS = pd.date_range("2025-01-01", periods=N)
ISO = DAYS.strftime("%Y-%m-%d")
ENDS = pytest.mark.parametrize("end", ["csv", "parquet", "arrow", "csv.gz"])


def found_in(folder: Path, end: str = "csv", **columns: Any) -> list[str]:
    path = write_table(pd.DataFrame({"y": np.arange(N) / 7, **columns}), folder / f"t.{end}")
    return find_sorted_times(find_tables([str(path)]))


@ENDS
@pytest.mark.parametrize(
    "values",
    [
        ISO,
        DAYS,
        DAYS.date,
        DAYS.tz_localize("UTC"),
        DAYS.strftime("%Y-%m-%dT%H:%M"),
        DAYS.strftime("%Y-%m-%d %H:%M:%S"),
        [*ISO.repeat(2)[: N - 2], "2025-03-01", "2025-03-02"],
    ],
    ids=["text", "times", "dates", "with a zone", "times as text", "with a space", "most twice"],
)
def test_ascending_dates_and_times_are_found(end: str, values: Any, tmp_path: Path) -> None:
    assert found_in(tmp_path, end, when=values) == ["when"]


@ENDS
@pytest.mark.parametrize(
    "values",
    [ISO[::-1], DAYS[::-1], np.arange(N), [f"{i:03d}" for i in range(N)], ISO.repeat(2)[:N], [*ISO[:-1], "soon"]],
    ids=["text", "times", "numbers", "ids", "all twice", "a word"],
)
def test_other_columns_are_not(end: str, values: Any, tmp_path: Path) -> None:
    assert found_in(tmp_path, end, when=values) == []


@ENDS
def test_numbers_are_times_if_they_are_named_so_and_these_come_first(end: str, tmp_path: Path) -> None:
    assert found_in(tmp_path, end, day=ISO, Time=np.arange(N)) == ["Time", "day"]
    assert found_in(tmp_path, end, Time=-np.arange(N)) == []


@ENDS
def test_gaps_are_no_times(end: str, tmp_path: Path) -> None:
    assert found_in(tmp_path, end, when=[*ISO[:-1], None]) == []


def test_a_few_rows_show_nothing(tmp_path: Path) -> None:
    path = write_table(pd.DataFrame({"when": ISO[:9]}), tmp_path / "t.csv")
    assert find_sorted_times(find_tables([str(path)])) == []


def test_several_files_are_one_table(tmp_path: Path) -> None:
    for order, expected in ((["a", "b"], ["when"]), (["b", "a"], [])):
        for name, part in zip(order, (ISO[:20], ISO[20:]), strict=True):
            write_table(pd.DataFrame({"when": part}), tmp_path / f"{name}.csv")
        assert find_sorted_times(find_tables([str(tmp_path / "*.csv")])) == expected


def test_only_the_first_rows_are_looked_at(tmp_path: Path) -> None:
    days = pd.date_range("2025-01-01", periods=10_001, freq="min")
    path = write_table(pd.DataFrame({"when": [*days[:-1], days[0]]}), tmp_path / "t.parquet")
    assert find_sorted_times(find_tables([str(path)])) == ["when"]


def test_what_cannot_be_read_has_no_times(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("when,y\n2025-01-01,1,2\n")
    (tmp_path / "u.parquet").write_bytes(b"PAR1 no more")
    (tmp_path / "v.csv").write_text("when,when\n2025-01-01,2025-01-01\n")
    (tmp_path / "w.csv").write_text("when\n")
    for name in "tuvw":
        assert find_sorted_times(find_tables([str(next(tmp_path.glob(f"{name}.*")))])) == []
