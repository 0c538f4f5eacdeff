"""Batches of numbers are decided without pandas, and as frames of pandas are: the same table, the same errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import optensemble.jobs.decide as module
from optensemble.exceptions import InputError
from optensemble.jobs.decide import decide_table
from optensemble.jobs.fit import fit_job, prepare
from optensemble.jobs.job import read_job
from optensemble.jobs.saved_ensemble import open_ensemble
from optensemble.tables.reading import ColumnSelection, NumberBatch, Tables, find_tables
from tests.jobs.worlds import LABELS, make_rows, write_job, write_table

NEW = make_rows(90, seed=1).drop(columns=[*LABELS, "customer", "date", "region"]).assign(day=np.arange(90) + 7)
MEMBERS = [name for name in NEW if name != "day" and NEW[name].dtype == float]


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("numbers")
    write_table(make_rows().assign(day=np.arange(len(make_rows()))), folder / "history.parquet")
    job = write_job(folder, data={"fit": "history.parquet", "id": "day"})
    fit_job(prepare(read_job(job))).save(folder / "e.oe")
    return folder / "e.oe"


def decided(ensemble: Path, rows: pa.Table, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Decide for rows in batches by way of numbers, and by way of pandas; return tables, or errors."""
    pq.write_table(rows, folder / "new.parquet")
    tables, found = find_tables([str(folder / "new.parquet")]), list[Any]()
    for name in ("number_batches", "batches"):
        with monkeypatch.context() as patch:
            patch.setattr(Tables, "number_batches", getattr(Tables, name))
            try:
                saved = open_ensemble(ensemble, tables, to_decide=True)
                summary = decide_table(saved, tables, folder / f"{name}.parquet", batch=20)
                found.append((pq.read_table(folder / f"{name}.parquet"), summary.promise, summary.absent))
            except InputError as error:
                found.append(str(error))
    return found


def gaps(rows: pd.DataFrame, value: float | None) -> pa.Table:
    """Return rows of which one, in the third batch, has a value in place of a member's."""
    table = pa.Table.from_pandas(rows, preserve_index=False)
    column = rows[MEMBERS[0]].tolist()
    column[47] = value
    return table.set_column(table.schema.get_field_index(MEMBERS[0]), MEMBERS[0], pa.array(column, pa.float64()))


@pytest.mark.parametrize(
    "rows",
    [
        pa.Table.from_pandas(NEW, preserve_index=False),
        pa.Table.from_pandas(NEW.astype(dict.fromkeys(MEMBERS, "float32")), preserve_index=False),
        pa.Table.from_pandas(NEW.astype({MEMBERS[0]: int, "day": "uint16"}), preserve_index=False),
        pa.Table.from_pandas(NEW.assign(day=[f"day {i}" for i in range(90)]), preserve_index=False),
        gaps(NEW, None),
        gaps(NEW, float("nan")),
        gaps(NEW, float("inf")),
        gaps(NEW, 1e200),
        pa.Table.from_pandas(NEW.assign(day=[*range(89), 3]), preserve_index=False),
        pa.Table.from_pandas(NEW.assign(day=NEW["day"].to_numpy()[::-1]), preserve_index=False),
    ],
    ids=["plain", "float32", "whole", "text", "null", "nan", "infinite", "large", "repeated", "decreasing"],
)
def test_both_ways_decide_alike(
    rows: pa.Table, ensemble: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_numbers, by_pandas = decided(ensemble, rows, tmp_path, monkeypatch)
    if isinstance(by_pandas, str):
        assert by_numbers == by_pandas
    else:
        assert by_numbers[0].equals(by_pandas[0])
        assert by_numbers[1:] == by_pandas[1:]


def test_rows_of_numbers_are_read_without_pandas(ensemble: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[Any]()
    monkeypatch.setattr(module, "_decide_part", lambda policy, features, grouped: read.append(grouped[0]))
    new = write_table(NEW, ensemble.parent / "new.parquet")
    with pytest.raises(TypeError):  # nothing was decided
        decide_table(open_ensemble(ensemble, Tables((new,))), Tables((new,)), ensemble.parent / "out.parquet")
    assert isinstance(read[0], NumberBatch)
    pd.testing.assert_frame_equal(read[0].to_pandas()[NEW.columns.tolist()], NEW)


def test_numbers_that_must_be_there_are_validated(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1.0, None]}), tmp_path / "t.parquet")
    tables = Tables((tmp_path / "t.parquet",))
    with pytest.raises(InputError, match="column 'a' has no value in row 1"):
        list(tables.number_batches(ColumnSelection(numbers=("a",))))
    optional = ColumnSelection(numbers=("a",), optional=frozenset("a"))
    assert all(isinstance(batch, pd.DataFrame) for batch in tables.number_batches(optional))
