"""Tables in: every format gives the same numbers, in batches of any size; what is wrong is told with its place."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble.exceptions import FileError, InputError
from optensemble.tables import formats as _formats
from optensemble.tables.reading import ColumnSelection, Tables, find_tables
from tests.jobs.worlds import make_rows, write_table

NUMBERS = ("a_2", "a_0", "y_1")
SELECTION = ColumnSelection(NUMBERS, ("day", "region"))
ROWS = make_rows(57)
FORMATS = ["t.csv", "t.tsv", "t.txt", "t.parquet", "t.pq", "t.arrow", "t.stream.arrow", "t.feather", "t.csv.gz"]


def written(rows: pd.DataFrame, folder: Path, name: str) -> Path:
    """Write a table, whatever the ending."""
    path = folder / name
    if name.endswith(".pq"):
        return write_table(rows, path.with_suffix(".parquet")).rename(path)
    return write_table(rows, path, **({"sep": "\t"} if name.endswith(".tsv") else {}))


def read(path: Path, wanted: ColumnSelection = SELECTION, size: int = 1 << 16) -> pd.DataFrame:
    return pd.concat(list(Tables((path,)).batches(wanted, size)), ignore_index=True)


def require_same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    """The same names in the same order, numbers to the last bit, and the same texts."""
    assert list(found.columns) == list(expected.columns)
    for name in expected:
        assert found[name].tolist() == expected[name].tolist(), name


def refused(path: Path, wanted: ColumnSelection = SELECTION, error: type[Exception] = InputError) -> str:
    """Return the line that a table is refused with; it names the file."""
    with pytest.raises(error) as caught:
        read(path, wanted)
    assert str(path) in str(caught.value)
    return str(caught.value)


# Formats


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_rows(name: str, tmp_path: Path) -> None:
    path = written(ROWS, tmp_path, name)
    require_same(read(path), ROWS[SELECTION.names])
    assert Tables((path,)).columns == list(ROWS.columns)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("size", [1, 7, 56, 57, 1000])
def test_batches_of_any_size_put_together_are_the_table(name: str, size: int, tmp_path: Path) -> None:
    path = written(ROWS, tmp_path, name)
    parts = list(Tables((path,)).batches(SELECTION, size))
    assert all(0 < len(part) <= size for part in parts)
    require_same(pd.concat(parts, ignore_index=True), ROWS[SELECTION.names])


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"], ids=repr)
def test_what_stands_between_the_cells_of_a_csv_file_is_found(delimiter: str, tmp_path: Path) -> None:
    rows = ROWS.rename(columns={"region": "a region; or | two,\tfour"})
    wanted = ColumnSelection(NUMBERS, ("a region; or | two,\tfour",))
    path = write_table(rows, tmp_path / "t.csv", sep=delimiter)
    require_same(read(path, wanted), rows[wanted.names])


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    path = write_table(ROWS, tmp_path / "t.csv", encoding="utf-8-sig")
    assert Tables((path,)).columns[0] == "day"
    require_same(read(path), ROWS[SELECTION.names])
    numbers_first = write_table(ROWS[["a_0", "day"]], tmp_path / "n.csv", encoding="utf-8-sig")
    require_same(read(numbers_first, ColumnSelection(("a_0",))), ROWS[["a_0"]])


@pytest.mark.parametrize("options", [{"lineterminator": "\r\n"}, {"quoting": 1}, {"float_format": "%.3f"}], ids=str)
def test_csv_files_of_other_habits_are_read(options: dict[str, Any], tmp_path: Path) -> None:
    expected = ROWS.round(3) if "float_format" in options else ROWS
    require_same(read(write_table(ROWS, tmp_path / "t.csv", **options)), expected[SELECTION.names])


def test_a_table_of_one_column_is_a_table(tmp_path: Path) -> None:
    path = write_table(ROWS[["a_0"]], tmp_path / "t.csv")
    require_same(read(path, ColumnSelection(("a_0",))), ROWS[["a_0"]])


def test_a_file_of_many_blocks_is_read_block_by_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_formats, "_BLOCK", 1000)
    require_same(read(write_table(ROWS, tmp_path / "t.csv"), size=1000), ROWS[SELECTION.names])
    many = write_table(ROWS, tmp_path / "t.parquet", row_group_size=5)
    require_same(read(many, size=1000), ROWS[SELECTION.names])


def test_only_parquet_says_how_many_rows_it_has(tmp_path: Path) -> None:
    parquet, csv = (write_table(ROWS, tmp_path / name) for name in ("t.parquet", "t.csv"))
    assert Tables((parquet,)).rows == 57
    assert Tables((parquet, csv)).rows is None


@pytest.mark.parametrize("name", ["t.xlsx", "t", "t.csv.zip", "t.json", "t.gz"])
def test_other_endings_are_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.touch()
    with pytest.raises(InputError, match=r"the ending .* is not that of a known table\. Save it as one of \.parquet"):
        find_tables([str(path)])


# Numbers


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1.5, -2.0, 3.25], pa.float64()),
        ([1.5, -2.0, 3.25], pa.float32()),
        ([1.5, -2.0, 3.25], pa.float16()),
        ([1, -2, 2**53], pa.int64()),
        ([1, 2, 200], pa.uint8()),
        ([True, False, True], pa.bool_()),
        ([Decimal("1.50"), Decimal("-2.00"), Decimal("0.25")], pa.decimal128(10, 2)),
        ([1.5, -2.0, 1.5], pa.dictionary(pa.int8(), pa.float64())),
        ([1, -2, 1], pa.dictionary(pa.int8(), pa.int32())),
    ],
    ids=lambda value: str(value) if isinstance(value, pa.DataType) else "",
)
@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
def test_numbers_of_any_type_are_numbers(values: list[Any], kind: pa.DataType, name: str, tmp_path: Path) -> None:
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    column = pa.array(np.array(values, np.float16) if kind == pa.float16() else values, plain)
    table = pa.table({"x": column.dictionary_encode().cast(kind) if plain != kind else column})
    path = tmp_path / name
    if name.endswith("parquet"):
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(str(path), table.schema) as file:
            file.write_table(table)
    found = read(path, ColumnSelection(("x",)))["x"]
    assert found.dtype == np.float64
    assert found.tolist() == [float(value) for value in values]


@given(numbers=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_numbers_in_a_csv_file_are_read_to_the_last_bit(
    numbers: list[float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_text("x,z\n" + "".join(f"{number!r},1\n" for number in numbers))
    assert read(path, ColumnSelection(("x",)))["x"].tolist() == numbers


@pytest.mark.parametrize("text", ["+1.5", " 1.5 ", "1.50", "15e-1"])
def test_numbers_may_be_written_in_many_ways(text: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"x,z\n{text},1\n")
    assert read(path, ColumnSelection(("x",)))["x"].tolist() == [1.5]


def test_texts_stay_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,x\n007,1\n1e3,2\nNA,3\ntrue,4\n2026-01-31,5\n")
    assert read(path, ColumnSelection(("x",), ("id",)))["id"].tolist() == ["007", "1e3", "NA", "true", "2026-01-31"]


def test_a_column_may_play_several_parts(tmp_path: Path) -> None:
    path = write_table(ROWS, tmp_path / "t.csv")
    found = read(path, ColumnSelection(("a_0",), ("day", "day", "region")))
    assert list(found) == ["a_0", "day", "region"]


# Errors


def with_value(value: Any, path: Path, row: int = 7, column: str = "a_0") -> Path:
    """The table with one other value."""
    rows = ROWS.copy()
    rows[column] = rows[column].astype(object)
    rows.loc[row, column] = value
    return write_table(rows, path)


@pytest.mark.parametrize("value", ["abc", "1_000", "0x10", "1.2.3", "yes", "None", "na"])
def test_text_among_numbers_is_named_with_its_line(value: str, tmp_path: Path) -> None:
    message = refused(with_value(value, tmp_path / "t.csv"))
    assert f"column 'a_0' has {value!r} in line 9, which is not a number. Correct it, " in message


def test_a_decimal_comma_is_recognised(tmp_path: Path) -> None:
    assert "has '1,5' in line 9, which is not a number. Write decimals with a point." in refused(
        with_value("1,5", tmp_path / "t.csv")
    )


@pytest.mark.parametrize("value", ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "#N/A"])
def test_a_number_that_is_missing_in_a_csv_file_is_named_with_its_line(value: str, tmp_path: Path) -> None:
    assert "column 'a_0' has no value in line 9" in refused(with_value(value, tmp_path / "t.csv"))


def test_lines_are_those_that_an_editor_counts(tmp_path: Path) -> None:
    """Blank lines are lines, and a text may go over several."""
    path = tmp_path / "t.csv"
    path.write_text('id,x\n\n"two\nlines",1\nb,\n', encoding="utf-8")
    assert "column 'x' has no value in line 5" in refused(path, ColumnSelection(("x",), ("id",)))
    path.write_text('id,x\n\n"two\nlines",1\nb,abc\n', encoding="utf-8")
    assert "has 'abc' in line 5" in refused(path, ColumnSelection(("x",), ("id",)))


@pytest.mark.parametrize("size", [3, 1000])
def test_lines_are_counted_over_batches_and_blocks(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_formats, "_BLOCK", 2000)
    for value, message in (("", "has no value in line 42"), ("abc", "has 'abc' in line 42")):
        path = with_value(value, tmp_path / "t.csv", row=40)
        with pytest.raises(InputError, match=message):
            read(path, size=size)


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "column 'a_0' has no value in row 40 (counted from 0)"),
        (np.nan, "column 'a_0' has no value in row 40 (counted from 0)"),
        (np.inf, "column 'a_0' has an infinite value (inf) in row 40 (counted from 0)"),
        (-np.inf, "column 'a_0' has an infinite value (-inf) in row 40 (counted from 0)"),
    ],
)
def test_a_value_that_is_missing_or_infinite_is_named_with_its_row(
    value: Any, message: str, name: str, tmp_path: Path
) -> None:
    rows = ROWS.copy()
    rows.loc[40, "a_0"] = value
    path = write_table(rows, tmp_path / name)
    for size in (3, 1000):
        with pytest.raises(InputError, match=message.replace("(", r"\(").replace(")", r"\)")):
            read(path, size=size)


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_missing_text_is_refused(name: str, tmp_path: Path) -> None:
    for column in ("day", "region"):
        for value in ["", None] if name.endswith("parquet") else [""]:
            assert f"column {column!r} has no value in " in refused(with_value(value, tmp_path / name, column=column))


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda n: ["1.5"] * n, "string"),
        (lambda n: pd.date_range("2025-01-01", periods=n), "timestamp"),
        (lambda n: [[1.0]] * n, "list"),
    ],
)
def test_a_column_that_holds_no_numbers_is_refused(make: Callable[[int], Any], kind: str, tmp_path: Path) -> None:
    path = write_table(ROWS.assign(a_0=make(len(ROWS))), tmp_path / "t.parquet")
    message = refused(path)
    assert "column 'a_0' must hold numbers; it holds " in message
    assert kind in message


def test_texts_and_groups_are_no_lists(tmp_path: Path) -> None:
    nested: Any = [["north"]] * len(ROWS)
    path = write_table(ROWS.assign(region=nested), tmp_path / "t.parquet")
    assert "column 'region' must hold text, whole numbers or dates; it holds list" in refused(path)


def test_a_column_that_is_missing_is_refused(tmp_path: Path) -> None:
    path = write_table(ROWS.drop(columns="a_0"), tmp_path / "t.parquet")
    assert "has no column 'a_0'. Did you mean '" in refused(path)


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,y,x\n1,2,3\n")
    assert "has the column 'x' 2 times. Rename all but one." in refused(path, ColumnSelection(("x",)))
    assert read(path, ColumnSelection(("y",)))["y"].tolist() == [2.0]  # a column that is not needed may be there twice


def test_a_row_of_too_few_cells_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,y\n1,2\n3\n")
    assert "Expected 2 columns, got 1" in refused(path, ColumnSelection(("x",)), FileError)


def test_a_file_without_anything_is_refused(tmp_path: Path) -> None:
    for name in ("t.csv", "t.parquet", "t.arrow"):
        (tmp_path / name).touch()
        refused(tmp_path / name, error=FileError)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.arrow", "t.stream.arrow"])
def test_a_table_without_rows_has_no_batches_and_cannot_be_read_whole(name: str, tmp_path: Path) -> None:
    tables = Tables((write_table(ROWS[:0], tmp_path / name),))
    assert list(tables.batches(SELECTION)) == []
    with pytest.raises(InputError, match=r"has no rows. Give a table with rows"):
        tables.read(SELECTION)


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.stream.arrow", "t.csv.gz"])
def test_a_file_that_was_cut_off_is_refused(name: str, tmp_path: Path) -> None:
    path = write_table(make_rows(3000), tmp_path / name)
    path.write_bytes(path.read_bytes()[:-1000])
    refused(path, error=FileError)


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.csv.gz"])
def test_a_file_of_another_kind_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"x,y\n1,2\n" * 10)
    refused(path, error=FileError)


def test_text_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("Straße,x\nKöln,1\n".encode("latin-1"))
    refused(path, ColumnSelection(("x",)), FileError)
    path.write_bytes("street,x\nKöln,1\n".encode("latin-1"))
    assert "Save it as UTF-8" in refused(path, ColumnSelection(("x",), ("street",)), FileError)


def test_gzip_is_decompressed_as_it_is_read(tmp_path: Path) -> None:
    plain = write_table(ROWS, tmp_path / "plain.csv")
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(plain.read_bytes()))
    require_same(read(path, size=10), ROWS[SELECTION.names])


# Several files


def test_files_of_a_glob_come_in_the_order_of_their_names_and_others_as_given(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "c.parquet"):
        write_table(ROWS, tmp_path / name)
    found = find_tables(["c.parquet", "*.csv"], tmp_path)
    assert [path.name for path in found.paths] == ["c.parquet", "a.csv", "b.csv"]
    assert str(found) == f"{tmp_path / 'c.parquet'} and 2 more"
    assert find_tables(["a.csv", "a.csv", "*.csv"], tmp_path).paths == (tmp_path / "a.csv", tmp_path / "b.csv")


def test_a_name_with_a_star_that_is_there_is_that_file(tmp_path: Path) -> None:
    for name in ("day[1].csv", "day1.csv"):
        write_table(ROWS, tmp_path / name)
    assert [path.name for path in find_tables(["day[1].csv"], tmp_path).paths] == ["day[1].csv"]


def test_files_of_several_formats_are_one_table(tmp_path: Path) -> None:
    cuts = [ROWS[:10], ROWS[10:40], ROWS[40:]]
    paths = [
        write_table(cut, tmp_path / name) for cut, name in zip(cuts, ("1.csv", "2.parquet", "3.arrow"), strict=True)
    ]
    found = find_tables([str(path) for path in paths]).read(SELECTION)
    require_same(found, ROWS[SELECTION.names])


def test_columns_are_found_by_name_in_every_file(tmp_path: Path) -> None:
    write_table(ROWS, tmp_path / "1.csv")
    write_table(ROWS[ROWS.columns[::-1]], tmp_path / "2.csv")
    found = find_tables(["*.csv"], tmp_path).read(SELECTION)
    require_same(found, pd.concat([ROWS, ROWS], ignore_index=True)[SELECTION.names])
    write_table(ROWS.drop(columns="a_2"), tmp_path / "3.csv")
    with pytest.raises(InputError, match=r"3\.csv has no column 'a_2'"):
        find_tables(["*.csv"], tmp_path).read(SELECTION)


def test_a_row_is_counted_in_its_own_file(tmp_path: Path) -> None:
    write_table(ROWS, tmp_path / "1.csv")
    with_value("", tmp_path / "2.csv", row=3)
    with pytest.raises(InputError, match=r"2\.csv: column 'a_0' has no value in line 5"):
        find_tables(["*.csv"], tmp_path).read(SELECTION)


def test_files_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"there is no file .*no\.csv"):
        find_tables(["no.csv"], tmp_path)
    with pytest.raises(FileError, match=r"no file matches .*no-\*\.csv"):
        find_tables(["no-*.csv"], tmp_path)
    with pytest.raises(InputError, match="no file with rows was named"):
        find_tables([])


def test_a_folder_is_refused_with_advice(tmp_path: Path) -> None:
    (tmp_path / "days.csv").mkdir()
    with pytest.raises(FileError, match=r"days\.csv is a folder. Name the files in it"):
        find_tables(["days.csv"], tmp_path).read(SELECTION)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.arrow"])
def test_a_file_that_vanishes_between_two_files_is_told(name: str, tmp_path: Path) -> None:
    paths = [write_table(ROWS, tmp_path / f"{number}{name}") for number in (1, 2)]
    parts = Tables(tuple(paths)).batches(SELECTION, 100)
    assert len(next(parts)) == len(ROWS)
    paths[1].unlink()
    with pytest.raises(
        FileError, match=rf"there is no file .*2{name}. Check the path; it may have been moved or deleted"
    ):
        next(parts)


# Times of CSV files


def test_times_of_a_long_file_may_become_finer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Types are guessed from the first block; a later block must not be refused for it."""
    monkeypatch.setattr(_formats, "_BLOCK", 1000)
    dates = ["2025-01-01"] * 40 + ["2025-01-02T06:00", "2025-01-02T06:00:00.5"] + ["2025-01-03"] * 15
    found = read(write_table(ROWS.assign(date=dates), tmp_path / "t.csv"), ColumnSelection(("a_0",), ("date",)))
    assert len(found) == len(ROWS)
