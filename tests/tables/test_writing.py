"""Tables out: whole or not at all, in every format what was written is what is read."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble.exceptions import FileError, InputError
from optensemble.tables.writing import require_output_path, table_writer
from tests.jobs.worlds import leftovers, read_table

FORMATS = ["t.csv", "t.parquet", "t.arrow", "t.feather"]
COLUMNS: dict[str, Any] = {
    "day": np.array(["a", "b;c,d", 'e"f'], dtype=object),
    "action_0": np.array([0.0, 0.1 + 0.2, -1e-17]),
    "low": np.array([np.nan, 1.0, 2.5]),
}


def write(path: Path, *parts: dict[str, Any]) -> None:
    with table_writer(path) as table:
        for part in parts:
            table.write(part)


def write_and_fail(path: Path, error: BaseException) -> None:
    with table_writer(path) as table:
        table.write(COLUMNS)
        raise error


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_written_is_what_is_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    write(path, COLUMNS, COLUMNS)
    found = read_table(path)
    assert list(found) == list(COLUMNS)
    for column, values in COLUMNS.items():
        np.testing.assert_array_equal(found[column].to_numpy(), np.concatenate([values, values]))
    assert leftovers(tmp_path) == []


@given(
    numbers=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30),
    cuts=st.lists(st.integers(1, 29), max_size=3),
    name=st.sampled_from(FORMATS),
)
def test_how_rows_are_cut_into_batches_does_not_matter(
    numbers: list[float], cuts: list[int], name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("out") / name
    parts = [part for part in np.split(np.array(numbers), sorted(cuts)) if len(part)]
    write(path, *({"x": part} for part in parts))
    assert read_table(path)["x"].astype(float).tolist() == numbers


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
@pytest.mark.parametrize(
    "ids",
    [
        pd.Series([1, 2, 3], dtype="int32"),
        pd.Series(["x", "y", "z"]),
        pd.Series(["x", "y", "z"], dtype=object),
        pd.Series([dt.date(2026, 1, day) for day in (1, 2, 3)]),
        pd.Series(pd.date_range("2026-01-01", periods=3, tz="Europe/Berlin")),
    ],
    ids=["whole", "text", "objects", "dates", "times"],
)
def test_ids_keep_their_type(ids: pd.Series[Any], name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    write(path, {"id": ids, "x": np.zeros(3)})
    assert read_table(path)["id"].tolist() == ids.tolist()


@pytest.mark.parametrize("name", FORMATS)
def test_a_batch_without_any_limit_is_still_of_numbers(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    write(path, {"x": np.zeros(2), "low": np.full(2, np.nan)}, {"x": np.zeros(1), "low": np.array([1.5])})
    np.testing.assert_array_equal(read_table(path)["low"], [np.nan, np.nan, 1.5])


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("error", [InputError("no"), ZeroDivisionError(), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("old", [b"what was there", None])
def test_an_error_on_the_way_leaves_what_was_there(
    name: str, error: BaseException, old: bytes | None, tmp_path: Path
) -> None:
    path = tmp_path / name
    if old is not None:
        path.write_bytes(old)
    with pytest.raises(type(error)):
        write_and_fail(path, error)
    assert (path.read_bytes() if path.exists() else None) == old
    assert leftovers(tmp_path) == []


def test_while_it_is_written_the_old_table_is_there(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("old")
    with table_writer(path) as table:
        table.write(COLUMNS)
        assert path.read_text() == "old"
    assert path.read_text().startswith('"day"')


def test_a_new_table_has_the_mode_that_the_umask_allows(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write(tmp_path / "t.csv", COLUMNS)
    finally:
        os.umask(mask)
    assert (tmp_path / "t.csv").stat().st_mode & 0o777 == 0o640


def test_a_table_that_was_there_keeps_its_mode_and_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.csv", tmp_path / "link.csv"
    real.write_text("old")
    real.chmod(0o604)
    link.symlink_to(real)
    write(link, COLUMNS)
    assert link.is_symlink()
    assert real.read_text().startswith('"day"')
    assert real.stat().st_mode & 0o777 == 0o604
    assert leftovers(tmp_path) == []


def test_what_is_there_and_is_no_file_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    with pytest.raises(FileError, match=r"pipe\.csv: it is there, and is not a file"):
        write(pipe, COLUMNS)


def test_columns_of_other_kinds_than_in_the_first_batch_are_cast_or_refused(tmp_path: Path) -> None:
    for name in FORMATS:
        write(tmp_path / name, {"id": np.array([1, 2])}, {"id": np.array(["3"], dtype=object)})
        assert read_table(tmp_path / name)["id"].astype(int).tolist() == [1, 2, 3]
        with pytest.raises(InputError, match=r"column 'id' holds int64 in some rows and (large_)?string in others"):
            write(tmp_path / name, {"id": np.array([1, 2])}, {"id": np.array(["x"], dtype=object)})


def test_compressed_and_unknown_files_are_refused_before_anything_is_done(tmp_path: Path) -> None:
    for name in ("t.csv.gz", "t.xlsx"):
        with pytest.raises(InputError, match=f"{name}.*"), table_writer(tmp_path / name):
            pytest.fail("it was opened")
    assert list(tmp_path.iterdir()) == []


# Places


def test_a_place_is_a_file_in_a_folder_that_is_there(tmp_path: Path) -> None:
    require_output_path(tmp_path / "new.csv", [tmp_path / "other.csv"])
    with pytest.raises(InputError, match=r"is a folder. Give -o the name of a file"):
        require_output_path(tmp_path, [])
    with pytest.raises(InputError, match=r"would be in the folder .*nowhere, which does not exist"):
        require_output_path(tmp_path / "nowhere" / "new.csv", [])


def test_what_is_read_is_not_written_over_by_whatever_name(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("x")
    (tmp_path / "link.csv").symlink_to(tmp_path / "in.csv")
    for out in ("in.csv", "link.csv", "../" + tmp_path.name + "/in.csv"):
        with pytest.raises(InputError, match="is an input, and would be overwritten"):
            require_output_path(tmp_path / out, [tmp_path / "other.csv", tmp_path / "in.csv"])


# Errors of the operating system


def test_trouble_of_the_system_is_told_as_a_file_that_could_not_be_written(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    full = OSError(28, "No space left on device")
    with pytest.raises(FileError, match=r"cannot write .*t\.csv: No space left on device. Nothing was written"):
        write_and_fail(path, full)
    assert list(tmp_path.iterdir()) == []
