"""The key of decisions, and columns that are copied to them, in every format and type."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest

from optensemble.exceptions import InputError
from optensemble.jobs.decide import DecisionSummary, decide_table
from optensemble.jobs.fit import fit_job, prepare
from optensemble.jobs.job import read_job
from optensemble.jobs.saved_ensemble import open_ensemble
from optensemble.tables.reading import find_tables
from tests.jobs.worlds import LABELS, leftovers, make_rows, write_job, write_table

N = 30
NEW = make_rows(N, seed=1).drop(columns=LABELS)
DECIDED = ["action_0", "action_1", "action_2", "followed", "promised", "low", "high"]
ROLES: dict[str, dict[str, str]] = {"none": {}, "time": {"time": "date"}, "id": {"id": "day", "time": "date"}}
ENDS = pytest.mark.parametrize("end", ["csv", "parquet", "arrow"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an ensemble for each choice of roles."""
    place = tmp_path_factory.mktemp("ensembles")
    write_table(make_rows(), place / "history.csv")
    for name, data in ROLES.items():
        fit_job(prepare(read_job(write_job(place, data=data)))).save(place / f"{name}.oe")
    return place


def write(rows: pd.DataFrame, path: Path, **columns: Any) -> Path:
    """Write rows with further columns, whose Arrow types are kept."""
    table = pa.Table.from_pandas(rows, preserve_index=False)
    for name, values in columns.items():
        table = table.append_column(name, values)
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".arrow":
        pf.write_feather(table, str(path))
    else:
        pc.write_csv(table, path)
    return path


def decided(ensemble: Path, new: Path, out: Path, keep: Sequence[str] = (), batch: int = 11) -> DecisionSummary:
    tables = find_tables([str(new)])
    return decide_table(open_ensemble(ensemble, tables), tables, out, batch=batch, keep=keep)


def read_arrow(path: Path) -> pa.Table:
    return pq.read_table(path) if path.suffix == ".parquet" else pf.read_table(str(path))


# The key


@ENDS
@pytest.mark.parametrize(("roles", "key"), [("none", "row"), ("time", "date"), ("id", "day")])
def test_decisions_begin_with_a_key(roles: str, key: str, end: str, folder: Path, tmp_path: Path) -> None:
    summary = decided(folder / f"{roles}.oe", write(NEW, tmp_path / "new.parquet"), tmp_path / f"d.{end}")
    found = pd.read_csv(tmp_path / "d.csv") if end == "csv" else read_arrow(tmp_path / f"d.{end}").to_pandas()
    assert summary.key == key
    assert list(found) == [key, *DECIDED]
    assert found[key].tolist() == (list(range(N)) if key == "row" else NEW[key].tolist())


def test_rows_without_their_time_are_numbered(folder: Path, tmp_path: Path) -> None:
    new = write(NEW.drop(columns="date"), tmp_path / "new.parquet")
    assert decided(folder / "time.oe", new, tmp_path / "d.parquet").key == "row"
    assert read_arrow(tmp_path / "d.parquet")["row"].to_pylist() == list(range(N))


def test_ids_in_a_csv_file_are_text(folder: Path, tmp_path: Path) -> None:
    new = write(NEW.assign(day=[f"{i:03d}" for i in range(N)]), tmp_path / "new.csv")
    decided(folder / "id.oe", new, tmp_path / "d.parquet")
    assert read_arrow(tmp_path / "d.parquet")["day"].to_pylist() == [f"{i:03d}" for i in range(N)]


DAYS = [dt.date(2026, 1, 1) + dt.timedelta(days=i) for i in range(N)]
TIMES = [dt.datetime(2026, 1, 1, 6) + dt.timedelta(hours=i) for i in range(N)]


@pytest.mark.parametrize("out", ["parquet", "arrow"])
@ENDS
@pytest.mark.parametrize(("roles", "key"), [("time", "date"), ("id", "day")])
def test_a_key_of_dates_stays_one(roles: str, key: str, end: str, out: str, folder: Path, tmp_path: Path) -> None:
    new = write(NEW.drop(columns=key), tmp_path / f"new.{end}", **{key: pa.array(DAYS, pa.date32())})
    decided(folder / f"{roles}.oe", new, tmp_path / f"d.{out}")
    column = read_arrow(tmp_path / f"d.{out}")[key]
    if end == "csv" and roles == "id":  # ids in a CSV file are text
        assert column.to_pylist() == [str(day) for day in DAYS]
    else:
        assert (column.type, column.to_pylist()) == (pa.date32(), DAYS)


@pytest.mark.parametrize("end", ["parquet", "arrow"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_key_of_times_stays_one(unit: str, end: str, folder: Path, tmp_path: Path) -> None:
    new = write(NEW.drop(columns="date"), tmp_path / "new.arrow", date=pa.array(TIMES, pa.timestamp(unit, "UTC")))
    decided(folder / "time.oe", new, tmp_path / f"d.{end}")
    column = read_arrow(tmp_path / f"d.{end}")["date"]
    assert pa.types.is_timestamp(column.type)
    assert [time.replace(tzinfo=None) for time in column.to_pandas().dt.to_pydatetime()] == TIMES


@pytest.mark.parametrize("end", ["parquet", "csv"])
def test_dates_and_times_of_a_csv_file_stay_as_they_are_written(end: str, folder: Path, tmp_path: Path) -> None:
    texts = ["2026-01-31" if i < 20 else f"2026-01-31T{i - 20:02d}:00" for i in range(N)]
    decided(folder / "time.oe", write(NEW.assign(date=texts), tmp_path / "new.csv"), tmp_path / f"d.{end}")
    found = pd.read_csv(tmp_path / "d.csv") if end == "csv" else read_arrow(tmp_path / "d.parquet").to_pandas()
    assert found["date"].tolist() == texts
    decided(folder / "time.oe", write(NEW.assign(date=texts[:1] * N), tmp_path / "new.csv"), tmp_path / "d.csv")
    assert pd.read_csv(tmp_path / "d.csv")["date"].tolist() == texts[:1] * N


def test_a_time_that_is_called_as_a_column_of_the_decisions_is_refused(tmp_path: Path) -> None:
    write_table(make_rows().rename(columns={"date": "low"}), tmp_path / "history.csv")
    fit_job(prepare(read_job(write_job(tmp_path, data={"time": "low"})))).save(tmp_path / "e.oe")
    new = write(NEW.rename(columns={"date": "low"}), tmp_path / "new.csv")
    with pytest.raises(InputError, match=r"the time column 'low' has the name .* Rename it, or name an --id-column\."):
        decided(tmp_path / "e.oe", new, tmp_path / "d.csv")


# Columns that are copied

TYPED: dict[str, pa.Array] = {
    "whole": pa.array([None if i == 3 else i for i in range(N)], pa.int32()),
    "share": pa.array([i / 7 for i in range(N)], pa.float32()),
    "flag": pa.array([i % 2 == 0 for i in range(N)]),
    "note": pa.array([None if i == 5 else f"note, {i}" for i in range(N)]),
    "on": pa.array(DAYS, pa.date32()),
    "at": pa.array(TIMES, pa.timestamp("us")),
    "kind": pa.array([f"k{i % 3}" for i in range(N)]).dictionary_encode(),
    "price": pa.array([Decimal(f"{i}.25") for i in range(N)], pa.decimal128(8, 2)),
}


@pytest.mark.parametrize("out", ["parquet", "arrow"])
@pytest.mark.parametrize("end", ["parquet", "arrow"])
def test_columns_are_copied_in_their_types(end: str, out: str, folder: Path, tmp_path: Path) -> None:
    new = write(NEW, tmp_path / f"new.{end}", **TYPED)
    decided(folder / "id.oe", new, tmp_path / f"d.{out}", keep=[",".join(TYPED), "a_0"])
    found, plain = read_arrow(tmp_path / f"d.{out}"), tmp_path / f"plain.{out}"
    assert found.column_names == ["day", *TYPED, "a_0", *DECIDED]
    for name, values in TYPED.items():
        decoded = values.dictionary_decode() if name == "kind" else values
        assert found[name].type == decoded.type, name
        assert found[name].to_pylist() == decoded.to_pylist(), name
    assert found["a_0"].to_pylist() == NEW["a_0"].tolist()
    decided(folder / "id.oe", new, plain)
    assert found.select(["day", *DECIDED]).equals(read_arrow(plain))  # decisions do not depend on it


@pytest.mark.parametrize("out", ["parquet", "csv"])
def test_columns_of_a_csv_file_are_copied_as_they_are_written(out: str, folder: Path, tmp_path: Path) -> None:
    texts = {"code": [f"{i:03d}" for i in range(N)], "share": ["1.50"] * N, "gap": ["", *["NA"] * (N - 1)]}
    new = write_table(NEW.assign(**texts, on=[*map(str, DAYS[:-1]), ""]), tmp_path / "new.csv")
    decided(folder / "none.oe", new, tmp_path / f"d.{out}", keep=["code", "share", "gap", "on"])
    if out == "parquet":
        found = read_arrow(tmp_path / "d.parquet")
        assert {name: found[name].to_pylist() for name in texts} == texts
        assert (found["on"].type, found["on"].to_pylist()) == (pa.date32(), [*DAYS[:-1], None])
    else:
        written = pd.read_csv(tmp_path / "d.csv", dtype=str, keep_default_na=False)
        assert {name: written[name].tolist() for name in texts} == texts
        assert written["on"].tolist() == [*map(str, DAYS[:-1]), ""]


def test_a_column_that_members_match_by_a_pattern_can_be_copied(folder: Path, tmp_path: Path) -> None:
    new = write(NEW, tmp_path / "new.parquet", a_note=pa.array(["x"] * N), **{"with, comma": pa.array(["y"] * N)})
    decided(folder / "none.oe", new, tmp_path / "d.parquet", keep=["a_note", "with, comma", "a_note"])
    found = read_arrow(tmp_path / "d.parquet")
    assert found.column_names == ["row", "a_note", "with, comma", *DECIDED]


def test_files_of_several_formats_are_one_table(folder: Path, tmp_path: Path) -> None:
    halves = {"parquet": slice(0, 15), "csv": slice(15, N)}
    for end, part in halves.items():
        write(NEW[part], tmp_path / f"new.{end}", on=pa.array(DAYS[part], pa.date32()))
    tables = find_tables([str(tmp_path / f"new.{end}") for end in halves])
    decide_table(open_ensemble(folder / "none.oe", tables), tables, tmp_path / "d.parquet", keep=["on"])
    found = read_arrow(tmp_path / "d.parquet")
    assert found["on"].to_pylist() == DAYS
    assert found["row"].to_pylist() == list(range(N))


@pytest.mark.parametrize(
    ("roles", "keep", "message"),
    [
        (
            "id",
            "region,promised",
            "--keep names 'promised', which is the name of a column of the decisions. Rename it in",
        ),
        ("id", "action_1", "--keep names 'action_1', which is the name of a column of the decisions. Rename it in"),
        ("none", "row", "--keep names 'row', which is the name of a column of the decisions. Rename it in"),
        ("id", "day", "--keep names 'day', which is written anyway, as the key. Leave it out."),
        ("time", "date", "--keep names 'date', which is written anyway, as the key. Leave it out."),
        ("id", "regoin", "has no column 'regoin'. Did you mean 'region'?"),
    ],
)
def test_columns_that_cannot_be_copied_are_refused(
    roles: str, keep: str, message: str, folder: Path, tmp_path: Path
) -> None:
    new = write(NEW.assign(promised=1, action_1=2, row=3), tmp_path / "new.csv")
    with pytest.raises(InputError, match=re.escape(message)):
        decided(folder / f"{roles}.oe", new, tmp_path / "d.csv", keep=[keep])
    assert not (tmp_path / "d.csv").exists()


def test_lists_do_not_go_into_a_csv_file(folder: Path, tmp_path: Path) -> None:
    new = write(NEW, tmp_path / "new.parquet", tags=pa.array([["x", "y"]] * N))
    with pytest.raises(
        InputError, match=r"column 'tags' holds list<.*>, which a CSV file cannot\. Leave it out, or write"
    ):
        decided(folder / "none.oe", new, tmp_path / "d.csv", keep=["tags"])
    assert leftovers(tmp_path) == []
    decided(folder / "none.oe", new, tmp_path / "d.parquet", keep=["tags"])
    assert read_arrow(tmp_path / "d.parquet")["tags"].to_pylist() == [["x", "y"]] * N


def test_rows_are_numbered_over_batches(folder: Path, tmp_path: Path) -> None:
    new = write(NEW, tmp_path / "new.parquet")
    for batch in (1, 7, 100):
        decided(folder / "none.oe", new, tmp_path / "d.parquet", batch=batch)
        np.testing.assert_array_equal(read_arrow(tmp_path / "d.parquet")["row"].to_numpy(), np.arange(N))
