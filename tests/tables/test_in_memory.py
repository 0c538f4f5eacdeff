"""Rows in memory: the same as in files, in JSON and Arrow; what is wrong is told, and no bytes break anything."""

from __future__ import annotations

import decimal
import math
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.ipc as ipc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from optensemble.exceptions import InputError
from optensemble.tables.in_memory import MemoryTables
from optensemble.tables.ipc_sizes import declared_size
from optensemble.tables.reading import ColumnSelection, Tables
from tests.jobs.worlds import make_rows, write_table

NUMBERS = ("a_2", "a_0", "y_1")
SELECTION = ColumnSelection(NUMBERS, ("day", "region"))
ROWS = make_rows(57)
RECORDS: list[dict[str, Any]] = ROWS.to_dict("records")  # type: ignore[assignment]
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=3,
)


def as_stream(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, table.schema, options=ipc.IpcWriteOptions(**options)) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def as_file(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with ipc.new_file(sink, table.schema, options=ipc.IpcWriteOptions(**options)) as file:
        file.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def of_values(values: list[Any], name: str = "x") -> MemoryTables:
    return MemoryTables.of_records([{name: value} for value in values])


def numbers(values: list[Any]) -> list[float]:
    selection = ColumnSelection(("x",), optional=frozenset("x"))
    return [float(value) for value in of_values(values).read(selection)["x"]]


def texts(values: list[Any]) -> list[Any]:
    return list(of_values(values).read(ColumnSelection(texts=("x",)))["x"])


def require_printable(error: InputError) -> None:
    assert str(error).isprintable()


def refused(tables: MemoryTables, selection: ColumnSelection) -> str:
    with pytest.raises(InputError) as caught:
        tables.read(selection)
    said = str(caught.value)
    assert said.startswith("the request")
    assert said.isprintable()
    return said


# The same as in files


@pytest.mark.parametrize("size", [1, 7, 57, 1000])
def test_records_and_arrow_are_what_files_are(size: int, tmp_path: Path) -> None:
    path = write_table(ROWS, tmp_path / "t.parquet")
    expected = pd.concat(list(Tables((path,)).batches(SELECTION, size)), ignore_index=True)
    table = pa.Table.from_pandas(ROWS, preserve_index=False)
    sources = [MemoryTables.of_records(RECORDS), MemoryTables.of_table(table)]
    sources += [MemoryTables.of_arrow(each) for each in (as_stream(table), as_file(table), memoryview(as_file(table)))]
    for tables in sources:
        assert (tables.rows, tables.columns, tables.paths) == (57, list(ROWS.columns), ())
        parts = list(tables.batches(SELECTION, size))
        assert all(0 < len(part) <= size for part in parts)
        pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), expected)


def test_numbers_are_read_without_pandas() -> None:
    selection = ColumnSelection(NUMBERS, optional=frozenset(NUMBERS))
    (batch,) = MemoryTables.of_records(RECORDS).number_batches(selection)
    assert not isinstance(batch, pd.DataFrame)
    np.testing.assert_array_equal(batch.numbers.rows, ROWS[list(NUMBERS)].to_numpy())


def test_a_name_that_a_row_lacks_is_a_missing_value() -> None:
    tables = MemoryTables.of_records([{"x": 1.0}, {}, {"z": [1], "x": 2.0}])
    assert (tables.columns, tables.rows) == (["x", "z"], 3)
    found = tables.read(ColumnSelection(("x",), optional=frozenset("x")))["x"]
    assert found.tolist()[0] == 1.0
    assert math.isnan(found[1])
    assert "column 'x' has no value in row 1 (counted from 0). Fill it in" in refused(tables, ColumnSelection(("x",)))
    assert "has no column 'y'. It has 'x', 'z'." in refused(tables, ColumnSelection(("y",)))


def test_values_are_those_of_a_column() -> None:
    assert MemoryTables.of_records([{"id": 7}, {"id": "x"}, {}]).values("id") == [7, "x", None]
    table = pa.table({"id": pa.array([date(2026, 1, 31), None])})
    assert MemoryTables.of_table(table).values("id") == [date(2026, 1, 31), None]
    empty = MemoryTables.of_table(pa.table({"id": pa.array([], pa.int64())}))
    assert (empty.values("id"), empty.rows) == ([], 0)
    with pytest.raises(InputError, match="the request has no rows"):
        empty.read(ColumnSelection(texts=("id",)))


# JSON: numbers


def test_all_numbers_of_json_are_numbers() -> None:
    found = numbers([1, 2.5, True, None, math.nan, 2**53 + 1, -(2**70), 10**300])
    assert found[:3] == [1.0, 2.5, 1.0]
    assert [math.isnan(each) for each in found[3:5]] == [True, True]
    assert found[5:] == [2.0**53, -(2.0**70), 1e300]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("1.5", "'1.5'"),
        ("", "''"),
        ("x" * 1000, "'" + "x" * 39 + "…'"),
        ("\x1b[31m", r"'\x1b[31m'"),
        ("\ud800", r"'\ud800'"),
        ([1.0], "a list"),
        ({"a": 1.0}, "an object"),
    ],
    ids=str,
)
def test_what_is_no_number_is_named_with_its_row(value: Any, shown: str) -> None:
    for values in ([1.0, 2.0, value], [None, 2**60 + 1, value]):
        said = refused(of_values(values), ColumnSelection(("x",), optional=frozenset("x")))
        assert f"column 'x' has {shown} in row 2 (counted from 0), which is not a number. Put a number there" in said


@pytest.mark.parametrize(("value", "what"), [(math.inf, "an infinite value (inf)"), (10**400, "that is too large")])
def test_numbers_without_end_are_refused(value: Any, what: str) -> None:
    said = refused(of_values([1.0, value]), ColumnSelection(("x",), optional=frozenset("x")))
    assert what in said
    assert "in row 1 (counted from 0)" in said


# JSON: text


def test_text_and_numbers_are_the_same_text() -> None:
    assert texts(["7", 7, 7.0, True, "true", 2**80]) == ["7", "7", "7", "true", "true", str(2**80)]
    assert texts([7, -8]) == [7, -8]
    assert texts(["a", "größer"]) == ["a", "größer"]


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (None, "has no value in row 1"),
        ("", "has no value in row 1"),
        (math.nan, "has no value in row 1"),
        ([1], "has a list in row 1 (counted from 0); it must hold text or numbers. Put a single value there"),
        ({}, "has an object in row 1"),
        ("\ud800", "has text in row 1 (counted from 0) that is not Unicode"),
        (10**5000, "thousands of digits"),
    ],
    ids=lambda value: str(value)[:10] if not isinstance(value, int) else "digits",
)
def test_what_is_no_text_is_named_with_its_row(value: Any, what: str) -> None:
    for first in ("a", 1):
        assert what in refused(of_values([first, value]), ColumnSelection(texts=("x",)))


@pytest.mark.parametrize("row", [[1.0], "x", None, 3])
def test_rows_that_are_no_objects_are_refused(row: Any) -> None:
    with pytest.raises(InputError, match=r"the request: row 1 \(counted from 0\) must be an object"):
        MemoryTables.of_records([{"x": 1.0}, row])


def test_columns_without_end_are_refused() -> None:
    tables = MemoryTables.of_records([{f"{row}-{name}": 1 for name in range(100)} for row in range(200)])
    assert "more than 16,384 columns" in refused(tables, SELECTION)


@given(st.lists(st.dictionaries(st.sampled_from(["x", "y"]), JSON_VALUES), max_size=4))
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_json_is_read_or_refused(rows: list[dict[str, Any]]) -> None:
    tables = MemoryTables.of_records(rows)
    for selection in (
        ColumnSelection(("x",), ("y",)),
        ColumnSelection(("x", "y"), optional=frozenset(["x", "y"])),
        ColumnSelection(texts=("x", "y")),
    ):
        for read in (tables.batches, tables.number_batches):
            try:
                assert sum(map(len, read(selection))) == len(rows)
            except InputError as error:
                require_printable(error)


# Arrow


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.float32(), pa.bool_(), pa.decimal128(5, 2), pa.dictionary(pa.int8(), pa.int64())]
)
def test_numbers_of_any_type_are_numbers(kind: pa.DataType) -> None:
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    one: Any = {pa.decimal128(5, 2): decimal.Decimal(1), pa.bool_(): True}.get(kind, 1)
    values = [one, None]
    column = (
        pa.array(values, plain).cast(kind) if plain == kind else pa.array(values, plain).dictionary_encode().cast(kind)
    )
    tables = MemoryTables.of_arrow(as_stream(pa.table({"x": column})))
    found = tables.read(ColumnSelection(("x",), optional=frozenset("x")))["x"].tolist()
    assert found[0] == 1.0
    assert math.isnan(found[1])


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1.0], [2.0]]),
        pa.array([{"a": 1.0}] * 2),
        pa.array([b"a", b"b"]),
        pa.array(["a", "b"], pa.string_view()),
        pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array([1.0])),
        pa.array([1, 2], pa.duration("s")),
    ],
    ids=lambda column: str(column.type),
)
def test_columns_of_anything_but_single_values_are_refused(column: pa.Array) -> None:
    tables = MemoryTables.of_arrow(as_stream(pa.table({"x": column, "y": [1.0, 2.0]})))
    for selection in (ColumnSelection(("x",)), ColumnSelection(texts=("x",))):
        assert "it must hold numbers, text, dates or times. Convert it." in refused(tables, selection)
    assert len(tables.read(ColumnSelection(("y",)))) == 2  # what is not read may be anything


def test_text_in_a_column_of_numbers_is_named_with_its_row() -> None:
    chosen = ColumnSelection(("x",), optional=frozenset("x"))
    text = MemoryTables.of_table(pa.table({"x": pa.array([None, "one"])}))
    assert "column 'x' has 'one' in row 1 (counted from 0), which is not a number" in refused(text, chosen)
    days = MemoryTables.of_table(pa.table({"x": pa.array([date(2026, 1, 1)])}))
    assert "column 'x' must hold numbers; it holds date32[day]. Convert it." in refused(days, chosen)
    none = MemoryTables.of_table(pa.table({"x": pa.array([None], pa.string())}))
    assert "it holds string" in refused(none, chosen)


def test_a_column_that_is_there_twice_is_refused() -> None:
    table = pa.table([pa.array([1.0]), pa.array([2.0])], names=["x", "x"])
    said = refused(MemoryTables.of_arrow(as_stream(table)), ColumnSelection(("x",)))
    assert "has the column 'x' 2 times" in said


def test_days_beyond_the_calendar_are_refused() -> None:
    table = pa.table({"x": pa.array([2**31 - 1], pa.int32()).cast(pa.date32())})
    said = refused(MemoryTables.of_arrow(as_stream(table)), ColumnSelection(texts=("x",)))
    assert "has values that cannot be read" in said
    with pytest.raises(InputError, match="column 'x' has values that cannot be read"):
        MemoryTables.of_arrow(as_stream(table)).values("x")


@pytest.mark.parametrize("write", [as_stream, as_file])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_what_a_stream_declares_is_what_it_comes_to(write: Any, compression: str | None) -> None:
    table = pa.table(
        {"x": np.zeros(100_000), "y": ["abc"] * 100_000, "z": pa.array(["a"] * 100_000).dictionary_encode()}
    )
    data = write(table, compression=compression)
    if compression:
        assert len(data) < 500_000
    assert MemoryTables.of_arrow(data, most_rows=100_000, most_bytes=2_000_000).rows == 100_000
    with pytest.raises(InputError, match=r"the request has 100,000 rows; at most 99,999 are taken\. Send fewer rows\."):
        MemoryTables.of_arrow(data, most_rows=99_999)
    with pytest.raises(InputError, match=r"bytes once it is unpacked; at most 1,000,000 are taken"):
        MemoryTables.of_arrow(data, most_bytes=1_000_000)
    size = declared_size(pa.py_buffer(data[8:] if write is as_file else data))
    assert size.rows == 100_000
    assert table.nbytes <= size.bytes < 1.01 * table.nbytes + 2_000


def test_a_long_text_that_stands_in_all_rows_is_refused() -> None:
    dictionary = pa.array(["x" * 1_000_000, "y"])
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, np.int8)), dictionary)
    data = as_stream(pa.table({"x": column, "y": np.zeros(100_000)}))
    tables = MemoryTables.of_arrow(data, most_bytes=10_000_000)
    assert "more than 10,000,000 bytes with the text of column 'x'" in refused(tables, ColumnSelection(texts=("x",)))
    assert len(tables.read(ColumnSelection(("y",)))) == 100_000


def test_rows_without_bytes_are_counted() -> None:
    table = pa.table({"x": pa.nulls(10_000_000)})
    with pytest.raises(InputError, match="has 10,000,000 rows"):
        MemoryTables.of_arrow(as_stream(table))


@pytest.mark.parametrize("data", [b"", b"ARROW1\0\0", b"\xff" * 100, b"PK\x03\x04" * 10, b"\x00" * 64, 7], ids=repr)
def test_what_is_no_arrow_data_is_refused(data: Any) -> None:
    with pytest.raises(InputError, match=r"the request is not a complete Arrow stream or file: .*\. Send it again\."):
        MemoryTables.of_arrow(data)


def test_half_a_stream_is_refused() -> None:
    data = as_stream(pa.Table.from_pandas(ROWS, preserve_index=False), compression="lz4")
    for stop in range(0, len(data) - 8, 97):  # the last 8 bytes say that it has ended, and may be missing
        with pytest.raises(InputError):
            MemoryTables.of_arrow(data[:stop]).read(SELECTION)


TYPES = pa.table(
    {
        "x": pa.array([1.5, None, 2.5]),
        "y": pa.array(["a", "größer", None]),
        "z": pa.array(["a", "b", "a"]).dictionary_encode(),
        "d": pa.array([date(2026, 1, 1), None, date(2026, 1, 3)]),
        "n": pa.nulls(3),
    }
)
BYTES = {
    (write.__name__, compression): write(TYPES, compression=compression)
    for write in (as_stream, as_file)
    for compression in (None, "lz4", "zstd")
}


@given(st.sampled_from(sorted(BYTES, key=str)), st.data())
@settings(deadline=None, max_examples=300)
def test_no_bytes_break_anything(kind: tuple[str, str | None], data: st.DataObject) -> None:
    changed = bytearray(BYTES[kind])
    places = st.integers(0, len(changed) - 1)
    for place, value in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=4)):
        changed[place] = value
    try:
        tables = MemoryTables.of_arrow(bytes(changed), most_bytes=100_000, most_rows=1_000)
        for selection in (
            ColumnSelection(("x",), ("y", "z"), optional=frozenset("x")),
            ColumnSelection(("n",), ("d",), optional=frozenset("n")),
        ):
            assert sum(map(len, tables.batches(selection))) == tables.rows
    except InputError as error:
        require_printable(error)
